// Add, Sub, Mul and Div with broadcasting: float, half precision, quantized, and plain integers of every type.
#include "kernels/eltwise/eltwise.h"
#include "runtime/element_types.h"
#include "runtime/exec/broadcast.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/half_tiles.h"
#include "runtime/exec/rows.h"

namespace lathe {
namespace {

using kernels::BinaryOp;
using kernels::Family;

enum class Form : uint32_t { kF32, kF16, kQ8, kInteger };

struct BinaryParams {
  Form form;
  uint32_t dtype;
  BinaryOp op;
  Broadcast shape;
  float lo, hi;
  kernels::BinaryS8Constants q8;
};

Status prepare_q8(const PrepareInput& in, BinaryOp op, const BinaryAttrs& attrs, Prepared* out, BinaryParams* p) {
  if (op == BinaryOp::kDiv) return unsupported_operand(in, 0);
  const QuantParams a = in.quant(0), b = in.quant(1), y = in.quant(in.out());
  const double sa = a.scale, sb = b.scale, sy = y.scale;
  const bool product = op == BinaryOp::kMul;
  kernels::BinaryS8Constants& c = p->q8;
  bool ok = round_multiplier(product ? sa * sb / sy : sa / sy, &c.m_a);
  if (!product) ok = round_multiplier(sb / sy, &c.m_b) && ok;
  if (!ok || !quantized_limits(y, attrs.lo, attrs.hi, &c.lo, &c.hi)) return refuse(in, Code::kInvalidArgument);
  c.a_flip = stored_flip(in, 0);
  c.b_flip = stored_flip(in, 1);
  c.a_zero = a.zero_point;
  c.b_zero = b.zero_point;
  c.zero_point = y.zero_point;
  return out->use(kernels::select(Family::kBinaryS8, in.storage, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

// Which form all three operands have; false for a combination that none has.
bool find_form(const PrepareInput& in, Form* form) {
  const uint32_t operands[] = {0, 1, in.out()};
  const DType t = in.tensor(0).dtype;
  bool quantized = true, plain = true;
  for (const uint32_t i : operands) {
    quantized = quantized && is_q8(in, i);
    plain = plain && in.tensor(i).dtype == t && is_plain(in, i) && !has_quant(in, i);
  }
  if (quantized) *form = Form::kQ8;
  else if (plain && t == DType::kF32) *form = Form::kF32;
  else if (plain && t == DType::kF16) *form = Form::kF16;
  else if (plain && has_type(kIntegerTypes, t)) *form = Form::kInteger;
  else return false;
  return true;
}

// How operand i of a step over pixels of the output's shape goes: a pixel at a time, or the same (one row, or one value) for all.
// False for any other broadcast.
bool pixel_operand(const PrepareInput& in, uint32_t i, uint32_t* stride, uint32_t* step) {
  const Shape &x = in.shape(i), &y = in.shape(in.out());
  const uint32_t n = x.elems(), c = static_cast<uint32_t>(y.dims[y.rank - 1]);
  *step = n == 1 && c != 1 ? 0 : 1;
  *stride = x == y ? in.pixel_stride(i) : 0;
  return x == y || n == 1 || (n == c && x.rank > 0 && x.dims[x.rank - 1] == y.dims[y.rank - 1]);
}

// Which operands may have gaps between their pixels; and where one has, the loop over pixels.
void prepare_pixels(const PrepareInput& in, Prepared* out, BinaryParams* p) {
  const Shape& y = in.shape(in.out());
  uint32_t strides[3] = {}, steps[2] = {};
  if (elems(in, in.out()) == 0 || !has_long_pixels(in, in.out())) return;
  if (!pixel_operand(in, 0, &strides[0], &steps[0]) || !pixel_operand(in, 1, &strides[1], &steps[1])) return;
  for (uint32_t i = 0; i < 2; ++i) out->strided_input_mask |= in.shape(i) == y ? 1u << i : 0;
  out->strided_output = true;
  if (in.is_dense(0) && in.is_dense(1) && in.is_dense(in.out())) return;
  strides[2] = in.pixel_stride(in.out());
  const uint32_t c = static_cast<uint32_t>(y.dims[y.rank - 1]);
  p->shape = make_pixel_broadcast(elems(in, in.out()) / c, c, strides, steps[0], steps[1], in.threads);
}

Status prepare_binary(const PrepareInput& in, BinaryOp op, Prepared* out) {
  const BinaryAttrs attrs = in.program->attrs<BinaryAttrs>(*in.step);
  BinaryParams& p = out->make<BinaryParams>();
  if (!find_form(in, &p.form)) return unsupported_operand(in, in.tensor(0).dtype == in.tensor(1).dtype ? in.out() : 1);
  if (!(attrs.lo <= attrs.hi)) return refuse(in, Code::kInvalidArgument);
  if (!make_broadcast(in.shape(0), in.shape(1), in.shape(in.out()), in.threads, &p.shape)) {
    return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, 1));
  }
  prepare_pixels(in, out, &p);
  out->exact_input_mask = 3;
  p.op = op;
  p.dtype = static_cast<uint32_t>(in.tensor(0).dtype);
  p.lo = attrs.lo;
  p.hi = attrs.hi;
  for (uint32_t i = 0; i < 2; ++i) {
    if (elems(in, i) == elems(in, in.out())) out->share_input_mask |= 1u << i;
  }
  if (p.form == Form::kQ8) return prepare_q8(in, op, attrs, out, &p);
  if (p.form == Form::kF32 || p.form == Form::kF16) {
    const bool ok = out->use(kernels::select(Family::kBinaryF32, kernels::Storage::kS8, in.isa)) &&
                    (p.form == Form::kF32 || use_half_kernels(in, out));
    return ok ? Status{} : refuse(in, Code::kUnsupported);
  }
  // Plain integers have no clamp of real values.
  return attrs.lo == -kInfinity && attrs.hi == kInfinity ? Status{} : refuse(in, Code::kUnsupported);
}

void run_f32(const RunContext& ctx, const BoundStep& step, const BinaryParams& p) {
  const auto kernel = ctx.kernel<kernels::BinaryF32Fn>(step);
  const float *a = ctx.in<float>(step, 0), *b = ctx.in<float>(step, 1);
  float* y = ctx.out<float>(step, 0);
  const Broadcast& s = p.shape;
  ctx.parallel(s.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_run(s, task, [&](uint32_t ai, uint32_t bi, uint32_t yi, uint32_t rows, uint32_t n, uint32_t a_row, uint32_t b_row) {
      kernel({a + ai, b + bi, y + yi, rows, n, a_row, b_row, s.y_row, s.a_step, s.b_step, p.op, p.lo, p.hi});
    });
  });
}

// Elements of an operand that `rows` rows of n reach over.
uint32_t reach(uint32_t rows, uint32_t n, uint32_t row, uint32_t step) { return (rows - 1) * row + (step == 0 ? 1 : n); }

// A block of rows x n elements whose operands and result fit a tile each: as they lie, gaps between rows included.
[[gnu::noinline]] void run_half_block(const HalfKernels& half, const kernels::BinaryF32Fn kernel, const BinaryParams& p,
                                      const uint16_t* a, const uint16_t* b, uint16_t* y, uint32_t rows, uint32_t n,
                                      uint32_t a_row, uint32_t b_row) {
  alignas(64) float at[kHalfTile], bt[kHalfTile], yt[kHalfTile];
  const Broadcast& s = p.shape;
  half.widen({a, at, reach(rows, n, a_row, s.a_step)});
  half.widen({b, bt, reach(rows, n, b_row, s.b_step)});
  kernel({at, bt, yt, rows, n, a_row, b_row, n, s.a_step, s.b_step, p.op, p.lo, p.hi});
  if (s.y_row == n) return half.narrow({yt, y, rows * n});
  for (uint32_t r = 0; r < rows; ++r) half.narrow({yt + r * n, y + r * s.y_row, n});
}

// As many rows at a time as fit, or parts of one.
void run_half_rows(const HalfKernels& half, const kernels::BinaryF32Fn kernel, const BinaryParams& p, const uint16_t* a,
                   const uint16_t* b, uint16_t* y, uint32_t rows, uint32_t n, uint32_t a_row, uint32_t b_row) {
  const Broadcast& s = p.shape;
  const auto fits = [&](uint32_t count) {
    const uint32_t a_elems = reach(count, n, a_row, s.a_step), b_elems = reach(count, n, b_row, s.b_step);
    return count * n <= kHalfTile && a_elems <= kHalfTile && b_elems <= kHalfTile;
  };
  uint32_t most = 1;
  while (most < rows && fits(most + 1)) ++most;
  for (uint32_t r = 0; r < rows; r += most) {
    const uint16_t *ar = a + r * a_row, *br = b + r * b_row;
    uint16_t* yr = y + r * s.y_row;
    const uint32_t count = rows - r < most ? rows - r : most;
    for_each_half_tile(n, [&](uint32_t i, uint32_t part) {
      run_half_block(half, kernel, p, ar + i * s.a_step, br + i * s.b_step, yr + i, count, part, a_row, b_row);
    });
  }
}

void run_f16(const RunContext& ctx, const BoundStep& step, const BinaryParams& p) {
  const auto kernel = ctx.kernel<kernels::BinaryF32Fn>(step);
  const HalfKernels half(ctx, step);
  const uint16_t *a = ctx.in<uint16_t>(step, 0), *b = ctx.in<uint16_t>(step, 1);
  uint16_t* y = ctx.out<uint16_t>(step, 0);
  const Broadcast& s = p.shape;
  ctx.parallel(s.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_run(s, task, [&](uint32_t ai, uint32_t bi, uint32_t yi, uint32_t rows, uint32_t n, uint32_t a_row, uint32_t b_row) {
      run_half_rows(half, kernel, p, a + ai, b + bi, y + yi, rows, n, a_row, b_row);
    });
  });
}

void run_q8(const RunContext& ctx, const BoundStep& step, const BinaryParams& p) {
  const auto kernel = ctx.kernel<kernels::BinaryS8Fn>(step);
  const uint8_t *a = ctx.in<uint8_t>(step, 0), *b = ctx.in<uint8_t>(step, 1);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const Broadcast& s = p.shape;
  ctx.parallel(s.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_run(s, task, [&](uint32_t ai, uint32_t bi, uint32_t yi, uint32_t rows, uint32_t n, uint32_t a_row, uint32_t b_row) {
      kernel({a + ai, b + bi, y + yi, rows, n, a_row, b_row, s.y_row, s.a_step, s.b_step, p.op, p.q8});
    });
  });
}

// Two's complement, wrapping. Division truncates toward zero; by zero it gives 0, because a step cannot fail and must not trap.
template <class T> T integer_op(BinaryOp op, T a, T b) {
  using U = WrappingOf<T>;
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  switch (op) {
    case BinaryOp::kAdd: return static_cast<T>(x + y);
    case BinaryOp::kSub: return static_cast<T>(x - y);
    case BinaryOp::kMul: return static_cast<T>(x * y);
    case BinaryOp::kDiv: break;
  }
  if (b == 0) return 0;
  if constexpr (kIsSigned<T>) {
    if (b == -1) return static_cast<T>(U{0} - x);
  }
  return static_cast<T>(a / b);
}

template <class T> void run_integers(const RunContext& ctx, const BoundStep& step, const BinaryParams& p) {
  const T *a = ctx.in<T>(step, 0), *b = ctx.in<T>(step, 1);
  T* y = ctx.out<T>(step, 0);
  const Broadcast& s = p.shape;
  ctx.parallel(s.split.tasks(), [&](uint32_t task, uint32_t) {
    for_each_run(s, task, [&](uint32_t ai, uint32_t bi, uint32_t yi, uint32_t rows, uint32_t n, uint32_t a_row, uint32_t b_row) {
      for (uint32_t r = 0; r < rows; ++r) {
        for (uint32_t i = 0; i < n; ++i) {
          y[yi + r * s.y_row + i] = integer_op<T>(p.op, a[ai + r * a_row + i * s.a_step], b[bi + r * b_row + i * s.b_step]);
        }
      }
    });
  });
}

void run_binary(const RunContext& ctx, const BoundStep& step) {
  const BinaryParams& p = ctx.params<BinaryParams>(step);
  switch (p.form) {
    case Form::kF32: return run_f32(ctx, step, p);
    case Form::kF16: return run_f16(ctx, step, p);
    case Form::kQ8: return run_q8(ctx, step, p);
    case Form::kInteger:
      return with_type<kIntegerTypes>(static_cast<DType>(p.dtype), [&](auto element) {
        run_integers<typename decltype(element)::Value>(ctx, step, p);
      });
  }
}

}  // namespace

Status prepare_Add(const PrepareInput& in, Prepared* out) { return prepare_binary(in, BinaryOp::kAdd, out); }
Status prepare_Sub(const PrepareInput& in, Prepared* out) { return prepare_binary(in, BinaryOp::kSub, out); }
Status prepare_Mul(const PrepareInput& in, Prepared* out) { return prepare_binary(in, BinaryOp::kMul, out); }
Status prepare_Div(const PrepareInput& in, Prepared* out) { return prepare_binary(in, BinaryOp::kDiv, out); }
void run_Add(const RunContext& ctx, const BoundStep& step) { run_binary(ctx, step); }
void run_Sub(const RunContext& ctx, const BoundStep& step) { run_binary(ctx, step); }
void run_Mul(const RunContext& ctx, const BoundStep& step) { run_binary(ctx, step); }
void run_Div(const RunContext& ctx, const BoundStep& step) { run_binary(ctx, step); }

}  // namespace lathe
