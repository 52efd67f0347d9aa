// Quantize and Dequantize: the borders between float and 8-bit values.
#include "kernels/eltwise/eltwise.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/quantize_wide.h"
#include "runtime/exec/rows.h"

namespace lathe {
namespace {

using kernels::Family;

struct QuantizeParams {
  uint32_t mark;  // not kWideMark
  Rows rows;
  kernels::QuantizeConstants constants;
};
struct DequantizeParams {
  uint32_t mark;  // not kWideMark
  Rows rows;
  kernels::DequantizeConstants constants;
};

}  // namespace

Status prepare_Quantize(const PrepareInput& in, Prepared* out) {
  if (is_wide(in, in.out())) return prepare_wide_quantize(in, out);
  if (!is_f32(in, 0)) return unsupported_operand(in, 0);
  if (!is_q8(in, in.out())) return unsupported_operand(in, in.out());
  const uint32_t n = elems(in, 0);
  if (n != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), n);
  QuantizeParams& p = out->make<QuantizeParams>();
  const QuantParams q = in.quant(in.out());
  p.rows = make_rows(in, out);
  out->exact_input_mask = 1;
  p.constants = {q.scale, q.zero_point, q.qmin, q.qmax};
  return out->use(kernels::select(Family::kQuantizeF32, in.storage, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Quantize(const RunContext& ctx, const BoundStep& step) {
  const QuantizeParams& p = ctx.params<QuantizeParams>(step);
  if (p.mark == kWideMark) return run_wide_quantize(ctx, step);
  const auto kernel = ctx.kernel<kernels::QuantizeF32Fn>(step);
  const float* x = ctx.in<float>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  ctx.parallel(p.rows.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_row(p.rows, task, [&](uint32_t xi, uint32_t yi, uint32_t n) { kernel({x + xi, y + yi, n, p.constants}); });
  });
}

Status prepare_Dequantize(const PrepareInput& in, Prepared* out) {
  if (is_wide(in, 0)) return prepare_wide_dequantize(in, out);
  if (!is_q8(in, 0)) return unsupported_operand(in, 0);
  if (!is_f32(in, in.out())) return unsupported_operand(in, in.out());
  const uint32_t n = elems(in, 0);
  if (n != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), n);
  DequantizeParams& p = out->make<DequantizeParams>();
  const QuantParams q = in.quant(0);
  p.rows = make_rows(in, out);
  out->exact_input_mask = 1;
  p.constants = {stored_flip(in, 0), q.scale, q.zero_point};
  return out->use(kernels::select(Family::kDequantizeF32, in.storage, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Dequantize(const RunContext& ctx, const BoundStep& step) {
  const DequantizeParams& p = ctx.params<DequantizeParams>(step);
  if (p.mark == kWideMark) return run_wide_dequantize(ctx, step);
  const auto kernel = ctx.kernel<kernels::DequantizeF32Fn>(step);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  float* y = ctx.out<float>(step, 0);
  ctx.parallel(p.rows.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_row(p.rows, task, [&](uint32_t xi, uint32_t yi, uint32_t n) { kernel({x + xi, y + yi, n, p.constants}); });
  });
}

}  // namespace lathe
