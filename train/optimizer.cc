#include "train/optimizer.h"

#include <cmath>
#include <vector>

#include "graph/grad/emit.h"

namespace lathe::train {
namespace {

using grad::Emitter;

Result<void> check_parameters(const Graph& graph, std::span<const Parameter> parameters, ValueId rate) {
  const auto about = [&](ValueId v, const std::string& what) {
    return fail(Code::kInvalidArgument, "'" + graph.value(v).name + "' " + what);
  };
  for (const Parameter& p : parameters) {
    if (graph.value(p.variable).kind != ValueKind::kVariable) return about(p.variable, "is no variable");
    const TensorType &type = graph.value(p.variable).type, &gradient = graph.value(p.gradient).type;
    if (type != gradient)
      return about(p.variable, "is " + print_type(graph.dims(), type) + ", its gradient is " + print_type(graph.dims(), gradient));
    for (const Dim d : type.dims)
      if (!graph.dims().value(d)) return about(p.variable, "has the unknown dim " + graph.dims().text(d));
  }
  const TensorType& type = graph.value(rate).type;
  if (type.dtype != DType::kF32 || !type.dims.empty())
    return about(rate, "is " + print_type(graph.dims(), type) + ", must be f32[]");
  return {};
}

Result<void> check_option(const char* name, float v, bool ok, const char* wanted) {
  if (ok && std::isfinite(v)) return {};
  return fail(Code::kInvalidArgument, std::string(name) + " is " + std::to_string(v) + ", must be " + wanted);
}
Result<void> check_fraction(const char* name, float v) { return check_option(name, v, v >= 0 && v < 1, "at least 0 and below 1"); }
Result<void> check_amount(const char* name, float v) { return check_option(name, v, v >= 0, "at least 0"); }

// New values are computed first and assigned when all are known.
class Step {
 public:
  Step(Graph& graph, const char* name) : e(graph, name) {}

  Emitter e;

  ValueId state(ValueId like, const std::string& what, float initial = 0.0f) {
    const Graph& graph = e.graph();
    const TensorType type = graph.value(like).type;
    size_t elems = 1;
    for (const Dim d : type.dims) elems *= static_cast<size_t>(*graph.dims().value(d));
    return e.graph().add_variable(graph.fresh_name(graph.value(like).name + ":" + what), type,
                                  Constant::of(std::vector<float>(elems, initial)));
  }
  void assign(ValueId variable, ValueId value) { assigned_.emplace_back(variable, value); }
  void become(ValueId parameter, ValueId value) {
    assign(parameter, value);
    next_.push_back(value);
  }

  // What the parameters become.
  Result<std::vector<ValueId>> finish() {
    for (const auto& [variable, value] : assigned_) e.nodes(Op::kAssign, NoAttrs{}, {variable, value});
    if (!e.ok()) return tl::unexpected<Error>(e.ok().error());
    return std::move(next_);
  }

 private:
  std::vector<ValueId> next_;
  std::vector<std::pair<ValueId, ValueId>> assigned_;
};

// All gradients times min(1, clip / norm).
std::vector<ValueId> clipped(Emitter& e, std::span<const Parameter> parameters, float clip) {
  std::vector<ValueId> gradients;
  for (const Parameter& p : parameters) gradients.push_back(p.gradient);
  if (clip == 0 || gradients.empty()) return gradients;
  ValueId sum = kNoId;
  for (const ValueId g : gradients) {
    const ValueId part = e.node(Op::kReduceSum, ReduceAttrs{grad::axes_from(0, e.rank(g)), 0}, {e.square(g)});
    sum = sum == kNoId ? part : e.add(sum, part);
  }
  const ValueId factor = e.node(Op::kMin, NoAttrs{}, {e.scalar(1), e.div(e.scalar(clip), e.fn(Op::kSqrt, sum))});
  for (ValueId& g : gradients) g = e.mul(g, factor);
  return gradients;
}

bool decays(const Emitter& e, ValueId w, float weight_decay) { return weight_decay != 0 && e.rank(w) > 1; }

}  // namespace

Result<std::vector<ValueId>> add_sgd(Graph& graph, std::span<const Parameter> parameters, ValueId rate, const SgdOptions& o) {
  LATHE_CHECK_OK(check_parameters(graph, parameters, rate));
  LATHE_CHECK_OK(check_fraction("momentum", o.momentum));
  LATHE_CHECK_OK(check_amount("weight decay", o.weight_decay));
  LATHE_CHECK_OK(check_amount("clip norm", o.clip_norm));
  Step step(graph, "sgd");
  Emitter& e = step.e;
  const std::vector<ValueId> gradients = clipped(e, parameters, o.clip_norm);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ValueId w = parameters[i].variable;
    ValueId g = gradients[i];
    if (decays(e, w, o.weight_decay)) g = e.add(g, e.mul(w, o.weight_decay));
    if (o.momentum != 0) {
      const ValueId velocity = step.state(w, "momentum"), v = e.add(e.mul(velocity, o.momentum), g);
      step.assign(velocity, v);
      g = o.nesterov ? e.add(g, e.mul(v, o.momentum)) : v;
    }
    step.become(w, e.sub(w, e.mul(g, rate)));
  }
  return step.finish();
}

Result<std::vector<ValueId>> add_adamw(Graph& graph, std::span<const Parameter> parameters, ValueId rate,
                                       const AdamWOptions& o) {
  LATHE_CHECK_OK(check_parameters(graph, parameters, rate));
  LATHE_CHECK_OK(check_fraction("beta1", o.beta1));
  LATHE_CHECK_OK(check_fraction("beta2", o.beta2));
  LATHE_CHECK_OK(check_option("epsilon", o.epsilon, o.epsilon > 0, "above 0"));
  LATHE_CHECK_OK(check_amount("weight decay", o.weight_decay));
  LATHE_CHECK_OK(check_amount("clip norm", o.clip_norm));
  Step step(graph, "adamw");
  Emitter& e = step.e;
  const std::vector<ValueId> gradients = clipped(e, parameters, o.clip_norm);
  // beta^t, and 1 - beta^t.
  const auto power = [&](const char* name, float beta) {
    const ValueId variable = step.state(rate, name, 1.0f), next = e.mul(variable, beta);
    step.assign(variable, next);
    return e.sub(e.scalar(1), next);
  };
  const ValueId first = power("beta1_power", o.beta1), second = power("beta2_power", o.beta2);
  const auto average = [&](ValueId w, const char* name, float beta, ValueId next) {
    const ValueId variable = step.state(w, name), value = e.add(e.mul(variable, beta), e.mul(next, 1.0f - beta));
    step.assign(variable, value);
    return value;
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ValueId w = parameters[i].variable, g = gradients[i];
    const ValueId m = e.div(average(w, "first_moment", o.beta1, g), first);
    const ValueId v = e.div(average(w, "second_moment", o.beta2, e.square(g)), second);
    ValueId update = e.div(m, e.add(e.fn(Op::kSqrt, v), o.epsilon));
    if (decays(e, w, o.weight_decay)) update = e.add(update, e.mul(w, o.weight_decay));
    step.become(w, e.sub(w, e.mul(update, rate)));
  }
  return step.finish();
}

Result<ValueId> add_average(Graph& graph, ValueId variable, ValueId next, ValueId decay) {
  const Value& v = graph.value(variable);
  const ValueId average = graph.add_variable(graph.fresh_name(v.name + ":average"), v.type, v.constant);
  Emitter e(graph, "average");
  e.nodes(Op::kAssign, NoAttrs{}, {average, e.add(next, e.mul(decay, e.sub(average, next)))});
  if (!e.ok()) return tl::unexpected<Error>(e.ok().error());
  return average;
}

Result<ValueId> add_shrinkage(Graph& graph, const Parameter& p, float amount) {
  LATHE_CHECK_OK(check_amount("sparsity", amount));
  Emitter e(graph, "shrinkage");
  const ValueId gradient = e.add(p.gradient, e.mul(e.fn(Op::kSign, p.variable), amount));
  if (!e.ok()) return tl::unexpected<Error>(e.ok().error());
  return gradient;
}

}  // namespace lathe::train
