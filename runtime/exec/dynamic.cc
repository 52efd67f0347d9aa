// Extents, TargetDims, Trim, Range and RangeCount, NonZero and Compress: sizes that depend on data (graph/ops/dynamic.cc).
#include "runtime/exec/indexing.h"
#include "runtime/exec/nd_copy.h"
#include "runtime/exec/typed.h"

namespace lathe {
namespace {

struct BytesParams {
  uint32_t bytes;
};
struct TargetDimsParams {
  uint32_t count, index_bytes, keep_zeros;
  uint32_t rank, elems;  // of x
  uint32_t dims[kMaxRank];
};
struct RangeParams {
  uint32_t dtype, count;
};
struct NonZeroParams {
  uint32_t dtype, rank, capacity;
  uint32_t dims[kMaxRank];
};
struct CompressParams {
  uint32_t outer, n, selected, row_bytes;  // x is [outer][n][row]; the condition has `selected` entries that count
};
struct TrimParams {
  NdCopy copy;
};

Status check_count(const PrepareInput& in, uint32_t i) {
  if (in.tensor(i).dtype != DType::kS64 || has_quant(in, i)) return unsupported_operand(in, i);
  return elems(in, i) == 1 ? Status{} : refuse(in, Code::kInvalidArgument, 1, elems(in, i));
}

// ceil((limit - start) / delta) of integers; 0 if there is none. delta of 0 gives none.
int64_t integer_count(int64_t start, int64_t limit, int64_t delta) {
  if (delta == 0 || (delta > 0) != (limit > start) || limit == start) return 0;
  const uint64_t span = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                                  : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
  const uint64_t step = delta > 0 ? static_cast<uint64_t>(delta) : 0 - static_cast<uint64_t>(delta);
  const uint64_t count = (span - 1) / step + 1;
  return count > 0x7fffffffu ? INT64_MAX : static_cast<int64_t>(count);
}

// The same of reals: too many, or not a number, is more than any tensor can have.
int64_t real_count(double start, double limit, double delta) {
  const double count = (limit - start) / delta;
  if (!(count > 0)) return count <= 0 ? 0 : INT64_MAX;
  if (count > 2147483647.0) return INT64_MAX;
  const auto whole = static_cast<int64_t>(count);
  return static_cast<double>(whole) < count ? whole + 1 : whole;
}

Status check_range(const PrepareInput& in) {
  for (uint32_t i = 0; i < 3; ++i) {
    if (in.tensor(i).dtype != in.tensor(0).dtype || !is_plain(in, i) || has_quant(in, i)) return unsupported_operand(in, i);
    if (elems(in, i) != 1) return refuse(in, Code::kInvalidArgument, 1, elems(in, i));
  }
  return with_number(in.tensor(0).dtype, [](auto) {}) ? Status{} : unsupported_operand(in, 0);
}

}  // namespace

Status prepare_Extents(const PrepareInput& in, Prepared* out) {
  if (!is_index_operand(in, 0) || in.tensor(0).dtype != in.tensor(in.out()).dtype || has_quant(in, in.out()))
    return unsupported_operand(in, 0);
  if (!(in.shape(0) == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  out->make<BytesParams>().bytes = elems(in, 0) * elem_bytes(in, 0);
  out->exact_input_mask = 1;
  return {};
}

void run_Extents(const RunContext& ctx, const BoundStep& step) {
  const uint32_t bytes = ctx.params<BytesParams>(step).bytes;
  if (bytes != 0) __builtin_memcpy(ctx.out<uint8_t>(step, 0), ctx.in<uint8_t>(step, 0), bytes);
}

Status prepare_TargetDims(const PrepareInput& in, Prepared* out) {
  const Shape &x = in.shape(0), &target = in.shape(1);
  if (!is_index_operand(in, 1)) return unsupported_operand(in, 1);
  if (in.tensor(in.out()).dtype != DType::kS64 || has_quant(in, in.out())) return unsupported_operand(in, in.out());
  if (target.rank != 1 || !(target == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, 1, target.rank);
  TargetDimsParams& p = out->make<TargetDimsParams>();
  p.count = elems(in, 1);
  p.index_bytes = elem_bytes(in, 1);
  p.keep_zeros = in.program->attrs<TargetDimsAttrs>(*in.step).keep_zeros != 0 ? 1 : 0;
  p.rank = x.rank;
  p.elems = elems(in, 0);
  for (uint32_t i = 0; i < x.rank; ++i) p.dims[i] = static_cast<uint32_t>(x.dims[i]);
  out->exact_input_mask = 3;
  return {};
}

// What cannot be resolved (a second -1, a 0 without a dim to copy) stays negative, and is refused where it becomes a dim.
void run_TargetDims(const RunContext& ctx, const BoundStep& step) {
  const TargetDimsParams& p = ctx.params<TargetDimsParams>(step);
  const uint8_t* target = ctx.in<uint8_t>(step, 1);
  int64_t* y = ctx.out<int64_t>(step, 0);
  uint64_t known = 1;
  uint32_t open = p.count, unknown = 0;
  for (uint32_t i = 0; i < p.count; ++i) {
    y[i] = load_index(target, p.index_bytes, i);
    if (y[i] == 0 && p.keep_zeros == 0) y[i] = i < p.rank ? static_cast<int64_t>(p.dims[i]) : -2;
    if (y[i] >= 0) {
      known *= static_cast<uint64_t>(y[i] > INT32_MAX ? 0 : y[i]);
      if (known > INT32_MAX) known = 0;
    } else {
      open = i;
      ++unknown;
    }
  }
  if (unknown == 1 && y[open] == -1 && known != 0 && p.elems % known == 0) y[open] = static_cast<int64_t>(p.elems / known);
}

Status prepare_Trim(const PrepareInput& in, Prepared* out) {
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  const uint32_t axis = static_cast<uint32_t>(in.program->attrs<AxisAttrs>(*in.step).axis);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (axis >= x.rank || x.rank != y.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  int32_t x_strides[kMaxRank], y_strides[kMaxRank];
  operand_strides(in, 0, x_strides);
  operand_strides(in, in.out(), y_strides);
  CopyDim dims[kMaxRank];
  for (uint32_t i = 0; i < x.rank; ++i) {
    if (i == axis ? y.dims[i] > x.dims[i] : y.dims[i] != x.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[i]), static_cast<uint32_t>(y.dims[i]));
    dims[i] = {static_cast<uint32_t>(y.dims[i]), x_strides[i], y_strides[i]};
  }
  out->exact_input_mask = 1;
  NdCopy* copy = &out->make<TrimParams>().copy;
  const kernels::Family family = nd_copy_prepare(dims, x.rank, elem_bytes(in, 0), in.threads, copy);
  return out->use(kernels::select(family, kernels::Storage::kS8, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Trim(const RunContext& ctx, const BoundStep& step) {
  nd_copy_run(ctx, ctx.params<TrimParams>(step).copy, ctx.kernel<kernels::AnyFn>(step), ctx.in<uint8_t>(step, 0),
              ctx.out<uint8_t>(step, 0));
}

Status prepare_Range(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_range(in); !s.ok()) return s;
  if (in.tensor(in.out()).dtype != in.tensor(0).dtype || has_quant(in, in.out())) return unsupported_operand(in, in.out());
  if (in.shape(in.out()).rank != 1) return refuse(in, Code::kInvalidArgument, 1, in.shape(in.out()).rank);
  out->make<RangeParams>() = {static_cast<uint32_t>(in.tensor(0).dtype), elems(in, in.out())};
  out->exact_input_mask = 7;
  return {};
}

// Element i is start + i * delta, not a running sum.
void run_Range(const RunContext& ctx, const BoundStep& step) {
  const RangeParams& p = ctx.params<RangeParams>(step);
  with_number(static_cast<DType>(p.dtype), [&](auto zero) {
    using T = decltype(zero);
    const T start = *ctx.in<T>(step, 0), delta = *ctx.in<T>(step, 2);
    T* y = ctx.out<T>(step, 0);
    for (uint32_t i = 0; i < p.count; ++i) y[i] = wrapping_add(start, wrapping_mul(static_cast<T>(i), delta));
  });
}

Status prepare_RangeCount(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_range(in); !s.ok()) return s;
  if (const Status s = check_count(in, in.out()); !s.ok()) return s;
  out->make<RangeParams>() = {static_cast<uint32_t>(in.tensor(0).dtype), 1};
  out->exact_input_mask = 7;
  return {};
}

void run_RangeCount(const RunContext& ctx, const BoundStep& step) {
  const RangeParams& p = ctx.params<RangeParams>(step);
  int64_t* y = ctx.out<int64_t>(step, 0);
  with_number(static_cast<DType>(p.dtype), [&](auto zero) {
    using T = decltype(zero);
    const T start = *ctx.in<T>(step, 0), limit = *ctx.in<T>(step, 1), delta = *ctx.in<T>(step, 2);
    if constexpr (kIsReal<T>) *y = real_count(start, limit, delta);
    else *y = integer_count(start, limit, delta);
  });
}

Status prepare_NonZero(const PrepareInput& in, Prepared* out) {
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (!with_number(in.tensor(0).dtype, [](auto) {}) || !is_plain(in, 0) || has_quant(in, 0)) return unsupported_operand(in, 0);
  if (in.tensor(in.out()).dtype != DType::kS64 || has_quant(in, in.out())) return unsupported_operand(in, in.out());
  if (const Status s = check_count(in, in.out(1)); !s.ok()) return s;
  NonZeroParams& p = out->make<NonZeroParams>();
  if (y.rank != 2 || y.dims[0] != static_cast<int32_t>(x.rank) || y.dims[1] != static_cast<int32_t>(elems(in, 0)))
    return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  p.dtype = static_cast<uint32_t>(in.tensor(0).dtype);
  p.rank = x.rank;
  p.capacity = elems(in, 0);
  for (uint32_t i = 0; i < x.rank; ++i) p.dims[i] = static_cast<uint32_t>(x.dims[i]);
  out->exact_input_mask = 1;
  return {};
}

void run_NonZero(const RunContext& ctx, const BoundStep& step) {
  const NonZeroParams& p = ctx.params<NonZeroParams>(step);
  int64_t* y = ctx.out<int64_t>(step, 0);
  uint32_t count = 0;
  with_number(static_cast<DType>(p.dtype), [&](auto zero) {
    const auto* x = ctx.in<decltype(zero)>(step, 0);
    for (uint32_t i = 0; i < p.capacity; ++i) {
      if (x[i] == 0) continue;
      uint32_t rest = i;
      for (uint32_t axis = p.rank; axis-- > 0; rest /= p.dims[axis])
        y[axis * p.capacity + count] = static_cast<int64_t>(rest % p.dims[axis]);
      ++count;
    }
  });
  // The rest of each row is never read, but results must not depend on what was there.
  for (uint32_t axis = 0; axis < p.rank; ++axis)
    for (uint32_t i = count; i < p.capacity; ++i) y[axis * p.capacity + i] = 0;
  *ctx.out<int64_t>(step, 1) = count;
}

Status prepare_Compress(const PrepareInput& in, Prepared* out) {
  const Shape& x = in.shape(0);
  const uint32_t axis = static_cast<uint32_t>(in.program->attrs<AxisAttrs>(*in.step).axis);
  if (!same_bytes(in, 0) || has_quant(in, 0)) return unsupported_operand(in, 0);
  if (in.tensor(1).dtype != DType::kBool || !is_plain(in, 1)) return unsupported_operand(in, 1);
  if (axis >= x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  if (!(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  if (in.shape(1).rank != 1) return refuse(in, Code::kInvalidArgument, 1, in.shape(1).rank);
  if (const Status s = check_count(in, in.out(1)); !s.ok()) return s;
  const uint32_t n = static_cast<uint32_t>(x.dims[axis]), selected = elems(in, 1) < n ? elems(in, 1) : n;
  out->make<CompressParams>() = {x.elems(0, axis), n, selected, x.elems(axis + 1, x.rank) * elem_bytes(in, 0)};
  out->exact_input_mask = 3;
  return {};
}

void run_Compress(const RunContext& ctx, const BoundStep& step) {
  const CompressParams& p = ctx.params<CompressParams>(step);
  const uint8_t *x = ctx.in<uint8_t>(step, 0), *condition = ctx.in<uint8_t>(step, 1);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  uint32_t count = 0;
  for (uint32_t i = 0; i < p.selected; ++i) count += condition[i] != 0 ? 1 : 0;
  for (uint32_t o = 0; o < p.outer; ++o, x += p.n * p.row_bytes, y += p.n * p.row_bytes) {
    uint8_t* to = y;
    for (uint32_t i = 0; i < p.selected; ++i) {
      if (condition[i] == 0) continue;
      __builtin_memcpy(to, x + i * p.row_bytes, p.row_bytes);
      to += p.row_bytes;
    }
    if (count < p.n) __builtin_memset(to, 0, (p.n - count) * p.row_bytes);
  }
  *ctx.out<int64_t>(step, 1) = count;
}

}  // namespace lathe
