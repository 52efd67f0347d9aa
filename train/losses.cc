#include "train/losses.h"

#include <cmath>

#include "graph/grad/emit.h"

namespace lathe::train {
namespace {

using grad::Emitter;

// Logits [batch, classes]; the number of classes.
Result<int64_t> check_logits(const Graph& graph, ValueId logits) {
  const TensorType& type = graph.value(logits).type;
  const auto classes = type.dims.size() == 2 ? graph.dims().value(type.dims[1]) : std::nullopt;
  if (type.dtype != DType::kF32 || !classes || *classes < 1)
    return fail(Code::kInvalidArgument, "logits '" + graph.value(logits).name + "' are " + print_type(graph.dims(), type) +
                                            ", must be f32[batch,classes]");
  return *classes;
}

// One integer (or `real` number) per row of the logits.
Result<void> check_rows(const Graph& graph, ValueId v, ValueId logits, bool real) {
  const TensorType& type = graph.value(v).type;
  const bool right = real ? type.dtype == DType::kF32 : type.dtype == DType::kS32 || type.dtype == DType::kS64;
  if (right && type.dims.size() == 1 && !graph.dims().never_equal(type.dims[0], graph.value(logits).type.dims[0])) return {};
  return fail(Code::kInvalidArgument, (real ? "shares '" : "labels '") + graph.value(v).name + "' are " + print_type(graph.dims(), type) +
                                          ", must be one " + (real ? "number" : "integer") + " per row of " +
                                          print_type(graph.dims(), graph.value(logits).type));
}

Result<void> check_range(const char* name, float v, bool ok, const char* wanted) {
  if (ok) return {};
  return fail(Code::kInvalidArgument, std::string(name) + " is " + std::to_string(v) + ", must be " + wanted);
}

// x - max - log sum exp(x - max) along the last axis. The maximum only shifts: its gradients cancel.
ValueId log_softmax(Emitter& e, ValueId x) {
  const Ints last{1, {1}};
  const ValueId shifted = e.sub(x, e.node(Op::kReduceMax, ReduceAttrs{last, 1}, {x}));
  return e.sub(shifted, e.fn(Op::kLog, e.sum(e.fn(Op::kExp, shifted), last)));
}

ValueId mean_of_rows(Emitter& e, ValueId per_row) {
  return e.node(Op::kMean, ReduceAttrs{grad::axes_from(0, 2), 0}, {per_row});
}

Result<ValueId> finish(const Emitter& e, ValueId loss) {
  if (!e.ok()) return tl::unexpected<Error>(e.ok().error());
  return loss;
}

}  // namespace

Result<ValueId> cross_entropy(Graph& graph, ValueId logits, const Labels& labels, float smoothing) {
  LATHE_TRY(const int64_t classes, check_logits(graph, logits));
  LATHE_CHECK_OK(check_range("label smoothing", smoothing, smoothing >= 0 && smoothing < 1, "at least 0 and below 1"));
  LATHE_CHECK_OK(check_rows(graph, labels.labels, logits, false));
  Emitter e(graph, "cross_entropy");
  const float off = smoothing / static_cast<float>(classes);
  const ValueId values = graph.add_constant(graph.fresh_name("cross_entropy"), {DType::kF32, {graph.dims().constant(2)}},
                                            Constant::of(std::vector<float>{off, 1.0f - smoothing + off}));
  const auto one_hot = [&](ValueId v) { return e.node(Op::kOneHot, OneHotAttrs{1, static_cast<int32_t>(classes)}, {v, values}); };
  ValueId targets = one_hot(labels.labels);
  if (labels.mixed != kNoId) {
    LATHE_CHECK_OK(check_rows(graph, labels.mixed, logits, false));
    LATHE_CHECK_OK(check_rows(graph, labels.mix, logits, true));
    const ValueId other = one_hot(labels.mixed), share = e.reshape(labels.mix, {-1, 1});
    targets = e.add(other, e.mul(share, e.sub(targets, other)));
  }
  const ValueId rows = e.sum(e.mul(targets, log_softmax(e, logits)), {1, {1}});
  return finish(e, e.mul(mean_of_rows(e, rows), -1.0f));
}

Result<ValueId> mean_squared(Graph& graph, ValueId y, ValueId target) {
  if (graph.value(y).type != graph.value(target).type)
    return fail(Code::kInvalidArgument, "target '" + graph.value(target).name + "' is " +
                                            print_type(graph.dims(), graph.value(target).type) + ", the result is " +
                                            print_type(graph.dims(), graph.value(y).type));
  Emitter e(graph, "mean_squared");
  const ValueId squares = e.square(e.sub(y, target));
  return finish(e, e.node(Op::kMean, ReduceAttrs{grad::axes_from(0, e.rank(y)), 0}, {squares}));
}

Result<ValueId> distillation(Graph& graph, ValueId logits, ValueId teacher_logits, const Labels& labels,
                             const Distillation& o) {
  LATHE_CHECK_OK(check_range("alpha", o.alpha, o.alpha >= 0 && o.alpha <= 1, "between 0 and 1"));
  LATHE_CHECK_OK(check_range("temperature", o.temperature, o.temperature > 0 && std::isfinite(o.temperature), "above 0"));
  LATHE_TRY(const ValueId hard, cross_entropy(graph, logits, labels, o.smoothing));
  LATHE_TRY(const int64_t classes, check_logits(graph, teacher_logits));
  LATHE_TRY(const int64_t student_classes, check_logits(graph, logits));
  if (classes != student_classes)
    return fail(Code::kInvalidArgument, "the teacher has " + std::to_string(classes) + " classes, the student has " +
                                            std::to_string(student_classes));
  Emitter e(graph, "distillation");
  const ValueId teacher = log_softmax(e, e.mul(teacher_logits, 1.0f / o.temperature));
  const ValueId student = log_softmax(e, e.mul(logits, 1.0f / o.temperature));
  const ValueId rows = e.sum(e.mul(e.fn(Op::kExp, teacher), e.sub(teacher, student)), {1, {1}});
  const ValueId soft = e.mul(mean_of_rows(e, rows), o.alpha * o.temperature * o.temperature);
  return finish(e, e.add(e.mul(hard, 1.0f - o.alpha), soft));
}

}  // namespace lathe::train
