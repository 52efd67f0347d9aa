// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear on plain integers, with parameters that are operands: per tensor,
// along an axis, or in blocks.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

constexpr uint32_t kScale = 1, kZero = 2;

// Element i of x is at (o, a, k) of outer x extent x inner; its parameters are at o * outer_step + a / block * axis_step + k *
// inner_step.
struct LinearParams {
  Split split;  // outer: outer, inner: extent * inner
  uint32_t inner, block, outer_step, axis_step, inner_step;
  DType steps;
  int32_t lo, hi;
};

bool step_range(DType t, int32_t* lo, int32_t* hi) {
  switch (t) {
    case DType::kS8: *lo = -128; *hi = 127; return true;
    case DType::kU8: *lo = 0; *hi = 255; return true;
    case DType::kS16: *lo = -32768; *hi = 32767; return true;
    case DType::kU16: *lo = 0; *hi = 65535; return true;
    case DType::kS32: *lo = INT32_MIN; *hi = INT32_MAX; return true;
    default: return false;
  }
}

bool is_plain_integer(const PrepareInput& in, uint32_t i, DType t) {
  return in.tensor(i).dtype == t && is_plain(in, i) && !has_quant(in, i);
}

// How parameters lie along x. Whole tensor: all steps 0.
Status find_steps(const PrepareInput& in, int32_t axis, int32_t block, LinearParams* p) {
  const Shape &x = in.shape(0), &scale = in.shape(kScale);
  const uint32_t n = x.elems(), count = scale.elems();
  *p = {};
  p->inner = 1;
  p->block = 1;
  p->split = split_work(1, n, n, in.threads, 64);
  if (block < 0 || count == 0) return refuse(in, Code::kInvalidArgument, 1, count);
  if (block == 0 && count == 1) return {};
  if (axis < 0 || static_cast<uint32_t>(axis) >= x.rank)
    return refuse(in, Code::kInvalidArgument, x.rank, static_cast<uint32_t>(axis));
  const auto at = static_cast<uint32_t>(axis);
  const uint32_t outer = x.elems(0, at), extent = static_cast<uint32_t>(x.dims[at]);
  p->inner = x.elems(at + 1, x.rank);
  p->axis_step = 1;
  if (block == 0) {
    if (count != extent) return refuse(in, Code::kInvalidArgument, extent, count);
  } else {
    p->block = static_cast<uint32_t>(block);
    const uint32_t blocks = ceil_div(extent, p->block);
    if (scale.rank != x.rank || scale.elems(0, at) != outer || static_cast<uint32_t>(scale.dims[at]) != blocks ||
        scale.elems(at + 1, x.rank) != p->inner)
      return refuse(in, Code::kInvalidArgument, outer * blocks * p->inner, count);
    p->outer_step = blocks * p->inner;
    p->axis_step = p->inner;
    p->inner_step = 1;
  }
  p->split = split_work(outer, extent * p->inner, n, in.threads, 64);
  return {};
}

// `steps`: the operand of integers.
Status prepare_linear(const PrepareInput& in, uint32_t steps, int32_t axis, int32_t block, LinearParams* p) {
  const uint32_t real = steps == 0 ? in.out() : 0;
  if (!is_f32(in, real)) return unsupported_operand(in, real);
  if (!is_f32(in, kScale)) return unsupported_operand(in, kScale);
  if (!(in.shape(0) == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, 0));
  if (const Status s = find_steps(in, axis, block, p); !s.ok()) return s;
  p->steps = in.tensor(steps).dtype;
  if (!step_range(p->steps, &p->lo, &p->hi) || has_quant(in, steps) || !is_plain(in, steps))
    return unsupported_operand(in, steps);
  if (in.step->n_in <= kZero || !in.has(kZero)) return {};
  if (!is_plain_integer(in, kZero, p->steps)) return unsupported_operand(in, kZero);
  return elems(in, kZero) == elems(in, kScale) ? Status{}
                                               : refuse(in, Code::kInvalidArgument, elems(in, kScale), elems(in, kZero));
}

// Calls f(element, parameters' index) for all elements of a task.
template <class F> void each_element(const LinearParams& p, uint32_t task, const F& f) {
  const TaskRange t = task_range(p.split, task);
  for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
    for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) {
      const uint32_t at = o * p.outer_step + i / p.inner / p.block * p.axis_step + i % p.inner * p.inner_step;
      f(o * p.split.inner + i, at);
    }
  }
}

// Calls f with a null pointer of the type of the steps.
template <class F> void with_steps(DType t, const F& f) {
  switch (t) {
    case DType::kS8: return f(static_cast<int8_t*>(nullptr));
    case DType::kU8: return f(static_cast<uint8_t*>(nullptr));
    case DType::kS16: return f(static_cast<int16_t*>(nullptr));
    case DType::kU16: return f(static_cast<uint16_t*>(nullptr));
    default: return f(static_cast<int32_t*>(nullptr));
  }
}

}  // namespace

Status prepare_QuantizeLinear(const PrepareInput& in, Prepared* out) {
  const auto a = in.program->attrs<QuantizeLinearAttrs>(*in.step);
  LinearParams& p = out->make<LinearParams>();
  if (const Status s = prepare_linear(in, in.out(), a.axis, a.block, &p); !s.ok()) return s;
  // round_clamp works on ranges below 2^22.
  return p.steps == DType::kS32 ? unsupported_operand(in, in.out()) : Status{};
}

void run_QuantizeLinear(const RunContext& ctx, const BoundStep& step) {
  const LinearParams& p = ctx.params<LinearParams>(step);
  const float *x = ctx.in<float>(step, 0), *scale = ctx.in<float>(step, kScale);
  with_steps(p.steps, [&]<class T>(T*) {
    const T* zero = ctx.in<T>(step, kZero);
    T* y = ctx.out<T>(step, 0);
    ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
      each_element(p, task, [&](uint32_t i, uint32_t at) {
        y[i] = static_cast<T>(quantize(x[i], scale[at], zero == nullptr ? 0 : zero[at], p.lo, p.hi));
      });
    });
  });
}

Status prepare_DequantizeLinear(const PrepareInput& in, Prepared* out) {
  const auto a = in.program->attrs<DequantizeLinearAttrs>(*in.step);
  return prepare_linear(in, 0, a.axis, a.block, &out->make<LinearParams>());
}

void run_DequantizeLinear(const RunContext& ctx, const BoundStep& step) {
  const LinearParams& p = ctx.params<LinearParams>(step);
  const float* scale = ctx.in<float>(step, kScale);
  float* y = ctx.out<float>(step, 0);
  with_steps(p.steps, [&]<class T>(T*) {
    const T *x = ctx.in<T>(step, 0), *zero = ctx.in<T>(step, kZero);
    ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
      each_element(p, task, [&](uint32_t i, uint32_t at) {
        const int64_t steps = static_cast<int64_t>(x[i]) - (zero == nullptr ? 0 : zero[at]);
        y[i] = static_cast<float>(steps) * scale[at];
      });
    });
  });
}

namespace {

struct DynamicParams {
  uint32_t n;
};

}  // namespace

Status prepare_DynamicQuantizeLinear(const PrepareInput& in, Prepared* out) {
  if (!is_f32(in, 0)) return unsupported_operand(in, 0);
  const uint32_t y = in.out(0), scale = in.out(1), zero = in.out(2);
  if (!is_plain_integer(in, y, DType::kU8)) return unsupported_operand(in, y);
  if (!is_f32(in, scale)) return unsupported_operand(in, scale);
  if (!is_plain_integer(in, zero, DType::kU8)) return unsupported_operand(in, zero);
  if (!(in.shape(0) == in.shape(y))) return refuse(in, Code::kInvalidArgument, elems(in, y), elems(in, 0));
  if (elems(in, scale) != 1 || elems(in, zero) != 1) return refuse(in, Code::kInvalidArgument, 1, elems(in, scale));
  out->make<DynamicParams>().n = elems(in, 0);
  return {};
}

// scale = (max - min) / 255 over a range that contains 0, zero point = saturate(rne(0 - min / scale)).
void run_DynamicQuantizeLinear(const RunContext& ctx, const BoundStep& step) {
  const uint32_t n = ctx.params<DynamicParams>(step).n;
  const float* x = ctx.in<float>(step, 0);
  float low = 0, high = 0;
  for (uint32_t i = 0; i < n; ++i) {
    low = min_f32(x[i], low);
    high = max_f32(x[i], high);
  }
  float scale = (high - low) / 255.0f;
  if (!(scale > 0)) scale = 1.0f;  // all zeros: any scale will do
  const int32_t zero = quantize(0.0f - low, scale, 0, 0, 255);
  auto* y = ctx.out<uint8_t>(step, 0);
  for (uint32_t i = 0; i < n; ++i) y[i] = static_cast<uint8_t>(quantize(x[i], scale, zero, 0, 255));
  *ctx.out<float>(step, 1) = scale;
  *ctx.out<uint8_t>(step, 2) = static_cast<uint8_t>(zero);
}

}  // namespace lathe
