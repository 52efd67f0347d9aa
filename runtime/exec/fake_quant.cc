// Rounding to a grid whose scales are operands, its gradient by the straight-through rule, and scales that stay positive: float32,
// for training networks that will be integer.
//
//   FakeQuant:      y = rne(clamp(v, lo, hi)) s,  v = x / s, lo = qmin - zero_point, hi = qmax - zero_point: what Quantize and Dequantize
//                   give, but that a NaN stays one, so that training sees it
//   FakeQuantGrad:  dx = dy where lo <= v <= hi, else 0;  ds = 1 / sqrt(N Q) sum dy (rne(clamp(v)) - (v where lo <= v <= hi, else 0)),
//                   N elements that share the scale, Q = max(hi, -lo)  (Esser et al., "Learned Step Size Quantization", 2020)
//   StepSize:       y = clamp(u, lo, hi) s
//
// x is [outer][c][inner], a scale per c. Sums are made of pieces of fixed size that are added in order, so that results do not depend
// on the threads.
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

constexpr uint32_t kPiece = 16384, kBlock = 16;  // elements

struct FakeQuantParams {
  uint32_t outer, c, inner;
  uint32_t pieces;  // of inner
  Split split;      // of c * pieces units
  float lo, hi;
  float share;  // 1 / sqrt(N Q)
};

// `vectors`: bits of the operands that are scales; the others are as operand 0.
Status prepare_grid(const PrepareInput& in, uint32_t vectors, Prepared* out, FakeQuantParams** made) {
  const auto a = in.program->attrs<FakeQuantAttrs>(*in.step);
  const Shape& x = in.shape(0);
  const int64_t lo = int64_t{a.qmin} - a.zero_point, hi = int64_t{a.qmax} - a.zero_point;
  if (a.axis >= static_cast<int32_t>(x.rank) || a.axis < -1) return refuse(in, Code::kInvalidArgument, x.rank, static_cast<uint32_t>(a.axis));
  if (a.qmin < -128 || a.qmax > 127 || lo > 0 || hi < 0 || lo == hi) return refuse(in, Code::kInvalidArgument, 255, static_cast<uint32_t>(hi - lo));
  const auto axis = static_cast<uint32_t>(a.axis);
  FakeQuantParams& p = *(*made = &out->make<FakeQuantParams>());
  p = {1, 1, x.elems(), 0, {}, static_cast<float>(lo), static_cast<float>(hi), 0};
  if (a.axis >= 0) p.outer = x.elems(0, axis), p.c = static_cast<uint32_t>(x.dims[axis]), p.inner = x.elems(axis + 1, x.rank);
  for (uint32_t i = 0; i < in.step->n_in + uint32_t{in.step->n_out}; ++i) {
    if (!is_f32(in, i)) return unsupported_operand(in, i);
    const bool scale = (vectors >> i & 1) != 0;
    if (scale ? elems(in, i) != p.c : !(in.shape(i) == x)) return refuse(in, Code::kInvalidArgument, scale ? p.c : elems(in, 0), elems(in, i));
  }
  p.pieces = ceil_div(p.inner, kPiece);
  p.split = split_work(p.c * p.pieces, 1, elems(in, 0), in.threads, 1);
  const float largest = p.hi > -p.lo ? p.hi : -p.lo;
  p.share = 1.0f / sqrt_f32(static_cast<float>(p.outer) * static_cast<float>(p.inner) * largest);
  out->exact_input_mask = (1u << in.step->n_in) - 1;
  return {};
}

// Calls f(unit, channel, first element, elements) for what each unit is made of.
template <class F> void each_run(const RunContext& ctx, const FakeQuantParams& p, const F& f) {
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t unit = t.outer_begin; unit < t.outer_end; ++unit) {
      const uint32_t c = unit / p.pieces, first = unit % p.pieces * kPiece;
      const uint32_t n = p.inner - first < kPiece ? p.inner - first : kPiece;
      for (uint32_t o = 0; o < p.outer; ++o) f(unit, c, (static_cast<size_t>(o) * p.c + c) * p.inner + first, n);
    }
  });
}

// Half to even for |v| < 2^22: adding and taking away 1.5 * 2^23 leaves the nearest integer, as that size has no fraction bits, and
// needs no look at the sign, so that a loop over it becomes vectors. A NaN stays.
float round_step(float v) {
  constexpr float kShift = 12582912.0f;
  return (v + kShift) - kShift;
}

template <uint32_t kElems> void to_grid(const float* x, float s, float lo, float hi, float* y) {
  float r[kElems];
  for (uint32_t k = 0; k < kElems; ++k) r[k] = round_step(clamp_f32(x[k] / s, lo, hi)) * s;
  __builtin_memcpy(y, r, sizeof r);
}

float where_bits(uint32_t mask, float v) { return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, v) & mask); }

// sums[k] += the scale's terms of element k.
template <uint32_t kElems>
void grid_gradient(const float* x, const float* dy, float s, float lo, float hi, float* dx, float* sums) {
  float d[kElems];
  for (uint32_t k = 0; k < kElems; ++k) {
    const float v = x[k] / s, c = clamp_f32(v, lo, hi);
    const uint32_t inside = 0u - static_cast<uint32_t>(c == v);
    d[k] = where_bits(inside, dy[k]);
    sums[k] += dy[k] * (round_step(c) - where_bits(inside, v));
  }
  __builtin_memcpy(dx, d, sizeof d);
}

}  // namespace

Status prepare_FakeQuant(const PrepareInput& in, Prepared* out) {
  FakeQuantParams* p = nullptr;
  out->share_input_mask = 1;
  return prepare_grid(in, 1u << 1, out, &p);
}

void run_FakeQuant(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<FakeQuantParams>(step);
  const float *x = ctx.in<float>(step, 0), *scale = ctx.in<float>(step, 1);
  float* y = ctx.out<float>(step, 0);
  each_run(ctx, p, [&](uint32_t, uint32_t c, size_t at, uint32_t n) {
    uint32_t i = 0;
    for (; i + kBlock <= n; i += kBlock) to_grid<kBlock>(x + at + i, scale[c], p.lo, p.hi, y + at + i);
    for (; i < n; ++i) to_grid<1>(x + at + i, scale[c], p.lo, p.hi, y + at + i);
  });
}

Status prepare_FakeQuantGrad(const PrepareInput& in, Prepared* out) {
  FakeQuantParams* p = nullptr;
  if (const Status s = prepare_grid(in, 1u << 1 | 1u << 4, out, &p); !s.ok()) return s;
  const uint64_t scratch = 1ull * p->c * p->pieces * sizeof(float);
  if (scratch > 0x7fffffff) return refuse(in, Code::kUnsupported, 0x7fffffff, p->c);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  return {};
}

void run_FakeQuantGrad(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<FakeQuantParams>(step);
  const float *x = ctx.in<float>(step, 0), *scale = ctx.in<float>(step, 1), *dy = ctx.in<float>(step, 2);
  float *dx = ctx.out<float>(step, 0), *dscale = ctx.out<float>(step, 1);
  float* partial = reinterpret_cast<float*>(ctx.scratch(step));
  for (uint32_t unit = 0; unit < p.c * p.pieces; ++unit) partial[unit] = 0;
  each_run(ctx, p, [&](uint32_t unit, uint32_t c, size_t at, uint32_t n) {
    float sums[kBlock] = {};
    uint32_t i = 0;
    for (; i + kBlock <= n; i += kBlock) grid_gradient<kBlock>(x + at + i, dy + at + i, scale[c], p.lo, p.hi, dx + at + i, sums);
    for (; i < n; ++i) grid_gradient<1>(x + at + i, dy + at + i, scale[c], p.lo, p.hi, dx + at + i, sums + i % kBlock);
    for (const float sum : sums) partial[unit] += sum;
  });
  for (uint32_t c = 0; c < p.c; ++c) {
    double sum = 0;
    for (uint32_t piece = 0; piece < p.pieces; ++piece) sum += static_cast<double>(partial[c * p.pieces + piece]);
    dscale[c] = static_cast<float>(sum) * p.share;
  }
}

namespace {

struct StepSizeParams {
  uint32_t n;
  float lo, hi;
};

}  // namespace

Status prepare_StepSize(const PrepareInput& in, Prepared* out) {
  const auto a = in.program->attrs<ClampAttrs>(*in.step);
  if (!(a.lo > 0) || !(a.lo <= a.hi)) return refuse(in, Code::kInvalidArgument);
  for (uint32_t i = 0; i <= in.out(); ++i) {
    if (!is_f32(in, i)) return unsupported_operand(in, i);
    if (!(in.shape(i) == in.shape(0))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, i));
  }
  auto& p = out->make<StepSizeParams>();
  p = {elems(in, 0), a.lo, a.hi};
  out->share_input_mask = 3;
  out->exact_input_mask = 3;
  return {};
}

// A NaN gives the lowest: a scale is one whatever the factor has become.
void run_StepSize(const RunContext& ctx, const BoundStep& step) {
  const auto& p = ctx.params<StepSizeParams>(step);
  const float *u = ctx.in<float>(step, 0), *s = ctx.in<float>(step, 1);
  float* y = ctx.out<float>(step, 0);
  for (uint32_t i = 0; i < p.n; ++i) y[i] = min_f32(max_f32(u[i], p.lo), p.hi) * s[i];
}

}  // namespace lathe
