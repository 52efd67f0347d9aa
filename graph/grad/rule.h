// What the rule of one op sees and fills: graph/grad/<family>.cc has the rules, rules.inc the list.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/grad/emit.h"

namespace lathe::grad {

class Backward : public Emitter {
 public:
  // `node` is a copy: the graph grows while its rule runs. `dy`: by result, kNoId where the loss does not depend on it.
  Backward(Graph& graph, Node node, std::vector<ValueId> dy, std::vector<bool> wanted)
      : Emitter(graph, node.name + ":grad"), node_(std::move(node)), dy_(std::move(dy)), wanted_(std::move(wanted)),
        dx_(node_.inputs.size(), kNoId) {}

  const Node& node_of() const { return node_; }
  template <class A> const A& attrs() const { return std::get<A>(node_.attrs); }
  ValueId x(size_t i = 0) const { return i < node_.inputs.size() ? node_.inputs[i] : kNoId; }
  ValueId y(size_t i = 0) const { return node_.outputs[i]; }
  ValueId dy(size_t i = 0) const { return dy_[i]; }
  // Whether somebody wants the gradient of operand i. False for a missing one.
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; }
  void set(size_t i, ValueId gradient) { dx_[i] = gradient; }
  const std::vector<ValueId>& gradients() const { return dx_; }

  // The gradient of what the op clamps to [lo, hi] at the end.
  ValueId before_clamp(float lo, float hi) {
    return lo == -kInfinity && hi == kInfinity ? dy() : node(Op::kClampGrad, ClampAttrs{lo, hi}, {y(), dy()});
  }
  // The rule cannot do without the gradient of operand i.
  void refuse(size_t i, const char* why) {
    fail(Code::kUnsupported, "operand " + std::to_string(i) + " has no gradient" + why);
  }

 private:
  Node node_;
  std::vector<ValueId> dy_;
  std::vector<bool> wanted_;
  std::vector<ValueId> dx_;
};

using Rule = void (*)(Backward& b);

#define GRAD_RULE(op, rule) void rule(Backward& b);
#include "graph/grad/rules.inc"
#undef GRAD_RULE

}  // namespace lathe::grad
