// BatchNorm, float, for graphs that keep it: y = x * g[c] + h[c] with g = scale / sqrt(variance + epsilon), h = bias - mean * g.
#include "kernels/eltwise/eltwise.h"
#include "kernels/math/math.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::BinaryOp;
using kernels::Family;

// x is [outer][c][inner]. inner 1: rows of c values against the vectors g and h; else rows of inner values against one g and
// h each.
struct BatchNormParams {
  float epsilon;
  uint32_t c, inner;
  Split split;  // inner 1: outer x c, else (outer * c) x inner
};

}  // namespace

Status prepare_BatchNorm(const PrepareInput& in, Prepared* out) {
  const BatchNormAttrs a = in.program->attrs<BatchNormAttrs>(*in.step);
  const Shape& x = in.shape(0);
  const uint32_t axis = static_cast<uint32_t>(a.axis);
  if (axis >= x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  if (!is_f32(in, in.out())) return unsupported_operand(in, in.out());
  if (!(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  BatchNormParams& p = out->make<BatchNormParams>();
  p.c = static_cast<uint32_t>(x.dims[axis]);
  for (uint32_t i = 0; i < 5; ++i) {
    if (!is_f32(in, i)) return unsupported_operand(in, i);
    if (i > 0 && elems(in, i) != p.c) return refuse(in, Code::kInvalidArgument, p.c, elems(in, i));
  }
  p.epsilon = a.epsilon;
  const uint32_t outer = x.elems(0, axis);
  p.inner = x.elems(axis + 1, x.rank);
  p.split = p.inner == 1 ? split_work(outer, p.c, elems(in, 0), in.threads, 16)
                         : split_work(outer * p.c, p.inner, elems(in, 0), in.threads, 16);
  uint32_t vectors = 0;
  Shape two_vectors;
  two_vectors.rank = 2;
  two_vectors.dims[0] = 2;
  two_vectors.dims[1] = x.dims[axis];
  if (!checked_elems(two_vectors, sizeof(float), &vectors)) return refuse(in, Code::kUnsupported, 0x7fffffff, p.c);
  out->scratch_bytes = vectors * static_cast<uint32_t>(sizeof(float));
  out->share_input_mask = 1;
  out->exact_input_mask = 31;
  return out->use(kernels::select(Family::kBinaryF32, kernels::Storage::kS8, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_BatchNorm(const RunContext& ctx, const BoundStep& step) {
  const BatchNormParams& p = ctx.params<BatchNormParams>(step);
  const auto kernel = ctx.kernel<kernels::BinaryF32Fn>(step);
  const float *x = ctx.in<float>(step, 0), *scale = ctx.in<float>(step, 1), *bias = ctx.in<float>(step, 2);
  const float *mean = ctx.in<float>(step, 3), *variance = ctx.in<float>(step, 4);
  float* y = ctx.out<float>(step, 0);
  float* g = reinterpret_cast<float*>(ctx.scratch(step));
  float* h = g + p.c;
  for (uint32_t i = 0; i < p.c; ++i) {
    g[i] = scale[i] / kernels::sqrt_f32(variance[i] + p.epsilon);
    h[i] = bias[i] - mean[i] * g[i];
  }
  const bool vectors = p.inner == 1;
  const uint32_t width = p.split.inner;
  // Two passes over a block that stays in the first-level cache.
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    const uint32_t n = t.inner_end - t.inner_begin;
    for (uint32_t row = t.outer_begin; row < t.outer_end; ++row) {
      const uint32_t at = row * width + t.inner_begin, channel = vectors ? t.inner_begin : row % p.c;
      const uint32_t step_of_channel = vectors ? 1 : 0;
      kernel({x + at, g + channel, y + at, 1, n, 0, 0, 0, 1, step_of_channel, BinaryOp::kMul, -kInfinity, kInfinity});
      kernel({y + at, h + channel, y + at, 1, n, 0, 0, 0, 1, step_of_channel, BinaryOp::kAdd, -kInfinity, kInfinity});
    }
  });
}

}  // namespace lathe
