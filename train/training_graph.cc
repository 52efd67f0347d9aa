#include "train/training_graph.h"

#include <algorithm>
#include <cmath>

#include "graph/grad/emit.h"
#include "graph/grad/gradient.h"

namespace lathe::train {
namespace {

Result<void> check_options(const TrainerOptions& o, const TrainingForm& form) {
  if (!(o.average >= 0 && o.average < 1))
    return fail(Code::kInvalidArgument,
                "the decay of averages is " + std::to_string(o.average) + ", must be at least 0 and below 1");
  const bool classes = o.loss != Loss::kMeanSquared;
  if (!classes && (o.teacher || o.mixup || o.smoothing != 0))
    return fail(Code::kInvalidArgument, "a teacher, mixup and label smoothing are for classes, not for a mean squared error");
  if (o.loss == Loss::kTokens && o.mixup)
    return fail(Code::kInvalidArgument, "mixup is for one class per sample, not for tokens");
  for (const std::string& name : o.fixed)
    if (std::none_of(form.parameters.begin(), form.parameters.end(), [&](const Trained& t) { return t.constant == name; }))
      return fail(Code::kInvalidArgument, "'" + name + "', which is to stay fixed, is no parameter of the network");
  return {};
}

class Builder {
 public:
  Builder(const Graph& model, const TrainerOptions& options) : options_(options) { made_.graph = model; }

  Result<TrainingGraph> steps() {
    LATHE_CHECK_OK(differentiate());
    LATHE_TRY(const ValueId rate, add_extra(Extra::kRate, "rate", {DType::kF32, {}}));
    std::vector<Parameter> parameters;
    for (size_t i = 0; i < gradients_.size(); ++i) {
      const Trained& t = made_.parameters[i].trained;
      Parameter& p = parameters.emplace_back(Parameter{t.variable, gradients_[i]});
      if (options_.sparsity == 0 || !t.batch_norm || t.role != ParameterRole::kScale) continue;
      LATHE_TRY(p.gradient, add_shrinkage(graph(), p, options_.sparsity));
    }
    LATHE_TRY(const std::vector<ValueId> next, options_.optimizer == Optimizer::kSgd
                                                   ? add_sgd(graph(), parameters, rate, options_.sgd)
                                                   : add_adamw(graph(), parameters, rate, options_.adamw));
    LATHE_CHECK_OK(average(next));
    return std::move(made_);
  }

  Result<TrainingGraph> gradients() {
    LATHE_CHECK_OK(differentiate());
    for (const ValueId g : gradients_) graph().add_output(g);
    return std::move(made_);
  }

 private:
  Graph& graph() { return made_.graph; }

  Result<void> differentiate() {
    LATHE_TRY(TrainingForm form, make_training_form(graph(), options_.statistics_momentum));
    LATHE_CHECK_OK(check_options(options_, form));
    LATHE_TRY(const ValueId loss, add_loss());
    std::erase_if(form.parameters, [&](const Trained& t) {
      return std::find(options_.fixed.begin(), options_.fixed.end(), t.constant) != options_.fixed.end();
    });
    std::vector<ValueId> of;
    for (const Trained& t : form.parameters) of.push_back(t.variable);
    LATHE_TRY(const std::vector<ValueId> gradients, add_gradients(graph(), loss, of));
    for (size_t i = 0; i < of.size(); ++i) {
      if (gradients[i] == kNoId) continue;
      made_.parameters.push_back({form.parameters[i]});
      gradients_.push_back(gradients[i]);
    }
    if (gradients_.empty()) return fail(Code::kInvalidArgument, "the loss depends on no parameter that may change");
    for (const Trained& t : form.statistics) made_.statistics.push_back({t});
    graph().add_output(loss);
    return {};
  }

  Result<ValueId> add_extra(Extra extra, const std::string& name, TensorType type) {
    made_.extras.push_back(extra);
    return graph().add_input(graph().fresh_name(name), std::move(type));
  }

  Result<ValueId> add_loss() {
    if (graph().outputs().empty()) return fail(Code::kInvalidArgument, "the network has no output to train");
    const ValueId output = graph().outputs()[0];
    if (options_.loss == Loss::kMeanSquared) {
      LATHE_TRY(const ValueId targets, add_extra(Extra::kTargets, "targets", graph().value(output).type));
      return mean_squared(graph(), output, targets);
    }
    const ValueId raw = logits_of(graph(), output);
    LATHE_TRY(const ValueId logits, rows(raw));
    const TensorType type = graph().value(logits).type;
    made_.classes = graph().dims().value(type.dims[1]).value_or(0);
    const Dim count = type.dims[0];
    LATHE_TRY(Labels labels, add_extra(Extra::kLabels, "labels", {DType::kS32, {count}}));
    if (options_.mixup) {
      LATHE_TRY(labels.mixed, add_extra(Extra::kMixedLabels, "mixed_labels", {DType::kS32, {count}}));
      LATHE_TRY(labels.mix, add_extra(Extra::kMix, "mix", {DType::kF32, {count}}));
    }
    if (!options_.teacher) return cross_entropy(graph(), logits, labels, options_.smoothing);
    LATHE_TRY(const ValueId teacher, add_extra(Extra::kTeacher, "teacher", type));
    Distillation distilled = *options_.teacher;
    distilled.smoothing = options_.smoothing;
    return distillation(graph(), logits, teacher, labels, distilled);
  }

  // Logits as [rows, classes].
  Result<ValueId> rows(ValueId logits) {
    const TensorType& type = graph().value(logits).type;
    const size_t rank = type.dims.size(), first = options_.loss == Loss::kTokens && rank > 0 ? rank - 1 : 1;
    if (rank == 2) return logits;
    int64_t classes = 1;
    for (size_t i = first; i < rank; ++i) classes *= graph().dims().value(type.dims[i]).value_or(0);
    if (rank < 2 || classes < 1 || type.dtype != DType::kF32)
      return fail(Code::kInvalidArgument, "the first output gives " + print_type(graph().dims(), type) +
                                              ", which are no logits of a known number of classes");
    grad::Emitter e(graph(), "logits");
    const ValueId out = e.reshape(logits, {-1, classes});
    if (!e.ok()) return tl::unexpected<Error>(e.ok().error());
    return out;
  }

  Result<void> average(const std::vector<ValueId>& next) {
    if (options_.average == 0) return {};
    LATHE_TRY(const ValueId decay, add_extra(Extra::kDecay, "decay", {DType::kF32, {}}));
    for (size_t i = 0; i < next.size(); ++i) {
      LATHE_TRY(made_.parameters[i].average, add_average(graph(), made_.parameters[i].trained.variable, next[i], decay));
    }
    for (TrainedVariable& s : made_.statistics) {
      LATHE_TRY(s.average, add_average(graph(), s.trained.variable, s.trained.next, decay));
    }
    return {};
  }

  const TrainerOptions& options_;
  TrainingGraph made_;
  std::vector<ValueId> gradients_;  // by parameter
};

}  // namespace

Result<TrainingGraph> make_step_graph(const Graph& model, const TrainerOptions& options) {
  return Builder(model, options).steps();
}

Result<TrainingGraph> make_gradient_graph(const Graph& model, const TrainerOptions& options) {
  return Builder(model, options).gradients();
}

}  // namespace lathe::train
