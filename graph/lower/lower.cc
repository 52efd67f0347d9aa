#include "graph/lower/lower.h"

#include <algorithm>

#include "graph/cost.h"
#include "graph/lower/lowering.h"
#include "graph/passes/permutation.h"

namespace lathe {

Result<Target> parse_target(std::string_view name) {
  if (name == "host") return Target::kHost;
  if (name == "cortex-m" || name == "cortex-m4") return Target::kCortexM;
  return fail(Code::kInvalidArgument, "no target '" + std::string(name) + "'; the targets are host, cortex-m4");
}

const char* target_name(Target target) { return target == Target::kHost ? "host" : "cortex-m4"; }

bool is_s8(const Graph& graph, ValueId v) { return graph.value(v).type.dtype == DType::kS8 && graph.value(v).quant.has_value(); }

Result<QuantParams> tensor_quant(const Value& value) {
  if (!value.quant) return fail(Code::kUnsupported, "'" + value.name + "' has no quantization parameters");
  const Quant& q = *value.quant;
  if (q.axis >= 0 || q.scales.size() != 1 || q.zero_points.size() != 1) {
    return fail(Code::kUnsupported, "'" + value.name + "' has parameters per channel, the op needs them per tensor");
  }
  return QuantParams{q.scales[0], q.zero_points[0], q.qmin, q.qmax};
}

Result<std::vector<int64_t>> static_dims(const Graph& graph, ValueId v) {
  std::vector<int64_t> dims;
  for (Dim d : graph.value(v).type.dims) {
    const std::optional<int64_t> n = graph.dims().value(d);
    if (!n) return fail(Code::kUnsupported, "'" + graph.value(v).name + "' has the unknown dim " + graph.dims().text(d));
    dims.push_back(*n);
  }
  return dims;
}

Result<uint32_t> Lowering::define(ValueId v, TensorKind kind, uint32_t port) {
  const Value& value = graph.value(v);
  ImageWriter::TensorSpec spec{
      .dtype = value.type.dtype, .kind = kind, .layout = Layout::kPlain, .quant = {}, .port = port, .value = v};
  if (value.quant) {
    LATHE_TRY(spec.quant, tensor_quant(value));
  }
  if (kind != TensorKind::kConstant && kind != TensorKind::kVariable) {
    LATHE_TRY(tensors_[v], writer.tensor(spec, value.type.dims));
    return tensors_[v];
  }
  LATHE_TRY(const std::vector<int64_t> dims, static_dims(graph, v));
  const auto* p = reinterpret_cast<const uint8_t*>(value.constant.bytes.data());
  LATHE_TRY(tensors_[v], writer.stored(spec, dims, std::vector<uint8_t>(p, p + value.constant.bytes.size())));
  return tensors_[v];
}

Result<uint32_t> Lowering::operand(ValueId v) {
  if (v == kNoId) return kNoTensor;
  if (tensors_[v] != kNoTensor) return tensors_[v];
  if (graph.value(v).kind == ValueKind::kConstant) return define(v, TensorKind::kConstant, 0);
  return fail(Code::kInvalidArgument, "operand '" + graph.value(v).name + "' is not made before it is read");
}

namespace {

// Operands that a node reads when it runs: what only says how large its result is, is in the result's dims.
std::vector<ValueId> run_operands(const Node& node) {
  const size_t n = node.op == Op::kReshape || node.op == Op::kExpand || node.op == Op::kTrim ? 1
                   : node.op == Op::kRange                                                   ? 3
                                                                                             : node.inputs.size();
  return {node.inputs.begin(), node.inputs.begin() + static_cast<std::ptrdiff_t>(std::min(n, node.inputs.size()))};
}

// Operands without which a node cannot run: those it reads, and those that become dims only when they have been computed.
std::vector<ValueId> needed_operands(const Graph& graph, const Node& node) {
  std::vector<ValueId> needed = run_operands(node);
  for (size_t i = needed.size(); i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    if (v == kNoId || !graph.value(v).contents) continue;
    const std::vector<Dim>& contents = *graph.value(v).contents;
    if (std::any_of(contents.begin(), contents.end(), [&](Dim d) { return graph.dims().depends_on_data(d); }))
      needed.push_back(v);
  }
  return needed;
}

// Nodes that outputs and variables depend on when the program runs, in order.
std::vector<NodeId> needed_nodes(const Graph& graph) {
  std::vector<bool> read(graph.value_count(), false);
  for (ValueId v : graph.outputs()) read[v] = true;
  std::vector<NodeId> needed;
  for (size_t i = graph.order().size(); i-- > 0;) {
    const Node& node = graph.node(graph.order()[i]);
    const bool used =
        node.outputs.empty() || std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) { return read[v]; });
    if (!used) continue;
    needed.push_back(graph.order()[i]);
    for (ValueId v : needed_operands(graph, node)) {
      if (v != kNoId) read[v] = true;
    }
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

bool is_table_op(const Graph& graph, const Node& node) {
  return op_def(node.op).as_table && is_s8(graph, node.inputs[0]);
}

// A Transpose that moves only axes of size 1 is a Reshape: its bytes stay.
bool keeps_bytes(const Graph& graph, const Node& node) {
  const Ints* perm = passes::transpose_perm(&node);
  return perm != nullptr && passes::moves_only_ones(graph.dims(), graph.value(node.inputs[0]).type, *perm);
}

// What Extents makes of data becomes dims; where everything is known before, nothing ends.
Result<void> end_segment(Lowering& state, const Node& node) {
  const int32_t number = std::get<ExtentsAttrs>(node.attrs).number;
  for (Dim d : *state.graph.value(node.outputs[0]).contents) {
    const DimNode& dim = state.graph.dims().node(d);
    if (dim.op != DimOp::kValue || dim.a != number) continue;
    LATHE_TRY(const uint32_t tensor, state.operand(node.outputs[0]));
    return state.writer.end_segment(number, tensor);
  }
  return {};
}

Result<void> lower_node(Lowering& state, const Node& node) {
  const Graph& graph = state.graph;
  if (!node.regions.empty()) return fail(Code::kUnsupported, "regions are not supported");
  if (has_half_operand(graph, node)) {
    const HalfForm form = op_def(node.op).half;
    if (form == HalfForm::kNone) return fail(Code::kUnsupported, "no form for operands in half precision");
    if (form == HalfForm::kWidened) return lower_widened(state, node);
  }
  if (node.op == Op::kConv2d || node.op == Op::kConvTranspose2d || node.op == Op::kFullyConnected)
    return lower_conv(state, node);
  if (node.op == Op::kDynamicFullyConnected) return lower_dynamic(state, node);
  if (is_table_op(graph, node)) return lower_table(state, node);
  if (node.op == Op::kSoftmax && is_s8(graph, node.inputs[0])) return lower_softmax(state, node);
  if (node.op == Op::kLayerNorm && is_s8(graph, node.inputs[0])) return lower_layer_norm(state, node);
  std::vector<uint32_t> inputs;
  for (ValueId v : run_operands(node)) {
    LATHE_TRY(const uint32_t t, state.operand(v));
    inputs.push_back(t);
  }
  if (keeps_bytes(graph, node)) return state.emit(node, Op::kReshape, NoAttrs{}, std::move(inputs));
  LATHE_CHECK_OK(state.emit(node, node.op, node.attrs, std::move(inputs)));
  return node.op == Op::kExtents ? end_segment(state, node) : Result<void>{};
}

Result<void> define_results(Lowering& state, const Node& node) {
  const std::vector<ValueId>& outputs = state.graph.outputs();
  for (ValueId v : node.outputs) {
    const auto port = std::find(outputs.begin(), outputs.end(), v);
    const bool temporary = port == outputs.end();
    LATHE_CHECK_OK(state.define(v, temporary ? TensorKind::kTemporary : TensorKind::kOutput,
                                temporary ? 0 : static_cast<uint32_t>(port - outputs.begin())));
  }
  return {};
}

// Outputs that are inputs, constants or variables are copies.
Result<void> copy_outputs(Lowering& state) {
  const Graph& graph = state.graph;
  for (uint32_t port = 0; port < graph.outputs().size(); ++port) {
    const ValueId v = graph.outputs()[port];
    if (graph.value(v).kind == ValueKind::kTemporary) continue;
    const Value& value = graph.value(v);
    ImageWriter::TensorSpec spec{
        .dtype = value.type.dtype, .kind = TensorKind::kOutput, .layout = Layout::kPlain, .quant = {}, .port = port, .value = v};
    if (value.quant) {
      LATHE_TRY(spec.quant, tensor_quant(value));
    }
    LATHE_TRY(const uint32_t from, state.operand(v));
    LATHE_TRY(const uint32_t to, state.writer.tensor(spec, value.type.dims));
    LATHE_CHECK_OK(state.writer.step({Op::kReshape, NoAttrs{}, {from}, {to}, Dim{}, {value.name, op_name(Op::kReshape), 0}}));
  }
  return {};
}

std::vector<ValueId> variables_of(const Graph& graph) {
  std::vector<ValueId> variables;
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!graph.value(v).dead && graph.value(v).kind == ValueKind::kVariable) variables.push_back(v);
  return variables;
}

Result<void> define_ports(Lowering& state) {
  const Graph& graph = state.graph;
  for (uint32_t port = 0; port < graph.inputs().size(); ++port) {
    LATHE_CHECK_OK(state.define(graph.inputs()[port], TensorKind::kInput, port));
  }
  const std::vector<ValueId> variables = variables_of(graph);
  for (uint32_t port = 0; port < variables.size(); ++port)
    LATHE_CHECK_OK(state.define(variables[port], TensorKind::kVariable, port));
  return {};
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (ValueId v : values) names.push_back(graph.value(v).name);
  return names;
}

}  // namespace

Result<void> Lowering::emit(const Node& node, Op op, const Attrs& attrs, std::vector<uint32_t> inputs) {
  std::vector<uint32_t> outputs;
  for (ValueId v : node.outputs) outputs.push_back(tensors_[v]);
  return emit(node, op, attrs, std::move(inputs), std::move(outputs));
}

Result<void> Lowering::emit(const Node& node, Op op, const Attrs& attrs, std::vector<uint32_t> inputs,
                            std::vector<uint32_t> outputs) {
  LATHE_TRY(const Dim macs, node_macs(graph, node));
  return writer.step(
      {op, attrs, std::move(inputs), std::move(outputs), macs, {node.name, op_name(op), node_parameter_bytes(graph, node)}});
}

Result<ProgramImage> lower(const Graph& graph, Target target, SparseWeights sparse) {
  ImageWriter writer(graph.dims());
  Lowering state(graph, writer, sparse == SparseWeights::kAuto && target == Target::kHost);
  LATHE_CHECK_OK(define_ports(state));
  for (NodeId n : needed_nodes(graph)) {
    const Node& node = graph.node(n);
    Result<void> done = define_results(state, node);
    if (done) done = lower_node(state, node);
    if (!done)
      return tl::unexpected<Error>(with_context(std::move(done.error()), std::string(op_name(node.op)) + " '" + node.name + "'"));
  }
  LATHE_CHECK_OK(copy_outputs(state));
  LATHE_TRY(ProgramImage image, writer.finish(target));
  image.input_names = names_of(graph, graph.inputs());
  image.output_names = names_of(graph, graph.outputs());
  image.variable_names = names_of(graph, variables_of(graph));
  return image;
}

}  // namespace lathe
