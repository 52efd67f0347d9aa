// ScatterElements, ScatterNd and TensorScatter: a copy of the data with updates put in. Updates whose index is outside are left
// out; several for one place are applied in order, so the last one wins where nothing is reduced.
#include "runtime/exec/indexing.h"
#include "runtime/exec/typed.h"

namespace lathe {
namespace {

struct ElementsParams {
  IndexedElements to;
  uint32_t bytes, dtype, reduction;
};

struct TuplesParams {
  uint32_t tuples, length, row, bytes, index_bytes;
  uint32_t dtype, reduction;
  int32_t dims[kMaxRank];
  uint32_t strides[kMaxRank];
};

struct TensorScatterParams {
  uint32_t batch, outer, axis_n, updates_n, row_bytes, bytes, index_bytes, circular;
};

// bf16 and f16 have no arithmetic here; without a reduction they are moved.
template <class F> bool with_element(DType t, uint32_t reduction, F&& f) {
  if (reduction != 0) return with_number(t, f);
  switch (dtype_bytes(t)) {
    case 1: f(uint8_t{0}); return true;
    case 2: f(uint16_t{0}); return true;
    case 4: f(int32_t{0}); return true;
    case 8: f(int64_t{0}); return true;
    default: return false;
  }
}

template <class T> T reduced(ScatterReduction r, T old, T update) {
  switch (r) {
    case ScatterReduction::kAdd: return wrapping_add(old, update);
    case ScatterReduction::kMul: return wrapping_mul(old, update);
    case ScatterReduction::kMin: return update < old || update != update ? update : old;
    case ScatterReduction::kMax: return update > old || update != update ? update : old;
    default: return update;
  }
}

Status check_scatter(const PrepareInput& in, uint32_t updates, Prepared* out) {
  const Shape& x = in.shape(0);
  if (!same_bytes(in, 0) || has_quant(in, 0)) return unsupported_operand(in, 0);
  if (in.tensor(updates).dtype != in.tensor(0).dtype || !is_plain(in, updates) || has_quant(in, updates))
    return unsupported_operand(in, updates);
  if (!(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  out->exact_input_mask = 7;
  return {};
}

Status check_reduction(const PrepareInput& in, const ScatterAttrs& a) {
  if (a.reduction < 0 || a.reduction > static_cast<int32_t>(ScatterReduction::kMax))
    return refuse(in, Code::kInvalidArgument, 4, static_cast<uint32_t>(a.reduction));
  if (!is_index_operand(in, 1)) return unsupported_operand(in, 1);
  const bool ok = with_element(in.tensor(0).dtype, static_cast<uint32_t>(a.reduction), [](auto) {});
  return ok ? Status{} : unsupported_operand(in, 0);
}

void copy_data(const RunContext& ctx, const BoundStep& step, uint32_t bytes) {
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  if (x != y && bytes != 0) __builtin_memcpy(y, x, bytes);
}

}  // namespace

Status prepare_ScatterElements(const PrepareInput& in, Prepared* out) {
  const ScatterAttrs a = in.program->attrs<ScatterAttrs>(*in.step);
  if (const Status s = check_scatter(in, 2, out); !s.ok()) return s;
  if (const Status s = check_reduction(in, a); !s.ok()) return s;
  ElementsParams& p = out->make<ElementsParams>();
  if (const Status s = read_indexed_elements(in, a.axis, 2, &p.to); !s.ok()) return s;
  p.bytes = elems(in, 0) * elem_bytes(in, 0);
  p.dtype = static_cast<uint32_t>(in.tensor(0).dtype);
  p.reduction = static_cast<uint32_t>(a.reduction);
  out->share_input_mask = 1;
  return check_constant_indices(in, 1, [&](uint32_t) { return p.to.axis_n; });
}

void run_ScatterElements(const RunContext& ctx, const BoundStep& step) {
  const ElementsParams& p = ctx.params<ElementsParams>(step);
  const uint8_t* indices = ctx.in<uint8_t>(step, 1);
  copy_data(ctx, step, p.bytes);
  with_element(static_cast<DType>(p.dtype), p.reduction, [&](auto zero) {
    using T = decltype(zero);
    const T* updates = ctx.in<T>(step, 2);
    T* y = ctx.out<T>(step, 0);
    for (uint32_t i = 0; i < p.to.count; ++i) {
      const int32_t at = resolve_index(load_index(indices, p.to.index_bytes, i), p.to.axis_n);
      if (at < 0) continue;
      const uint32_t to = p.to.element(i, at);
      y[to] = reduced(static_cast<ScatterReduction>(p.reduction), y[to], updates[i]);
    }
  });
}

Status prepare_ScatterNd(const PrepareInput& in, Prepared* out) {
  const ScatterAttrs a = in.program->attrs<ScatterAttrs>(*in.step);
  if (const Status s = check_scatter(in, 2, out); !s.ok()) return s;
  if (const Status s = check_reduction(in, a); !s.ok()) return s;
  const Shape &x = in.shape(0), &at = in.shape(1), &updates = in.shape(2);
  if (at.rank == 0) return refuse(in, Code::kInvalidArgument, 1, 0);
  const uint32_t length = static_cast<uint32_t>(at.dims[at.rank - 1]);
  if (length < 1 || length > x.rank) return refuse(in, Code::kInvalidArgument, x.rank, length);
  Shape want;
  want.rank = at.rank - 1 + x.rank - length;
  if (want.rank > kMaxRank) return refuse(in, Code::kInvalidArgument, kMaxRank, want.rank);
  for (uint32_t i = 0; i + 1 < at.rank; ++i) want.dims[i] = at.dims[i];
  for (uint32_t i = length; i < x.rank; ++i) want.dims[at.rank - 1 + i - length] = x.dims[i];
  if (!(want == updates)) return refuse(in, Code::kInvalidArgument, elems(in, 1), elems(in, 2));
  TuplesParams& p = out->make<TuplesParams>();
  p.tuples = at.elems(0, at.rank - 1);
  p.length = length;
  p.row = x.elems(length, x.rank);
  p.bytes = elems(in, 0) * elem_bytes(in, 0);
  p.index_bytes = elem_bytes(in, 1);
  p.dtype = static_cast<uint32_t>(in.tensor(0).dtype);
  p.reduction = static_cast<uint32_t>(a.reduction);
  for (uint32_t i = 0; i < length; ++i) {
    p.dims[i] = x.dims[i];
    p.strides[i] = x.elems(i + 1, x.rank);
  }
  out->share_input_mask = 1;
  return check_constant_indices(in, 1, [&](uint32_t k) { return p.dims[k % length]; });
}

void run_ScatterNd(const RunContext& ctx, const BoundStep& step) {
  const TuplesParams& p = ctx.params<TuplesParams>(step);
  const uint8_t* indices = ctx.in<uint8_t>(step, 1);
  copy_data(ctx, step, p.bytes);
  with_element(static_cast<DType>(p.dtype), p.reduction, [&](auto zero) {
    using T = decltype(zero);
    const T* updates = ctx.in<T>(step, 2);
    T* y = ctx.out<T>(step, 0);
    for (uint32_t t = 0; t < p.tuples; ++t, updates += p.row) {
      uint32_t to = 0;
      bool inside = true;
      for (uint32_t i = 0; i < p.length; ++i) {
        const int32_t at = resolve_index(load_index(indices, p.index_bytes, t * p.length + i), p.dims[i]);
        inside = inside && at >= 0;
        to += static_cast<uint32_t>(at < 0 ? 0 : at) * p.strides[i];
      }
      for (uint32_t i = 0; inside && i < p.row; ++i)
        y[to + i] = reduced(static_cast<ScatterReduction>(p.reduction), y[to + i], updates[i]);
    }
  });
}

Status prepare_TensorScatter(const PrepareInput& in, Prepared* out) {
  const TensorScatterAttrs a = in.program->attrs<TensorScatterAttrs>(*in.step);
  if (const Status s = check_scatter(in, 1, out); !s.ok()) return s;
  const Shape &x = in.shape(0), &updates = in.shape(1);
  const uint32_t axis = static_cast<uint32_t>(a.axis);
  if (axis == 0 || axis >= x.rank || updates.rank != x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  for (uint32_t i = 0; i < x.rank; ++i)
    if (i == axis ? updates.dims[i] > x.dims[i] : updates.dims[i] != x.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[i]), static_cast<uint32_t>(updates.dims[i]));
  const bool placed = in.has(2);
  if (placed && !is_index_operand(in, 2)) return unsupported_operand(in, 2);
  if (placed && (in.shape(2).rank != 1 || in.shape(2).dims[0] != x.dims[0]))
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[0]), elems(in, 2));
  TensorScatterParams& p = out->make<TensorScatterParams>();
  p.batch = static_cast<uint32_t>(x.dims[0]);
  p.outer = x.elems(1, axis);
  p.axis_n = static_cast<uint32_t>(x.dims[axis]);
  p.updates_n = static_cast<uint32_t>(updates.dims[axis]);
  p.row_bytes = x.elems(axis + 1, x.rank) * elem_bytes(in, 0);
  p.bytes = elems(in, 0) * elem_bytes(in, 0);
  p.index_bytes = placed ? elem_bytes(in, 2) : 0;
  p.circular = a.circular != 0 ? 1 : 0;
  out->share_input_mask = 1;
  return {};
}

void run_TensorScatter(const RunContext& ctx, const BoundStep& step) {
  const TensorScatterParams& p = ctx.params<TensorScatterParams>(step);
  const uint8_t *updates = ctx.in<uint8_t>(step, 1), *places = ctx.in<uint8_t>(step, 2);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  copy_data(ctx, step, p.bytes);
  for (uint32_t o = 0; o < p.batch * p.outer; ++o, y += p.axis_n * p.row_bytes) {
    const int64_t first = p.index_bytes == 0 ? 0 : load_index(places, p.index_bytes, o / p.outer);
    for (uint32_t i = 0; i < p.updates_n; ++i, updates += p.row_bytes) {
      if (first < 0 || first > INT32_MAX) continue;
      const uint64_t at = static_cast<uint64_t>(first) + i;
      if (at >= p.axis_n && p.circular == 0) continue;
      __builtin_memcpy(y + static_cast<uint32_t>(at % p.axis_n) * p.row_bytes, updates, p.row_bytes);
    }
  }
}

}  // namespace lathe
