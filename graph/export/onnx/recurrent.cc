// Lstm, Gru and Rnn. In the graph the product of the inputs with their weights is a FullyConnected before the layer; ONNX has
// both in one operator, whose weights have an axis of directions in front.
#include "graph/export/onnx/node_export.h"
#include "graph/passes/permutation.h"

namespace lathe::onnx {
namespace {

enum Operand : size_t { kGates, kRecurrent, kBias, kState, kLengths, kCell, kPeepholes };

bool is_recurrent(Op op) { return op == Op::kLstm || op == Op::kGru || op == Op::kRnn; }

struct FunctionName {
  const char* name;
  int parameters;
};
// By CellFunction.
constexpr FunctionName kFunctions[kCellFunctions] = {
    {"Sigmoid", 0},         {"Tanh", 0},        {"Relu", 0},        {"Affine", 2}, {"LeakyRelu", 1},
    {"ThresholdedRelu", 1}, {"ScaledTanh", 2}, {"HardSigmoid", 2}, {"Elu", 1},    {"Softsign", 0},
};

// Whether `to` is `from` with an axis of 1 at `axis`.
bool adds_axis(const Graph& graph, ValueId from, ValueId to, std::ptrdiff_t axis) {
  std::vector<Dim> dims = graph.value(to).type.dims;
  if (dims.size() != graph.value(from).type.dims.size() + 1 || !graph.dims().is(dims[static_cast<size_t>(axis)], 1)) return false;
  dims.erase(dims.begin() + axis);
  return dims == graph.value(from).type.dims;
}

// Operand i with an axis of one direction in front; "" if there is none.
std::string with_direction(NodeExport& e, size_t i, const char* tag) {
  if (!e.has(i)) return "";
  const Value& v = e.value(i);
  // Import took that axis off.
  const Node* made = e.graph().producer(e.node().inputs[i]);
  if (made != nullptr && made->op == Op::kReshape && adds_axis(e.graph(), e.node().inputs[i], made->inputs[0], 0))
    return e.out().tensor(made->inputs[0], false);
  if (v.kind != ValueKind::kConstant) return e.step(tag, "Unsqueeze", {e.native_input(i), e.integers("first", {0})});
  std::vector<int64_t> dims = {1};
  for (const Dim d : v.type.dims) dims.push_back(e.graph().dims().value(d).value_or(0));
  return e.out().constant(e.node().name + ":" + tag, DType::kF32, dims, e.floats(v));
}

// Both biases behind each other, in the width of the gates.
Result<std::string> biases(NodeExport& e, const Value* of_inputs, size_t width) {
  if (of_inputs == nullptr && !e.has(kBias)) return std::string();
  std::vector<float> both;
  for (const Value* b : {of_inputs, e.has(kBias) ? &e.value(kBias) : nullptr}) {
    if (b != nullptr && b->kind != ValueKind::kConstant)
      return fail(Code::kUnsupported, "bias '" + b->name + "' is not constant");
    const std::vector<float> part = b == nullptr ? std::vector<float>(width) : e.floats(*b);
    both.insert(both.end(), part.begin(), part.end());
  }
  return e.out().constant(e.node().name + ":B", DType::kF32, {1, static_cast<int64_t>(both.size())}, both);
}

// The ONNX operator's result i has an axis of directions, as the Reshapes that import puts behind it: they give it its name, and
// other readers what a Squeeze leaves.
struct Output {
  std::string name;
  bool squeezed = false;
};
std::ptrdiff_t direction_axis(size_t i) { return i == 0 ? 1 : 0; }

Output define_output(NodeExport& e, size_t i) {
  const ValueId v = e.node().outputs[i];
  Output out{"", e.graph().is_output(v)};
  for (const NodeId reader : e.graph().consumers(v)) {
    const Node& node = e.graph().node(reader);
    if (node.op != Op::kReshape || !adds_axis(e.graph(), v, node.outputs[0], direction_axis(i))) out.squeezed = true;
    else if (out.name.empty()) out.name = e.out().define(node.outputs[0], false);
    else e.out().alias(node.outputs[0], false, out.name);
  }
  if (out.name.empty()) out.name = e.out().fresh(e.node().name + ":y" + std::to_string(i));
  return out;
}

std::vector<std::string> attributes_of(const Node& node, int64_t hidden) {
  const auto& a = std::get<RecurrentAttrs>(node.attrs);
  const size_t functions = node.op == Op::kLstm ? 3 : node.op == Op::kGru ? 2 : 1;
  const float parameters[3][2] = {{a.f_a, a.f_b}, {a.g_a, a.g_b}, {a.h_a, a.h_b}};
  std::vector<std::string> names;
  std::vector<float> alpha, beta;
  for (size_t i = 0; i < functions; ++i) {
    const FunctionName& f = kFunctions[a.functions[i]];
    names.emplace_back(f.name);
    if (f.parameters > 0) alpha.push_back(parameters[i][0]);
    if (f.parameters > 1) beta.push_back(parameters[i][1]);
  }
  std::vector<std::string> out = {int_attribute("hidden_size", hidden),
                                  text_attribute("direction", a.reverse != 0 ? "reverse" : "forward"),
                                  texts_attribute("activations", names)};
  if (!alpha.empty()) out.push_back(floats_attribute("activation_alpha", alpha));
  if (!beta.empty()) out.push_back(floats_attribute("activation_beta", beta));
  if (a.clip != 0) out.push_back(float_attribute("clip", a.clip));
  if (node.op == Op::kGru) out.push_back(int_attribute("linear_before_reset", a.reset_after));
  if (node.op == Op::kLstm) out.push_back(int_attribute("input_forget", a.coupled_gates));
  return out;
}

// The product with the inputs' weights.
const Node* gates_product(const Graph& graph, const Node& layer) {
  if (!is_recurrent(layer.op)) return nullptr;
  const Node* product = graph.producer(layer.inputs[kGates]);
  if (product == nullptr || product->op != Op::kFullyConnected || graph.consumers(layer.inputs[kGates]).size() != 1 ||
      graph.is_output(layer.inputs[kGates]))
    return nullptr;
  const bool plain = std::get<FullyConnectedAttrs>(product->attrs) == FullyConnectedAttrs{} &&
                     (product->inputs.size() < 4 || product->inputs[3] == kNoId);
  const Value& w = graph.value(product->inputs[1]);
  return plain && w.kind == ValueKind::kConstant && w.type.dtype == DType::kF32 ? product : nullptr;
}

}  // namespace

bool belongs_to_layer(const Graph& graph, const Node& node) {
  const ValueId v = node.outputs[0];
  const std::vector<NodeId> readers = graph.consumers(v);
  if (readers.empty() || graph.is_output(v)) return false;
  const bool gives_state = node.op == Op::kReshape && adds_axis(graph, v, node.inputs[0], 0);
  return std::all_of(readers.begin(), readers.end(), [&](NodeId reader) {
    const Node& layer = graph.node(reader);
    return (gives_state && is_recurrent(layer.op)) || gates_product(graph, layer) == &node;
  });
}

Result<void> export_recurrent(NodeExport& e) {
  const Node* product = gates_product(e.graph(), e.node());
  if (product == nullptr) return fail(Code::kUnsupported, "its gates are no product of inputs and constant weights");
  const Value &w = e.graph().value(product->inputs[1]), &r = e.value(kRecurrent);
  if (r.kind != ValueKind::kConstant) return fail(Code::kUnsupported, "weight '" + r.name + "' is not constant");
  const auto size = [&](const Value& v, size_t i) { return e.graph().dims().value(v.type.dims[i]).value_or(0); };
  const int64_t width = size(w, 0), hidden = size(r, 0);
  const std::string stem = e.node().name;
  const Constant recurrent = passes::permuted(r.constant, sizeof(float), {hidden, width}, Ints{2, {1, 0}});
  std::vector<std::string> inputs = {
      e.out().tensor(product->inputs[0], false),
      e.out().constant(stem + ":W", DType::kF32, {1, width, size(w, 1)}, e.floats(w)),
      e.out().constant(stem + ":R", DType::kF32, {1, width, hidden},
                       std::vector<float>(recurrent.as<float>().begin(), recurrent.as<float>().end()))};
  const bool has_bias = product->inputs.size() > 2 && product->inputs[2] != kNoId;
  LATHE_TRY(inputs.emplace_back(),
            biases(e, has_bias ? &e.graph().value(product->inputs[2]) : nullptr, static_cast<size_t>(width)));
  inputs.push_back(e.has(kLengths) ? e.native_input(kLengths) : "");
  inputs.push_back(with_direction(e, kState, "initial_h"));
  if (e.node().op == Op::kLstm) {
    inputs.push_back(with_direction(e, kCell, "initial_c"));
    inputs.push_back(with_direction(e, kPeepholes, "P"));
  }
  const char* op_type = e.node().op == Op::kLstm ? "LSTM" : e.node().op == Op::kGru ? "GRU" : "RNN";
  std::vector<Output> outputs;
  std::vector<std::string> names;
  for (size_t i = 0; i < e.node().outputs.size(); ++i) names.push_back(outputs.emplace_back(define_output(e, i)).name);
  e.out().writer.node(op_type, e.out().node_name(stem), inputs, names, attributes_of(e.node(), hidden));
  for (size_t i = 0; i < names.size(); ++i)
    if (outputs[i].squeezed)
      e.out().writer.node("Squeeze", e.out().node_name(names[i]), {names[i], e.integers("direction", {direction_axis(i)})},
                          {e.out().define(e.node().outputs[i], false)}, {});
  return {};
}

}  // namespace lathe::onnx
