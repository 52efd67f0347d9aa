#include "graph/grad/training_form.h"

#include <algorithm>

#include "graph/grad/emit.h"
#include "graph/rewriter.h"

namespace lathe {
namespace {

bool is_parameter(const Node& node, size_t i) {
  const OpDef& def = op_def(node.op);
  if (node.op == Op::kBatchNorm) return i == 1 || i == 2;
  if (node.op == Op::kMatMul) return true;
  if (def.takes_rows != nullptr && def.takes_rows(node.attrs)) return i == 0;
  const QuantRole role = quant_rule(def, i).role;
  return role == QuantRole::kWeight || role == QuantRole::kBias || role == QuantRole::kFloatConstant;
}

class Training {
 public:
  Training(Graph& graph, float momentum) : graph_(graph), rewriter_(graph), momentum_(momentum) {}

  Result<TrainingForm> run() {
    for (const NodeId n : rewriter_.nodes()) {
      const Node node = graph_.node(n);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (is_parameter(node, i)) make_variable(node.inputs[i], &form_.parameters);
    }
    for (const NodeId n : rewriter_.nodes())
      if (graph_.node(n).op == Op::kBatchNorm) LATHE_CHECK_OK(use_batch(n));
    LATHE_CHECK_OK(rewriter_.ok());
    rewriter_.sweep();
    if (form_.parameters.empty()) return fail(Code::kInvalidArgument, "the network has no parameters to train");
    return std::move(form_);
  }

 private:
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

  Result<void> use_batch(NodeId n) {
    const Node node = graph_.node(n);
    const auto a = std::get<BatchNormAttrs>(node.attrs);
    const ValueId y = rewriter_.insert(n, Op::kBatchNormTrain, a, {node.inputs[0], node.inputs[1], node.inputs[2]},
                                       graph_.fresh_name(node.name + ":batch"));
    LATHE_CHECK_OK(rewriter_.ok());
    const std::vector<ValueId> results = graph_.producer(y)->outputs;
    rewriter_.replace(node.outputs[0], y);
    rewriter_.erase(n);
    grad::Emitter e(graph_, node.name + ":running");
    const ValueId count = e.count(node.inputs[0], grad::axes_but(static_cast<size_t>(a.axis), e.rank(node.inputs[0])));
    const ValueId unbiased = e.mul(results[2], e.div(count, e.add(count, -1.0f)));
    const ValueId batch[] = {results[1], unbiased};
    for (size_t i = 0; i < 2; ++i) {
      const ValueId running = make_variable(node.inputs[3 + i], &form_.statistics);
      if (running == kNoId) continue;  // computed, or shared with another layer
      e.nodes(Op::kAssign, NoAttrs{}, {running, e.add(e.mul(running, 1.0f - momentum_), e.mul(batch[i], momentum_))});
    }
    return e.ok();
  }

  Graph& graph_;
  Rewriter rewriter_;
  float momentum_;
  TrainingForm form_;
};

}  // namespace

Result<TrainingForm> make_training_form(Graph& graph, float momentum) {
  if (!(momentum > 0 && momentum <= 1))
    return fail(Code::kInvalidArgument, "momentum is " + std::to_string(momentum) + ", must be above 0 and at most 1");
  return Training(graph, momentum).run();
}

}  // namespace lathe
