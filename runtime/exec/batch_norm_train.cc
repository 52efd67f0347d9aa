// Batch normalization by the statistics of the batch, its gradient, and that of a clamp: element by element in float32, sums per
// channel.
//
//   BatchNormTrain: y = (x - mean) r scale + bias, r = 1 / sqrt(variance + epsilon), mean and (biased) variance
//                   over all axes but one
//   BatchNormGrad:  dbias = sum dy, dscale = sum dy (x - mean) r, dx = scale r (dy - (dbias + (x - mean) r dscale) / count)
//
// The rows are cut into a fixed number of chunks whose sums are added in order, so that results do not depend on the threads.
// Variance is the mean square of what is left when the mean is subtracted: no difference of large squares.
#include "kernels/math/math.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

constexpr uint32_t kChunks = 16;

// x is [outer][c][inner]; count = outer * inner.
struct BatchNormTrainParams {
  float epsilon;
  uint32_t outer, c, inner;
  uint32_t chunk;  // of outer
};

Status prepare_statistics(const PrepareInput& in, uint32_t first_vector, Prepared* out) {
  const auto a = in.program->attrs<BatchNormAttrs>(*in.step);
  const Shape& x = in.shape(0);
  const uint32_t axis = static_cast<uint32_t>(a.axis), operands = in.step->n_in + 3u;
  if (axis >= x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  const uint32_t c = static_cast<uint32_t>(x.dims[axis]);
  for (uint32_t i = 0; i < operands; ++i) {
    if (!is_f32(in, i)) return unsupported_operand(in, i);
    const bool vector = i >= first_vector && i != in.out();
    if (vector ? elems(in, i) != c : !(in.shape(i) == x)) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, i));
  }
  if (elems(in, 0) == 0) return refuse(in, Code::kInvalidArgument, 1, 0);
  const uint64_t scratch = (1ull * kChunks + 3) * c * sizeof(float);
  if (scratch > 0x7fffffff) return refuse(in, Code::kUnsupported, 0x7fffffff, c);
  auto& p = out->make<BatchNormTrainParams>();
  p = {a.epsilon, x.elems(0, axis), c, x.elems(axis + 1, x.rank), 0};
  p.chunk = ceil_div(p.outer, kChunks);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  return {};
}

// Calls f(first element, channel, elements) for the runs of rows [begin, end): a row of c channels of 1 element, or c runs of one
// channel each.
template <class Row, class Run>
void each_run(const BatchNormTrainParams& p, uint32_t begin, uint32_t end, const Row& row, const Run& run) {
  for (uint32_t o = begin; o < end; ++o) {
    const size_t at = static_cast<size_t>(o) * p.c * p.inner;
    if (p.inner == 1) {
      row(at);
      continue;
    }
    for (uint32_t c = 0; c < p.c; ++c) run(at + static_cast<size_t>(c) * p.inner, c);
  }
}

// sums[c] = sum of term(element, channel) over all elements of a channel. `partial`: kChunks * c floats.
template <class Term>
void sum_channels(const RunContext& ctx, const BatchNormTrainParams& p, float* partial, float* sums, const Term& term) {
  const uint32_t chunks = ceil_div(p.outer, p.chunk);
  ctx.parallel(chunks, [&](uint32_t chunk, uint32_t) {
    float* s = partial + static_cast<size_t>(chunk) * p.c;
    for (uint32_t c = 0; c < p.c; ++c) s[c] = 0;
    const uint32_t begin = chunk * p.chunk, end = p.outer - begin < p.chunk ? p.outer : begin + p.chunk;
    each_run(
        p, begin, end,
        [&](size_t at) {
          for (uint32_t c = 0; c < p.c; ++c) s[c] += term(at + c, c);
        },
        [&](size_t at, uint32_t c) {
          float sum = 0;
          for (uint32_t i = 0; i < p.inner; ++i) sum += term(at + i, c);
          s[c] += sum;
        });
  });
  for (uint32_t c = 0; c < p.c; ++c) {
    double sum = 0;
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) sum += static_cast<double>(partial[static_cast<size_t>(chunk) * p.c + c]);
    sums[c] = static_cast<float>(sum);
  }
}

// Calls f(element, channel) for all elements.
template <class F> void each_element(const RunContext& ctx, const BatchNormTrainParams& p, const F& f) {
  ctx.parallel(ceil_div(p.outer, p.chunk), [&](uint32_t chunk, uint32_t) {
    const uint32_t begin = chunk * p.chunk, end = p.outer - begin < p.chunk ? p.outer : begin + p.chunk;
    each_run(
        p, begin, end,
        [&](size_t at) {
          for (uint32_t c = 0; c < p.c; ++c) f(at + c, c);
        },
        [&](size_t at, uint32_t c) {
          for (uint32_t i = 0; i < p.inner; ++i) f(at + i, c);
        });
  });
}

float elements_of_channel(const BatchNormTrainParams& p) { return static_cast<float>(p.outer) * static_cast<float>(p.inner); }

}  // namespace

Status prepare_BatchNormTrain(const PrepareInput& in, Prepared* out) {
  out->exact_input_mask = 7;
  return prepare_statistics(in, 1, out);
}

void run_BatchNormTrain(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<BatchNormTrainParams>(step);
  const float *x = ctx.in<float>(step, 0), *scale = ctx.in<float>(step, 1), *bias = ctx.in<float>(step, 2);
  float *y = ctx.out<float>(step, 0), *mean = ctx.out<float>(step, 1), *variance = ctx.out<float>(step, 2);
  float* partial = reinterpret_cast<float*>(ctx.scratch(step));
  float* factor = partial + static_cast<size_t>(kChunks) * p.c;
  const float share = 1.0f / elements_of_channel(p);
  sum_channels(ctx, p, partial, mean, [&](size_t at, uint32_t) { return x[at]; });
  for (uint32_t c = 0; c < p.c; ++c) mean[c] *= share;
  sum_channels(ctx, p, partial, variance, [&](size_t at, uint32_t c) {
    const float d = x[at] - mean[c];
    return d * d;
  });
  for (uint32_t c = 0; c < p.c; ++c) {
    variance[c] *= share;
    factor[c] = scale[c] / kernels::sqrt_f32(variance[c] + p.epsilon);
  }
  each_element(ctx, p, [&](size_t at, uint32_t c) { y[at] = (x[at] - mean[c]) * factor[c] + bias[c]; });
}

Status prepare_BatchNormGrad(const PrepareInput& in, Prepared* out) {
  out->exact_input_mask = 31;
  return prepare_statistics(in, 2, out);
}

void run_BatchNormGrad(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<BatchNormTrainParams>(step);
  const float *x = ctx.in<float>(step, 0), *dy = ctx.in<float>(step, 1), *scale = ctx.in<float>(step, 2);
  const float *mean = ctx.in<float>(step, 3), *variance = ctx.in<float>(step, 4);
  float *dx = ctx.out<float>(step, 0), *dscale = ctx.out<float>(step, 1), *dbias = ctx.out<float>(step, 2);
  float* partial = reinterpret_cast<float*>(ctx.scratch(step));
  float *slope = partial + static_cast<size_t>(kChunks) * p.c, *factor = slope + p.c, *offset = factor + p.c;
  sum_channels(ctx, p, partial, dbias, [&](size_t at, uint32_t) { return dy[at]; });
  sum_channels(ctx, p, partial, dscale, [&](size_t at, uint32_t c) { return dy[at] * (x[at] - mean[c]); });
  // dx = factor dy - slope (x - mean) - offset
  const float share = 1.0f / elements_of_channel(p);
  for (uint32_t c = 0; c < p.c; ++c) {
    const float r = 1.0f / kernels::sqrt_f32(variance[c] + p.epsilon);
    dscale[c] *= r;
    factor[c] = scale[c] * r;
    slope[c] = factor[c] * r * dscale[c] * share;
    offset[c] = factor[c] * dbias[c] * share;
  }
  each_element(ctx, p, [&](size_t at, uint32_t c) { dx[at] = factor[c] * dy[at] - slope[c] * (x[at] - mean[c]) - offset[c]; });
}

namespace {

// A block's results are kept until all of it is read: dx may be y or dy, and a compiler that need not ask makes vectors of it.
// Signs of activations are as good as random, so a mask serves where a branch would be mispredicted half of the time.
constexpr uint32_t kBlock = 16;
template <uint32_t kElems> void clamp_grad(const float* y, const float* dy, float lo, float hi, float* dx) {
  uint32_t bits[kElems];
  __builtin_memcpy(bits, dy, sizeof bits);
  for (uint32_t k = 0; k < kElems; ++k) bits[k] &= 0u - (static_cast<uint32_t>(y[k] > lo) & static_cast<uint32_t>(y[k] < hi));
  __builtin_memcpy(dx, bits, sizeof bits);
}

struct ClampGradParams {
  float lo, hi;
  Split split;
};

}  // namespace

Status prepare_ClampGrad(const PrepareInput& in, Prepared* out) {
  const auto a = in.program->attrs<ClampAttrs>(*in.step);
  const uint32_t operands[] = {0, 1, in.out()};
  for (const uint32_t i : operands) {
    if (!is_f32(in, i)) return unsupported_operand(in, i);
    if (!(in.shape(i) == in.shape(0))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, i));
  }
  auto& p = out->make<ClampGradParams>();
  p = {a.lo, a.hi, split_work(1, elems(in, 0), elems(in, 0), in.threads, 16)};
  out->share_input_mask = 3;
  out->exact_input_mask = 3;
  return {};
}

void run_ClampGrad(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<ClampGradParams>(step);
  const float *y = ctx.in<float>(step, 0), *dy = ctx.in<float>(step, 1);
  float* dx = ctx.out<float>(step, 0);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    uint32_t i = t.inner_begin;
    for (; i + kBlock <= t.inner_end; i += kBlock) clamp_grad<kBlock>(y + i, dy + i, p.lo, p.hi, dx + i);
    for (; i < t.inner_end; ++i) clamp_grad<1>(y + i, dy + i, p.lo, p.hi, dx + i);
  });
}

}  // namespace lathe
