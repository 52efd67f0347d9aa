// One-input elementwise operators: float kernels, tables for quantized values, regrid for clamp and leaky ReLU.
#include "runtime/exec/half_tiles.h"
#include "runtime/exec/lookup.h"

namespace lathe {
namespace {

using kernels::Family;
using kernels::UnaryOp;

enum class Form : uint32_t { kF32, kF16, kTable, kRegrid };

struct UnaryParams {
  Form form;
  Rows rows;
  UnaryOp op;
  float a, b;
  kernels::RegridConstants regrid;
};

Status check_elems(const PrepareInput& in) {
  return elems(in, 0) == elems(in, in.out()) ? Status{} : refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, 0));
}

Status prepare_common(const PrepareInput& in, Form form, Family family, Prepared* out, UnaryParams** p) {
  if (const Status s = check_elems(in); !s.ok()) return s;
  *p = &out->make<UnaryParams>();
  (*p)->form = form;
  (*p)->rows = make_rows(in, out);
  out->share_input_mask = out->exact_input_mask = 1;
  const kernels::Storage storage = form == Form::kF32 || form == Form::kF16 ? kernels::Storage::kS8 : in.storage;
  return out->use(kernels::select(family, storage, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

bool is_real(const PrepareInput& in) {
  return (is_f32(in, 0) && is_f32(in, in.out())) || (is_f16(in, 0) && is_f16(in, in.out()));
}

Status prepare_real(const PrepareInput& in, UnaryOp op, float a, float b, Prepared* out) {
  UnaryParams* p = nullptr;
  const Form form = is_f32(in, 0) ? Form::kF32 : Form::kF16;
  const Status s = prepare_common(in, form, Family::kUnaryF32, out, &p);
  if (!s.ok()) return s;
  if (form == Form::kF16 && !use_half_kernels(in, out)) return refuse(in, Code::kUnsupported);
  p->op = op;
  p->a = a;
  p->b = b;
  return {};
}

// Sigmoid and its like: float, half precision, or a table of 256 entries as operand 1.
Status prepare_function(const PrepareInput& in, UnaryOp op, Prepared* out) {
  if (is_real(in) && in.step->n_in == 1) return prepare_real(in, op, 0, 0, out);
  if (const Status s = check_lookup(in); !s.ok()) return s;
  UnaryParams* p = nullptr;
  return prepare_common(in, Form::kTable, Family::kLut8, out, &p);
}

// y = R(float(q - z_x) * m, z) with limits; m by the sign of q - z_x.
Status prepare_regrid(const PrepareInput& in, float lo, float hi, double negative_slope, Prepared* out) {
  if (!is_q8(in, 0)) return unsupported_operand(in, 0);
  if (!is_q8(in, in.out())) return unsupported_operand(in, in.out());
  UnaryParams* p = nullptr;
  const Status s = prepare_common(in, Form::kRegrid, Family::kRegridS8, out, &p);
  if (!s.ok()) return s;
  const QuantParams x = in.quant(0), y = in.quant(in.out());
  const double m = static_cast<double>(x.scale) / static_cast<double>(y.scale);
  kernels::RegridConstants& r = p->regrid;
  r.m_neg = static_cast<float>(m * negative_slope);
  if (!round_multiplier(m, &r.m_pos) || r.m_neg - r.m_neg != 0) return refuse(in, Code::kInvalidArgument);
  if (!quantized_limits(y, lo, hi, &r.lo, &r.hi)) return refuse(in, Code::kInvalidArgument);
  r.x_flip = stored_flip(in, 0);
  r.x_zero = x.zero_point;
  r.zero_point = y.zero_point;
  return {};
}

void run_f32(const RunContext& ctx, const BoundStep& step, const UnaryParams& p) {
  const auto kernel = ctx.kernel<kernels::UnaryF32Fn>(step);
  const float* x = ctx.in<float>(step, 0);
  float* y = ctx.out<float>(step, 0);
  ctx.parallel(p.rows.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_row(p.rows, task, [&](uint32_t xi, uint32_t yi, uint32_t n) { kernel({x + xi, y + yi, n, p.op, p.a, p.b}); });
  });
}

[[gnu::noinline]] void run_half_row(const HalfKernels& half, kernels::UnaryF32Fn kernel, const UnaryParams& p, const uint16_t* x,
                                    uint16_t* y, uint32_t n) {
  alignas(64) float tile[kHalfTile];
  for_each_half_tile(n, [&](uint32_t i, uint32_t count) {
    half.widen({x + i, tile, count});
    kernel({tile, tile, count, p.op, p.a, p.b});
    half.narrow({tile, y + i, count});
  });
}

void run_f16(const RunContext& ctx, const BoundStep& step, const UnaryParams& p) {
  const auto kernel = ctx.kernel<kernels::UnaryF32Fn>(step);
  const HalfKernels half(ctx, step);
  const uint16_t* x = ctx.in<uint16_t>(step, 0);
  uint16_t* y = ctx.out<uint16_t>(step, 0);
  ctx.parallel(p.rows.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_row(p.rows, task, [&](uint32_t xi, uint32_t yi, uint32_t n) { run_half_row(half, kernel, p, x + xi, y + yi, n); });
  });
}

void run_regrid(const RunContext& ctx, const BoundStep& step, const UnaryParams& p) {
  const auto kernel = ctx.kernel<kernels::RegridS8Fn>(step);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  ctx.parallel(p.rows.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_row(p.rows, task, [&](uint32_t xi, uint32_t yi, uint32_t n) { kernel({x + xi, y + yi, n, p.regrid}); });
  });
}

void run_unary(const RunContext& ctx, const BoundStep& step) {
  const UnaryParams& p = ctx.params<UnaryParams>(step);
  switch (p.form) {
    case Form::kF32: return run_f32(ctx, step, p);
    case Form::kF16: return run_f16(ctx, step, p);
    case Form::kTable: return run_lookup(ctx, step, p.rows);
    case Form::kRegrid: return run_regrid(ctx, step, p);
  }
}

}  // namespace

Status prepare_Clamp(const PrepareInput& in, Prepared* out) {
  const ClampAttrs a = in.program->attrs<ClampAttrs>(*in.step);
  if (!(a.lo <= a.hi)) return refuse(in, Code::kInvalidArgument);
  if (is_real(in)) return prepare_real(in, UnaryOp::kClamp, a.lo, a.hi, out);
  return prepare_regrid(in, a.lo, a.hi, 1.0, out);
}

Status prepare_LeakyRelu(const PrepareInput& in, Prepared* out) {
  const LeakyReluAttrs a = in.program->attrs<LeakyReluAttrs>(*in.step);
  if (is_real(in)) return prepare_real(in, UnaryOp::kLeakyRelu, a.alpha, 0, out);
  return prepare_regrid(in, -kInfinity, kInfinity, static_cast<double>(a.alpha), out);
}

Status prepare_Regrid(const PrepareInput& in, Prepared* out) { return prepare_regrid(in, -kInfinity, kInfinity, 1.0, out); }

Status prepare_Sigmoid(const PrepareInput& in, Prepared* out) { return prepare_function(in, UnaryOp::kSigmoid, out); }
Status prepare_Tanh(const PrepareInput& in, Prepared* out) { return prepare_function(in, UnaryOp::kTanh, out); }
Status prepare_Exp(const PrepareInput& in, Prepared* out) { return prepare_function(in, UnaryOp::kExp, out); }
Status prepare_Sqrt(const PrepareInput& in, Prepared* out) { return prepare_function(in, UnaryOp::kSqrt, out); }
Status prepare_HardSwish(const PrepareInput& in, Prepared* out) { return prepare_function(in, UnaryOp::kHardSwish, out); }

Status prepare_Silu(const PrepareInput& in, Prepared* out) { return prepare_function(in, UnaryOp::kSilu, out); }
Status prepare_Erf(const PrepareInput& in, Prepared* out) { return prepare_function(in, UnaryOp::kErf, out); }
Status prepare_Gelu(const PrepareInput& in, Prepared* out) {
  const int32_t form = in.program->attrs<GeluAttrs>(*in.step).approximate;
  if (form != 0 && form != 1) return refuse(in, Code::kInvalidArgument, 1, static_cast<uint32_t>(form));
  return prepare_function(in, form == 0 ? UnaryOp::kGelu : UnaryOp::kGeluTanh, out);
}

void run_Clamp(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_LeakyRelu(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Regrid(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Sigmoid(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Tanh(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Exp(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Sqrt(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_HardSwish(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Gelu(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Silu(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }
void run_Erf(const RunContext& ctx, const BoundStep& step) { run_unary(ctx, step); }

}  // namespace lathe
