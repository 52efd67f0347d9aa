// Quantize to 16 and 32 bits, and Dequantize of such values. Portable loops.
#include "runtime/exec/quantize_wide.h"

#include "lathe/arith.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

struct WideParams {
  uint32_t mark;  // kWideMark
  uint32_t bytes;
  Split split;  // inner: elements
  float scale;
  int32_t zero_point, lo, hi;
};

// The nearest integer, clamped: as round_clamp, for limits beyond its range too.
int32_t quantize_any(float v, const WideParams& p) {
  if (p.bytes == 2) return quantize(v, p.scale, p.zero_point, p.lo, p.hi);
  const float q = rne_f32(v / p.scale);
  const int64_t wide = q >= 0x1p32f ? int64_t{1} << 32 : q > -0x1p32f ? static_cast<int64_t>(q) : -(int64_t{1} << 32);
  const int64_t shifted = wide + p.zero_point;
  return static_cast<int32_t>(shifted < p.lo ? p.lo : shifted > p.hi ? p.hi : shifted);
}

template <class T> void quantize_range(const WideParams& p, const float* x, T* y, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) y[i] = static_cast<T>(quantize_any(x[i], p));
}

template <class T> void dequantize_range(const WideParams& p, const T* x, float* y, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) y[i] = static_cast<float>(int64_t{x[i]} - p.zero_point) * p.scale;
}

Status fill_params(const PrepareInput& in, uint32_t integers, Prepared* out) {
  const uint32_t n = elems(in, 0);
  if (n != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), n);
  const QuantParams q = in.tensor(integers).quant;
  WideParams& p = out->make<WideParams>();
  p.mark = kWideMark;
  p.bytes = elem_bytes(in, integers);
  p.split = split_work(1, n, n, in.threads, 64);
  p.scale = q.scale;
  p.zero_point = q.zero_point;
  p.lo = q.qmin;
  p.hi = q.qmax;
  out->exact_input_mask = 1;
  return {};
}

}  // namespace

bool is_wide(const PrepareInput& in, uint32_t i) {
  const DType t = in.tensor(i).dtype;
  return (t == DType::kS16 || t == DType::kS32) && has_quant(in, i) && is_plain(in, i);
}

Status prepare_wide_dequantize(const PrepareInput& in, Prepared* out) {
  if (!is_f32(in, in.out())) return unsupported_operand(in, in.out());
  return fill_params(in, 0, out);
}

void run_wide_dequantize(const RunContext& ctx, const BoundStep& step) {
  const WideParams& p = ctx.params<WideParams>(step);
  float* y = ctx.out<float>(step, 0);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    if (p.bytes == 2) dequantize_range(p, ctx.in<int16_t>(step, 0), y, r.inner_begin, r.inner_end);
    else dequantize_range(p, ctx.in<int32_t>(step, 0), y, r.inner_begin, r.inner_end);
  });
}

Status prepare_wide_quantize(const PrepareInput& in, Prepared* out) {
  if (!is_f32(in, 0)) return unsupported_operand(in, 0);
  return fill_params(in, in.out(), out);
}

void run_wide_quantize(const RunContext& ctx, const BoundStep& step) {
  const WideParams& p = ctx.params<WideParams>(step);
  const float* x = ctx.in<float>(step, 0);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange r = task_range(p.split, task);
    if (p.bytes == 2) quantize_range(p, x, ctx.out<int16_t>(step, 0), r.inner_begin, r.inner_end);
    else quantize_range(p, x, ctx.out<int32_t>(step, 0), r.inner_begin, r.inner_end);
  });
}

}  // namespace lathe
