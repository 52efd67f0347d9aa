// GatherElements and GatherNd.
#include "kernels/layout/layout.h"
#include "runtime/exec/indexing.h"

namespace lathe {
namespace {

constexpr uint32_t kMostAxes = kMaxRank;

struct ElementsParams {
  IndexedElements from;
  uint32_t elem_bytes;
  uint32_t fill_low, fill_high;
};

// One row of x per tuple of `length` indices, in one of `batches` parts of both.
struct TuplesParams {
  uint32_t batches, tuples, length, row_bytes, elem_bytes, index_bytes;
  uint32_t batch_bytes;  // of x
  int32_t dims[kMostAxes];
  uint32_t strides[kMostAxes];  // bytes
  uint32_t fill_low, fill_high;
};

Status check_gather(const PrepareInput& in, Prepared* out) {
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  if (!is_index_operand(in, 1)) return unsupported_operand(in, 1);
  out->exact_input_mask = 3;
  return {};
}

void copy_element(uint8_t* to, const uint8_t* from, uint32_t bytes) {
  switch (bytes) {
    case 1: *to = *from; break;
    case 2: __builtin_memcpy(to, from, 2); break;
    case 4: __builtin_memcpy(to, from, 4); break;
    default: __builtin_memcpy(to, from, 8); break;
  }
}

}  // namespace

Status prepare_GatherElements(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_gather(in, out); !s.ok()) return s;
  ElementsParams& p = out->make<ElementsParams>();
  const int32_t axis = in.program->attrs<AxisAttrs>(*in.step).axis;
  if (const Status s = read_indexed_elements(in, axis, in.out(), &p.from); !s.ok()) return s;
  p.elem_bytes = elem_bytes(in, 0);
  const uint64_t fill = outside_bits(in, 0);
  p.fill_low = static_cast<uint32_t>(fill);
  p.fill_high = static_cast<uint32_t>(fill >> 32);
  return check_constant_indices(in, 1, [&](uint32_t) { return p.from.axis_n; });
}

void run_GatherElements(const RunContext& ctx, const BoundStep& step) {
  const ElementsParams& p = ctx.params<ElementsParams>(step);
  const uint8_t *x = ctx.in<uint8_t>(step, 0), *indices = ctx.in<uint8_t>(step, 1);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint64_t fill = static_cast<uint64_t>(p.fill_high) << 32 | p.fill_low;
  for (uint32_t i = 0; i < p.from.count; ++i) {
    const int32_t at = resolve_index(load_index(indices, p.from.index_bytes, i), p.from.axis_n);
    const auto* source = at < 0 ? reinterpret_cast<const uint8_t*>(&fill) : x + p.from.element(i, at) * p.elem_bytes;
    copy_element(y + i * p.elem_bytes, source, p.elem_bytes);
  }
}

Status prepare_GatherNd(const PrepareInput& in, Prepared* out) {
  if (const Status s = check_gather(in, out); !s.ok()) return s;
  const uint32_t batch = static_cast<uint32_t>(in.program->attrs<GatherNdAttrs>(*in.step).batch_dims);
  const Shape &x = in.shape(0), &at = in.shape(1), &y = in.shape(in.out());
  if (batch >= x.rank || batch >= at.rank) return refuse(in, Code::kInvalidArgument, x.rank, batch);
  const uint32_t length = static_cast<uint32_t>(at.dims[at.rank - 1]);
  if (length < 1 || length > x.rank - batch) return refuse(in, Code::kInvalidArgument, x.rank - batch, length);
  Shape want;
  want.rank = at.rank - 1 + x.rank - batch - length;
  if (want.rank > kMaxRank) return refuse(in, Code::kInvalidArgument, kMaxRank, want.rank);
  for (uint32_t i = 0; i + 1 < at.rank; ++i) want.dims[i] = at.dims[i];
  for (uint32_t i = batch + length; i < x.rank; ++i) want.dims[at.rank - 1 + i - batch - length] = x.dims[i];
  if (!(want == y)) return refuse(in, Code::kInvalidArgument, elems(in, 1), elems(in, in.out()));
  for (uint32_t i = 0; i < batch; ++i)
    if (x.dims[i] != at.dims[i])
      return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[i]), static_cast<uint32_t>(at.dims[i]));
  TuplesParams& p = out->make<TuplesParams>();
  p.elem_bytes = elem_bytes(in, 0);
  p.batches = x.elems(0, batch);
  p.batch_bytes = x.elems(batch, x.rank) * p.elem_bytes;
  p.tuples = at.elems(batch, at.rank - 1);
  p.length = length;
  p.row_bytes = x.elems(batch + length, x.rank) * p.elem_bytes;
  p.index_bytes = elem_bytes(in, 1);
  for (uint32_t i = 0; i < length; ++i) {
    p.dims[i] = x.dims[batch + i];
    p.strides[i] = x.elems(batch + i + 1, x.rank) * p.elem_bytes;
  }
  const uint64_t fill = outside_bits(in, 0);
  p.fill_low = static_cast<uint32_t>(fill);
  p.fill_high = static_cast<uint32_t>(fill >> 32);
  return check_constant_indices(in, 1, [&](uint32_t k) { return p.dims[k % length]; });
}

void run_GatherNd(const RunContext& ctx, const BoundStep& step) {
  const TuplesParams& p = ctx.params<TuplesParams>(step);
  const uint8_t *x = ctx.in<uint8_t>(step, 0), *indices = ctx.in<uint8_t>(step, 1);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint64_t fill = static_cast<uint64_t>(p.fill_high) << 32 | p.fill_low;
  for (uint32_t t = 0; t < p.batches * p.tuples; ++t, y += p.row_bytes) {
    uint32_t from = t / p.tuples * p.batch_bytes;
    bool inside = true;
    for (uint32_t i = 0; i < p.length; ++i) {
      const int32_t at = resolve_index(load_index(indices, p.index_bytes, t * p.length + i), p.dims[i]);
      inside = inside && at >= 0;
      from += static_cast<uint32_t>(at < 0 ? 0 : at) * p.strides[i];
    }
    if (inside) __builtin_memcpy(y, x + from, p.row_bytes);
    else kernels::fill(y, p.row_bytes / p.elem_bytes, p.elem_bytes, fill);
  }
}

}  // namespace lathe
