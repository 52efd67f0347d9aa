// Batch normalization by the statistics of the batch, its gradient, and that of a clamp, in float32.
//
//   BatchNormTrain: y = clamp(n), n = (x - mean) r scale + bias, r = 1 / sqrt(variance + epsilon), mean and (biased) variance
//                   over all axes but one
//   BatchNormGrad:  g = dy inside the clamp, else 0; dbias = sum g, dscale = sum g (x - mean) r,
//                   dx = scale r (g - (dbias + (x - mean) r dscale) / count)
//
// The rows are cut into a fixed number of chunks and these into blocks that fit a near cache. Sums of blocks are added in order,
// in double, so that results do not depend on the threads. A block's squares are those around its own mean, and blocks are put
// together by Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample Variances" (1979): no
// difference of large squares, and x is read once. Where channels are not the last axis, a run of one channel is a row of its
// own.
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/math/math.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

constexpr uint32_t kChunks = 16;
constexpr uint32_t kBlockElems = 8192;

// x is [outer][c][inner]. inner > 1: a kernel's row is one element of one channel, `inner` of them in a block.
struct BatchNormTrainParams {
  float epsilon;
  kernels::NormalizeClamp clamp;
  uint32_t outer, c, inner;
  uint32_t chunk;  // of outer
  uint32_t block;  // rows of a block: of outer
};

// Sums of a channel in a chunk: how many elements, and two sums.
struct Moments {
  double count, first, second;
};

Status prepare_statistics(const PrepareInput& in, uint32_t first_vector, Prepared* out) {
  const auto a = in.program->attrs<BatchNormTrainAttrs>(*in.step);
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
  const uint64_t scratch = kChunks * (sizeof(Moments) + 2 * sizeof(float)) * static_cast<uint64_t>(c) + 4 * sizeof(float) * c;
  if (scratch > 0x7fffffff) return refuse(in, Code::kUnsupported, 0x7fffffff, c);
  auto& p = out->make<BatchNormTrainParams>();
  const uint32_t clamps = a.lo != -kInfinity || a.hi != kInfinity ? 1 : 0;
  p = {a.epsilon, {a.lo, a.hi, clamps}, x.elems(0, axis), c, x.elems(axis + 1, x.rank), 0, 0};
  p.chunk = ceil_div(p.outer, kChunks);
  p.block = kBlockElems / c == 0 ? 1 : kBlockElems / c;
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  return {};
}

// The scratch: moments by chunk and channel, two vectors a chunk for a block's sums, four vectors.
struct Scratch {
  Moments* moments;
  float *blocks, *vectors;
  uint32_t c;

  Scratch(const RunContext& ctx, const BoundStep& step, uint32_t channels) : c(channels) {
    moments = reinterpret_cast<Moments*>(ctx.scratch(step));
    blocks = reinterpret_cast<float*>(moments + static_cast<size_t>(kChunks) * c);
    vectors = blocks + 2 * static_cast<size_t>(kChunks) * c;
  }
  float* vector(uint32_t i) const { return vectors + static_cast<size_t>(i) * c; }
};

// Calls f(first element, rows, channel, channels) for blocks of outer [begin, end): rows of `channels` contiguous channels.
template <class F>
void each_block(const BatchNormTrainParams& p, uint32_t begin, uint32_t end, const F& f) {
  if (p.inner == 1) {
    for (uint32_t o = begin; o < end; o += p.block)
      f(static_cast<size_t>(o) * p.c, end - o < p.block ? end - o : p.block, 0u, p.c);
    return;
  }
  for (uint32_t o = begin; o < end; ++o)
    for (uint32_t c = 0; c < p.c; ++c) f((static_cast<size_t>(o) * p.c + c) * p.inner, p.inner, c, 1u);
}

// Calls f(chunk, begin, end) for chunks of outer, in parallel.
template <class F>
void each_chunk(const RunContext& ctx, const BatchNormTrainParams& p, const F& f) {
  ctx.parallel(ceil_div(p.outer, p.chunk), [&](uint32_t chunk, uint32_t) {
    const uint32_t begin = chunk * p.chunk;
    f(chunk, begin, p.outer - begin < p.chunk ? p.outer : begin + p.chunk);
  });
}

// `b` of another part added to `a`: sums, and squares around the parts' own means.
void add_squares(Moments* a, const Moments& b) {
  const double count = a->count + b.count;
  if (a->count > 0) {
    const double apart = b.first / b.count - a->first / a->count;
    a->second += apart * apart * a->count * b.count / count;
  }
  a->count = count;
  a->first += b.first;
  a->second += b.second;
}
void add_sums(Moments* a, const Moments& b) {
  a->count += b.count;
  a->first += b.first;
  a->second += b.second;
}

// Moments of all channels by chunk: sums(first element, rows, channel, channels, first, second) sums a block, join puts parts
// together.
template <class Sums, class Join>
void sum_channels(const RunContext& ctx, const BatchNormTrainParams& p, const Scratch& s, const Sums& sums, const Join& join) {
  each_chunk(ctx, p, [&](uint32_t chunk, uint32_t begin, uint32_t end) {
    Moments* m = s.moments + static_cast<size_t>(chunk) * p.c;
    float *first = s.blocks + 2 * static_cast<size_t>(chunk) * p.c, *second = first + p.c;
    for (uint32_t c = 0; c < p.c; ++c) m[c] = {0, 0, 0};
    each_block(p, begin, end, [&](size_t at, uint32_t rows, uint32_t channel, uint32_t channels) {
      sums(at, rows, channel, channels, first, second);
      for (uint32_t c = 0; c < channels; ++c)
        join(m + channel + c, Moments{static_cast<double>(rows), static_cast<double>(first[c]), static_cast<double>(second[c])});
    });
  });
  for (uint32_t chunk = 1; chunk < ceil_div(p.outer, p.chunk); ++chunk)
    for (uint32_t c = 0; c < p.c; ++c) join(s.moments + c, s.moments[static_cast<size_t>(chunk) * p.c + c]);
}

}  // namespace

Status prepare_BatchNormTrain(const PrepareInput& in, Prepared* out) {
  out->exact_input_mask = 7;
  if (const Status s = prepare_statistics(in, 1, out); !s.ok()) return s;
  const auto pick = [&](kernels::Family f) { return out->use(kernels::select(f, kernels::Storage::kS8, in.isa)); };
  return pick(kernels::Family::kChannelSumsF32) && pick(kernels::Family::kNormalizeF32) ? Status{}
                                                                                        : refuse(in, Code::kUnsupported);
}

void run_BatchNormTrain(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<BatchNormTrainParams>(step);
  const float *x = ctx.in<float>(step, 0), *scale = ctx.in<float>(step, 1), *bias = ctx.in<float>(step, 2);
  float *y = ctx.out<float>(step, 0), *mean = ctx.out<float>(step, 1), *variance = ctx.out<float>(step, 2);
  const auto sums = ctx.kernel<kernels::ChannelSumsF32Fn>(step, 0);
  const auto normalize = ctx.kernel<kernels::NormalizeF32Fn>(step, 1);
  const Scratch s(ctx, step, p.c);
  float* factor = s.vector(0);
  sum_channels(
      ctx, p, s,
      [&](size_t at, uint32_t rows, uint32_t, uint32_t channels, float* first, float* second) {
        sums({x + at, rows, channels, first, second});
      },
      add_squares);
  for (uint32_t c = 0; c < p.c; ++c) {
    const Moments& m = s.moments[c];
    mean[c] = static_cast<float>(m.first / m.count);
    variance[c] = static_cast<float>(m.second / m.count);
    factor[c] = scale[c] / kernels::sqrt_f32(variance[c] + p.epsilon);
  }
  each_chunk(ctx, p, [&](uint32_t, uint32_t begin, uint32_t end) {
    each_block(p, begin, end, [&](size_t at, uint32_t rows, uint32_t c, uint32_t channels) {
      normalize({x + at, mean + c, factor + c, bias + c, y + at, rows, channels, p.clamp});
    });
  });
}

Status prepare_BatchNormGrad(const PrepareInput& in, Prepared* out) {
  out->exact_input_mask = 63;
  if (const Status s = prepare_statistics(in, 2, out); !s.ok()) return s;
  const auto pick = [&](kernels::Family f) { return out->use(kernels::select(f, kernels::Storage::kS8, in.isa)); };
  return pick(kernels::Family::kNormalizeSumsF32) && pick(kernels::Family::kNormalizeGradF32) ? Status{}
                                                                                              : refuse(in, Code::kUnsupported);
}

void run_BatchNormGrad(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<BatchNormTrainParams>(step);
  const float *x = ctx.in<float>(step, 0), *dy = ctx.in<float>(step, 1), *scale = ctx.in<float>(step, 2);
  const float *bias = ctx.in<float>(step, 3), *mean = ctx.in<float>(step, 4), *variance = ctx.in<float>(step, 5);
  float *dx = ctx.out<float>(step, 0), *dscale = ctx.out<float>(step, 1), *dbias = ctx.out<float>(step, 2);
  const auto sums = ctx.kernel<kernels::NormalizeSumsF32Fn>(step, 0);
  const auto grad = ctx.kernel<kernels::NormalizeGradF32Fn>(step, 1);
  const Scratch s(ctx, step, p.c);
  float *factor = s.vector(0), *slope = s.vector(1), *offset = s.vector(2);
  for (uint32_t c = 0; c < p.c; ++c) factor[c] = scale[c] / kernels::sqrt_f32(variance[c] + p.epsilon);
  sum_channels(
      ctx, p, s,
      [&](size_t at, uint32_t rows, uint32_t c, uint32_t channels, float* first, float* second) {
        sums({x + at, dy + at, mean + c, factor + c, bias + c, rows, channels, p.clamp, first, second});
      },
      add_sums);
  for (uint32_t c = 0; c < p.c; ++c) {
    const Moments& m = s.moments[c];
    const float r = 1.0f / kernels::sqrt_f32(variance[c] + p.epsilon), share = static_cast<float>(1.0 / m.count);
    dbias[c] = static_cast<float>(m.first);
    dscale[c] = static_cast<float>(m.second) * r;
    slope[c] = factor[c] * r * dscale[c] * share;
    offset[c] = factor[c] * dbias[c] * share;
  }
  each_chunk(ctx, p, [&](uint32_t, uint32_t begin, uint32_t end) {
    each_block(p, begin, end, [&](size_t at, uint32_t rows, uint32_t c, uint32_t channels) {
      grad({x + at, dy + at, mean + c, factor + c, bias + c, slope + c, offset + c, dx + at, rows, channels, p.clamp});
    });
  });
}

namespace {

// A block's results are kept until all of it is read: dx may be y or dy, and a compiler that need not ask makes vectors of it.
// Signs of activations are as good as random, so a mask serves where a branch would be mispredicted half of the time.
constexpr uint32_t kBlock = 16;
template <uint32_t kElems>
void clamp_grad(const float* y, const float* dy, float lo, float hi, float* dx) {
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
