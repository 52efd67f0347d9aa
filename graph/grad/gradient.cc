#include "graph/grad/gradient.h"

#include <algorithm>

#include "graph/grad/rule.h"

namespace lathe {
namespace {

using grad::Backward;

grad::Rule rule_of(Op op) {
  switch (op) {
#define GRAD_RULE(name, rule) \
  case Op::k##name: return grad::rule;
#include "graph/grad/rules.inc"
#undef GRAD_RULE
    default: return nullptr;
  }
}

// Which values depend on those of `of`, through real numbers.
std::vector<bool> dependents(const Graph& graph, std::span<const ValueId> of) {
  std::vector<bool> depends(graph.value_count(), false);
  for (const ValueId v : of) depends[v] = true;
  for (const NodeId n : graph.order()) {
    const Node& node = graph.node(n);
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId v) { return v != kNoId && depends[v]; });
    for (const ValueId v : node.outputs)
      if (any && graph.value(v).type.dtype == DType::kF32) depends[v] = true;
  }
  return depends;
}

Result<void> check_request(const Graph& graph, ValueId loss, std::span<const ValueId> of) {
  const TensorType& type = graph.value(loss).type;
  const bool one = std::all_of(type.dims.begin(), type.dims.end(), [&](Dim d) { return graph.dims().value(d) == 1; });
  if (type.dtype != DType::kF32 || !one)
    return fail(Code::kInvalidArgument,
                "loss '" + graph.value(loss).name + "' is " + print_type(graph.dims(), type) + ", must be one f32");
  for (const ValueId v : of) {
    if (graph.value(v).type.dtype != DType::kF32)
      return fail(Code::kInvalidArgument, "'" + graph.value(v).name + "' is " + dtype_name(graph.value(v).type.dtype) +
                                              ", gradients are of f32 values");
  }
  return {};
}

std::vector<bool> assigned_variables(const Graph& graph) {
  std::vector<bool> assigned(graph.value_count(), false);
  for (const NodeId n : graph.order())
    if (graph.node(n).op == Op::kAssign) assigned[graph.node(n).inputs[0]] = true;
  return assigned;
}

class Differentiation {
 public:
  Differentiation(Graph& graph, std::span<const ValueId> of)
      : graph_(graph),
        depends_(dependents(graph, of)),
        assigned_(assigned_variables(graph)),
        gradients_(graph.value_count(), kNoId) {}

  Result<void> run(ValueId loss) {
    const TensorType type = graph_.value(loss).type;
    gradients_[loss] = graph_.add_constant(graph_.fresh_name(graph_.value(loss).name + ":grad"), type,
                                           Constant::of(std::vector<float>{1.0f}));
    const std::vector<NodeId> order = graph_.order();
    for (size_t i = order.size(); i-- > 0;) {
      const Node node = graph_.node(order[i]);
      if (Result<void> done = differentiate(node); !done)
        return tl::unexpected<Error>(
            with_context(std::move(done.error()), std::string(op_name(node.op)) + " '" + node.name + "'"));
    }
    return {};
  }

  ValueId of(ValueId v) const { return gradients_[v]; }

 private:
  Result<void> differentiate(const Node& node) {
    std::vector<ValueId> dy;
    for (const ValueId v : node.outputs) dy.push_back(gradients_[v]);
    if (std::all_of(dy.begin(), dy.end(), [](ValueId v) { return v == kNoId; })) return {};
    std::vector<bool> wanted;
    for (const ValueId v : node.inputs) wanted.push_back(v != kNoId && depends_[v] && graph_.value(v).type.dtype == DType::kF32);
    if (std::none_of(wanted.begin(), wanted.end(), [](bool w) { return w; })) return {};
    for (const ValueId v : node.inputs)
      if (v != kNoId && assigned_[v])
        return fail(Code::kInvalidArgument, "reads variable '" + graph_.value(v).name + "', which the graph assigns");
    const grad::Rule rule = rule_of(node.op);
    if (rule == nullptr) return fail(Code::kUnsupported, "this op has no gradient");
    Backward backward(graph_, node, std::move(dy), wanted);
    rule(backward);
    if (!backward.ok()) return backward.ok();
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (wanted[i] && backward.gradients()[i] != kNoId) accumulate(backward, node.inputs[i], backward.gradients()[i]);
    return backward.ok();
  }

  void accumulate(Backward& backward, ValueId v, ValueId gradient) {
    gradients_[v] = gradients_[v] == kNoId ? gradient : backward.add(gradients_[v], gradient);
  }

  Graph& graph_;
  std::vector<bool> depends_, assigned_;
  std::vector<ValueId> gradients_;  // by value of the forward graph
};

}  // namespace

bool has_gradient(Op op) { return rule_of(op) != nullptr; }

Result<std::vector<ValueId>> add_gradients(Graph& graph, ValueId loss, std::span<const ValueId> of) {
  LATHE_CHECK_OK(check_request(graph, loss, of));
  Differentiation d(graph, of);
  LATHE_CHECK_OK(d.run(loss));
  std::vector<ValueId> gradients;
  for (const ValueId v : of) gradients.push_back(d.of(v));
  return gradients;
}

}  // namespace lathe
