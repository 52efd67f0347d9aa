// LayerNorm over the last axes: rows of n contiguous values.
#include "kernels/norm/norm.h"
#include "lathe/arith.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::Family;

struct LayerNormParams {
  uint32_t quantized, has_bias;
  uint32_t n;
  float epsilon;
  Split split;  // outer: rows
  kernels::LayerNormConstants c;
};

// Operands 1 and 2 are vectors of n floats.
Status check_vectors(const PrepareInput& in, uint32_t n) {
  for (uint32_t i = 1; i < in.step->n_in; ++i) {
    if (!in.has(i)) continue;
    if (!is_f32(in, i)) return unsupported_operand(in, i);
    if (elems(in, i) != n) return refuse(in, Code::kInvalidArgument, n, elems(in, i));
  }
  return {};
}

Status prepare_q8(const PrepareInput& in, LayerNormParams* p) {
  if (!is_q8_in_storage(in, 0)) return unsupported_operand(in, 0);
  if (!is_q8(in, in.out())) return unsupported_operand(in, in.out());
  if (!in.has(2)) return refuse(in, Code::kCorrupt, 3, in.step->n_in);
  if (p->n > kMaxLayerNorm) return refuse(in, Code::kUnsupported, kMaxLayerNorm, p->n);
  const QuantParams x = in.quant(0), y = in.quant(in.out());
  const double n = p->n, scale = static_cast<double>(x.scale);
  if (!round_multiplier(n * n * static_cast<double>(p->epsilon) / (scale * scale), &p->c.c))
    return refuse(in, Code::kInvalidArgument);
  p->c.zero_point = y.zero_point;
  p->c.lo = y.qmin;
  p->c.hi = y.qmax;
  return {};
}

}  // namespace

Status prepare_LayerNorm(const PrepareInput& in, Prepared* out) {
  const LayerNormAttrs a = in.program->attrs<LayerNormAttrs>(*in.step);
  const Shape& x = in.shape(0);
  const uint32_t axis = static_cast<uint32_t>(a.axis);
  if (axis >= x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  if (!(a.epsilon >= 0)) return refuse(in, Code::kInvalidArgument);
  if (!(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  LayerNormParams& p = out->make<LayerNormParams>();
  p.n = x.elems(axis, x.rank);
  p.epsilon = a.epsilon;
  p.has_bias = in.has(2) ? 1 : 0;
  p.split = split_work(p.n == 0 ? 0 : x.elems(0, axis), 1, elems(in, 0), in.threads, 1);
  if (const Status s = check_vectors(in, p.n); !s.ok()) return s;
  out->share_input_mask = 1;
  out->exact_input_mask = 7;
  if (is_f32(in, 0) && is_f32(in, in.out())) {
    return out->use(kernels::select(Family::kLayerNormF32, kernels::Storage::kS8, in.isa)) ? Status{}
                                                                                          : refuse(in, Code::kUnsupported);
  }
  p.quantized = 1;
  if (const Status s = prepare_q8(in, &p); !s.ok()) return s;
  return out->use(kernels::select(Family::kLayerNormS8, in.storage, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_LayerNorm(const RunContext& ctx, const BoundStep& step) {
  const LayerNormParams& p = ctx.params<LayerNormParams>(step);
  const float* scale = ctx.in<float>(step, 1);
  const float* bias = p.has_bias != 0 ? ctx.in<float>(step, 2) : nullptr;
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    const uint32_t at = t.outer_begin * p.n, rows = t.outer_end - t.outer_begin;
    if (p.quantized != 0) {
      ctx.kernel<kernels::LayerNormS8Fn>(step)(
          {ctx.in<uint8_t>(step, 0) + at, scale, bias, ctx.out<uint8_t>(step, 0) + at, rows, p.n, p.c});
    } else {
      ctx.kernel<kernels::LayerNormF32Fn>(step)(
          {ctx.in<float>(step, 0) + at, scale, bias, ctx.out<float>(step, 0) + at, rows, p.n, p.epsilon});
    }
  });
}

}  // namespace lathe
