// Functions of one input that have no vector kernel: float by portable code, quantized values by a table. Each step names its own
// loop, so that firmware links only the functions that its model uses.
#include "kernels/math/functions.h"
#include "runtime/exec/lookup.h"

namespace lathe {
namespace {

template <float (*kFunction)(float)> struct Plain {
  float operator()(float x) const { return kFunction(x); }
};

struct Elu {
  float alpha, beta, gamma;
  float operator()(float x) const { return kernels::elu_f32(x, alpha, beta, gamma); }
};

// NaN stays NaN.
struct HardSigmoid {
  float alpha, beta;
  float operator()(float x) const { return clamp_f32(alpha * x + beta, 0.0f, 1.0f); }
};

template <class F> struct FunctionParams {
  uint32_t quantized;
  Rows rows;
  F f;
};

template <class F> Status prepare_function(const PrepareInput& in, const F& f, Prepared* out) {
  const bool is_float = is_f32(in, 0) && is_f32(in, in.out()) && in.step->n_in == 1;
  if (!is_float) {
    if (const Status s = check_lookup(in); !s.ok()) return s;
  }
  if (elems(in, 0) != elems(in, in.out())) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, 0));
  FunctionParams<F>& p = out->make<FunctionParams<F>>();
  p.quantized = is_float ? 0 : 1;
  p.rows = make_rows(in, out);
  p.f = f;
  out->share_input_mask = out->exact_input_mask = 1;
  if (is_float) return {};
  return out->use(kernels::select(kernels::Family::kLut8, in.storage, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

template <class F> void run_function(const RunContext& ctx, const BoundStep& step) {
  const FunctionParams<F>& p = ctx.params<FunctionParams<F>>(step);
  if (p.quantized != 0) return run_lookup(ctx, step, p.rows);
  const float* x = ctx.in<float>(step, 0);
  float* y = ctx.out<float>(step, 0);
  ctx.parallel(p.rows.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_row(p.rows, task, [&](uint32_t xi, uint32_t yi, uint32_t n) {
      for (uint32_t i = 0; i < n; ++i) y[yi + i] = p.f(x[xi + i]);
    });
  });
}

}  // namespace

#define LATHE_FUNCTION(op, function) \
  Status prepare_##op(const PrepareInput& in, Prepared* out) { return prepare_function(in, Plain<kernels::function>{}, out); } \
  void run_##op(const RunContext& ctx, const BoundStep& step) { run_function<Plain<kernels::function>>(ctx, step); }

LATHE_FUNCTION(Abs, abs_f32)
LATHE_FUNCTION(Sign, sign_f32)
LATHE_FUNCTION(Floor, floor_f32)
LATHE_FUNCTION(Ceil, ceil_f32)
LATHE_FUNCTION(Round, rne_f32)
LATHE_FUNCTION(Log, log_f32)
LATHE_FUNCTION(Sin, sin_f32)
LATHE_FUNCTION(Cos, cos_f32)
LATHE_FUNCTION(Tan, tan_f32)
LATHE_FUNCTION(Asin, asin_f32)
LATHE_FUNCTION(Acos, acos_f32)
LATHE_FUNCTION(Atan, atan_f32)
LATHE_FUNCTION(Sinh, sinh_f32)
LATHE_FUNCTION(Cosh, cosh_f32)
LATHE_FUNCTION(Asinh, asinh_f32)
LATHE_FUNCTION(Acosh, acosh_f32)
LATHE_FUNCTION(Atanh, atanh_f32)
LATHE_FUNCTION(Softplus, softplus_f32)
LATHE_FUNCTION(Mish, mish_f32)

#undef LATHE_FUNCTION

Status prepare_Elu(const PrepareInput& in, Prepared* out) {
  const EluAttrs a = in.program->attrs<EluAttrs>(*in.step);
  return prepare_function(in, Elu{a.alpha, a.beta, a.gamma}, out);
}
void run_Elu(const RunContext& ctx, const BoundStep& step) { run_function<Elu>(ctx, step); }

Status prepare_HardSigmoid(const PrepareInput& in, Prepared* out) {
  const HardSigmoidAttrs a = in.program->attrs<HardSigmoidAttrs>(*in.step);
  return prepare_function(in, HardSigmoid{a.alpha, a.beta}, out);
}
void run_HardSigmoid(const RunContext& ctx, const BoundStep& step) { run_function<HardSigmoid>(ctx, step); }

}  // namespace lathe
