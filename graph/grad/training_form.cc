#include "graph/grad/training_form.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "graph/fake_quant.h"
#include "graph/grad/emit.h"
#include "graph/rewriter.h"

namespace lathe {
namespace {

// Nothing for an operand that is no parameter.
std::optional<ParameterRole> role_of(const Node& node, size_t i) {
  const OpDef& def = op_def(node.op);
  const auto only = [](bool is, ParameterRole role) { return is ? std::optional(role) : std::nullopt; };
  if (node.op == Op::kBatchNorm) return i == 1 || node.op == Op::kStepSize ? ParameterRole::kScale : only(i == 2, ParameterRole::kBias);
  if (node.op == Op::kMatMul) return ParameterRole::kWeight;
  if (def.takes_rows != nullptr && def.takes_rows(node.attrs)) return only(i == 0, ParameterRole::kTable);
  switch (quant_rule(def, i).role) {
    case QuantRole::kWeight: return ParameterRole::kWeight;
    case QuantRole::kBias: return ParameterRole::kBias;
    case QuantRole::kFloatConstant: return i == 1 ? ParameterRole::kScale : ParameterRole::kBias;
    default: return {};
  }
}

// How many elements of operand `i`, a weight of known dims, go into one result.
int64_t fan_in(const Graph& graph, const Node& node, size_t i) {
  const TensorType& type = graph.value(node.inputs[i]).type;
  const auto extent = [&](size_t axis) { return graph.dims().value(type.dims[axis]).value_or(1); };
  if (const auto* a = std::get_if<MatMulAttrs>(&node.attrs)) {
    const Ints& perm = i == 0 ? a->a_perm : a->b_perm;
    const size_t rank = type.dims.size(), axis = rank < 2 ? 0 : i == 0 ? rank - 1 : rank - 2;
    return extent(perm.count == 0 ? axis : static_cast<size_t>(perm[static_cast<int32_t>(axis)]));
  }
  int64_t n = 1;
  for (size_t k = 0; k < type.dims.size(); ++k)
    if (static_cast<int>(k) != quant_rule(op_def(node.op), i).axis) n *= extent(k);
  return n;
}

// A constant in an Add or Mul is a bias, a scale or a table of positions only by what it is: see the header.
class ConstantOperand {
 public:
  ConstantOperand(const Graph& graph, const Node& node, size_t i) : graph_(graph), node_(node), value_(graph.value(node.inputs[i])) {
    for (const Dim d : value_.type.dims) long_axes_ += graph.dims().value(d) != 1 ? 1 : 0;
  }

  // Nothing for one that stays constant.
  std::optional<ParameterRole> role() const {
    if (value_.kind != ValueKind::kConstant || value_.type.dtype != DType::kF32 || long_axes_ == 0) return {};
    if (long_axes_ == 1) return node_.op == Op::kMul ? ParameterRole::kScale : ParameterRole::kBias;
    if (node_.op == Op::kAdd && spans_channels() && !feeds_scores() && !is_mask()) return ParameterRole::kTable;
    return {};
  }

 private:
  bool spans_channels() const {
    const std::vector<Dim>&own = value_.type.dims, &all = graph_.value(node_.outputs[0]).type.dims;
    return own.back() == all.back() && graph_.dims().value(own.back()) != 1;
  }
  bool feeds_scores() const {
    for (const NodeId n : graph_.consumers(node_.outputs[0]))
      if (graph_.node(n).op == Op::kSoftmax || graph_.node(n).op == Op::kMaskedSoftmax) return true;
    return false;
  }
  bool is_mask() const {
    bool only_flags = true;
    for (const float v : value_.constant.as<float>()) {
      if (!(std::abs(v) < 1e4f)) return true;
      only_flags = only_flags && (v == 0.0f || v == 1.0f);
    }
    return only_flags;
  }

  const Graph& graph_;
  const Node& node_;
  const Value& value_;
  int long_axes_ = 0;
};

class Training {
 public:
  Training(Graph& graph, float momentum) : graph_(graph), rewriter_(graph), momentum_(momentum) {}

  Result<TrainingForm> run() {
    std::vector<bool> behind(graph_.value_count(), false);  // values that a parameter has a say in
    for (const NodeId n : rewriter_.nodes()) {
      const Node node = graph_.node(n);
      bool trains = false;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNoId) continue;
        if (const auto role = role_of(node, i)) make_parameter(node, i, *role);
        const ValueId v = graph_.node(n).inputs[i];
        trains = trains || graph_.value(v).kind == ValueKind::kVariable || (v < behind.size() && behind[v]);
      }
      if (trains && (node.op == Op::kAdd || node.op == Op::kMul)) {
        for (size_t i = 0; i < 2; ++i)
          if (const auto role = ConstantOperand(graph_, node, i).role()) make_parameter(node, i, *role);
      }
      for (const ValueId v : node.outputs) behind[v] = trains;
    }
    for (const NodeId n : rewriter_.nodes())
      if (graph_.node(n).op == Op::kBatchNorm) LATHE_CHECK_OK(use_batch(n));
    LATHE_CHECK_OK(rewriter_.ok());
    rewriter_.sweep();
    if (form_.parameters.empty()) return fail(Code::kInvalidArgument, "the network has no parameters to train");
    return std::move(form_);
  }

 private:
  void make_parameter(const Node& node, size_t i, ParameterRole role) {
    const int64_t fan = node.inputs[i] == kNoId || role != ParameterRole::kWeight ? 1 : fan_in(graph_, node, i);
    if (make_variable(without_grid(graph_, node.inputs[i]), &form_.parameters) == kNoId) return;
    Trained& made = form_.parameters.back();
    made.role = role;
    made.batch_norm = node.op == Op::kBatchNorm;
    made.fan_in = fan;
  }

  // kNoId if `v` is no float32 constant.
  ValueId make_variable(ValueId v, std::vector<Trained>* list) {
    if (v == kNoId || graph_.value(v).kind != ValueKind::kConstant || graph_.value(v).type.dtype != DType::kF32) return kNoId;
    const Value constant = graph_.value(v);
    const ValueId variable =
        graph_.add_variable(graph_.fresh_name(constant.name + ":trained"), constant.type, constant.constant);
    rewriter_.replace(v, variable);
    list->push_back({constant.name, variable});
    return variable;
  }

  // The clamp that alone reads `v`, which the normalization can do on the way; kNoId if there is none.
  NodeId only_clamp(ValueId v) const {
    const std::vector<NodeId> readers = graph_.consumers(v);
    const bool one = readers.size() == 1 && !graph_.is_output(v) && graph_.node(readers[0]).op == Op::kClamp;
    return one ? readers[0] : kNoId;
  }

  Result<void> use_batch(NodeId n) {
    const Node node = graph_.node(n);
    const auto& norm = std::get<BatchNormAttrs>(node.attrs);
    BatchNormTrainAttrs a{.epsilon = norm.epsilon, .axis = norm.axis};
    const NodeId clamp = only_clamp(node.outputs[0]);
    if (clamp != kNoId) {
      const auto& limits = std::get<ClampAttrs>(graph_.node(clamp).attrs);
      a.lo = limits.lo, a.hi = limits.hi;
    }
    const ValueId y = rewriter_.insert(n, Op::kBatchNormTrain, a, {node.inputs[0], node.inputs[1], node.inputs[2]},
                                       graph_.fresh_name(node.name + ":batch"));
    LATHE_CHECK_OK(rewriter_.ok());
    const std::vector<ValueId> results = graph_.producer(y)->outputs;
    rewriter_.replace(clamp == kNoId ? node.outputs[0] : graph_.node(clamp).outputs[0], y);
    if (clamp != kNoId) rewriter_.erase(clamp);
    rewriter_.erase(n);
    grad::Emitter e(graph_, node.name + ":running");
    const ValueId count = e.count(node.inputs[0], grad::axes_but(static_cast<size_t>(a.axis), e.rank(node.inputs[0])));
    const ValueId unbiased = e.mul(results[2], e.div(count, e.add(count, -1.0f)));
    const ValueId batch[] = {results[1], unbiased};
    for (size_t i = 0; i < 2; ++i) {
      const ValueId running = make_variable(node.inputs[3 + i], &form_.statistics);
      if (running == kNoId) continue;  // computed, or shared with another layer
      Trained& statistic = form_.statistics.back();
      statistic.role = i == 0 ? ParameterRole::kBias : ParameterRole::kScale;
      statistic.batch_norm = true;
      statistic.next = e.add(e.mul(running, 1.0f - momentum_), e.mul(batch[i], momentum_));
      e.nodes(Op::kAssign, NoAttrs{}, {running, statistic.next});
    }
    return e.ok();
  }

  Graph& graph_;
  Rewriter rewriter_;
  float momentum_;
  TrainingForm form_;
};

}  // namespace

ValueId logits_of(const Graph& graph, ValueId output) {
  const Node* node = graph.producer(output);
  if (node == nullptr || node->op != Op::kSoftmax) return output;
  const auto last = static_cast<int32_t>(graph.value(output).type.dims.size()) - 1;
  return std::get<AxisAttrs>(node->attrs).axis == last ? node->inputs[0] : output;
}

Result<TrainingForm> make_training_form(Graph& graph, float momentum) {
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!graph.value(v).dead && graph.value(v).quant)
      return fail(Code::kInvalidArgument,
                  "the model is already quantized (tensor '" + graph.value(v).name + "'); train the float model");
  if (!(momentum > 0 && momentum <= 1))
    return fail(Code::kInvalidArgument, "momentum is " + std::to_string(momentum) + ", must be above 0 and at most 1");
  return Training(graph, momentum).run();
}

}  // namespace lathe
