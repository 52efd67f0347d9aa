// OneHot and ReverseSequence.
#include "runtime/exec/indexing.h"
#include "runtime/exec/typed.h"

namespace lathe {
namespace {

// Indices are [outer][inner], the result is [outer][depth][inner].
struct OneHotParams {
  uint32_t outer, inner, depth, elem_bytes, index_dtype;
};

// x seen as [d0][d1][d2] around its two axes: pre, first axis, mid, second axis, row.
struct ReverseParams {
  uint32_t pre, first_n, mid, second_n, row_bytes, index_bytes;
  uint32_t time_first;  // the first of the two axes is time
};

// Where in [0, depth) an index of any number type points, or -1.
template <class T> int32_t hot_place(T index, uint32_t depth) {
  const auto n = static_cast<int32_t>(depth);
  if constexpr (kIsReal<T>) {
    if (!(index >= static_cast<T>(-n) && index < static_cast<T>(n))) return -1;
    return resolve_index(static_cast<int64_t>(index), n);
  } else {
    const bool beyond = index > T{0} && static_cast<uint64_t>(index) >= depth;
    return beyond ? -1 : resolve_index(static_cast<int64_t>(index), n);
  }
}

}  // namespace

Status prepare_OneHot(const PrepareInput& in, Prepared* out) {
  const OneHotAttrs a = in.program->attrs<OneHotAttrs>(*in.step);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  const uint32_t axis = static_cast<uint32_t>(a.axis);
  if (!with_number(in.tensor(0).dtype, [](auto) {}) || !is_plain(in, 0) || has_quant(in, 0)) return unsupported_operand(in, 0);
  if (in.tensor(1).dtype != in.tensor(in.out()).dtype || !is_plain(in, 1) || has_quant(in, 1) || has_quant(in, in.out()))
    return unsupported_operand(in, 1);
  if (axis > x.rank || x.rank >= kMaxRank || a.depth < 1) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  Shape want;
  want.rank = x.rank + 1;
  for (uint32_t i = 0; i < want.rank; ++i) want.dims[i] = i == axis ? a.depth : x.dims[i - (i > axis ? 1 : 0)];
  if (!(want == y) || elems(in, 1) != 2) return refuse(in, Code::kInvalidArgument, 2, elems(in, 1));
  out->make<OneHotParams>() = {x.elems(0, axis), x.elems(axis, x.rank), static_cast<uint32_t>(a.depth), elem_bytes(in, 1),
                               static_cast<uint32_t>(in.tensor(0).dtype)};
  out->exact_input_mask = 3;
  return {};
}

void run_OneHot(const RunContext& ctx, const BoundStep& step) {
  const OneHotParams& p = ctx.params<OneHotParams>(step);
  const uint8_t* values = ctx.in<uint8_t>(step, 1);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  with_number(static_cast<DType>(p.index_dtype), [&](auto zero) {
    const auto* indices = ctx.in<decltype(zero)>(step, 0);
    for (uint32_t o = 0; o < p.outer; ++o)
      for (uint32_t d = 0; d < p.depth; ++d)
        for (uint32_t i = 0; i < p.inner; ++i, y += p.elem_bytes) {
          const bool on = hot_place(indices[o * p.inner + i], p.depth) == static_cast<int32_t>(d);
          __builtin_memcpy(y, values + (on ? p.elem_bytes : 0), p.elem_bytes);
        }
  });
}

Status prepare_ReverseSequence(const PrepareInput& in, Prepared* out) {
  const ReverseSequenceAttrs a = in.program->attrs<ReverseSequenceAttrs>(*in.step);
  const Shape& x = in.shape(0);
  const uint32_t batch = static_cast<uint32_t>(a.batch_axis), time = static_cast<uint32_t>(a.time_axis);
  if (!same_bytes(in, 0) || stored_flip(in, 0) != 0) return unsupported_operand(in, 0);
  if (!is_index_operand(in, 1)) return unsupported_operand(in, 1);
  if (batch >= x.rank || time >= x.rank || batch == time) return refuse(in, Code::kInvalidArgument, x.rank, time);
  if (!(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  if (in.shape(1).rank != 1 || in.shape(1).dims[0] != x.dims[batch])
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(x.dims[batch]), elems(in, 1));
  const uint32_t first = batch < time ? batch : time, second = batch < time ? time : batch;
  ReverseParams& p = out->make<ReverseParams>();
  p.pre = x.elems(0, first);
  p.first_n = static_cast<uint32_t>(x.dims[first]);
  p.mid = x.elems(first + 1, second);
  p.second_n = static_cast<uint32_t>(x.dims[second]);
  p.row_bytes = x.elems(second + 1, x.rank) * elem_bytes(in, 0);
  p.index_bytes = elem_bytes(in, 1);
  p.time_first = time < batch ? 1 : 0;
  out->exact_input_mask = 3;
  return {};
}

// The first `length` elements along time of each batch entry, backwards; a length that is outside is taken as the nearest one.
void run_ReverseSequence(const RunContext& ctx, const BoundStep& step) {
  const ReverseParams& p = ctx.params<ReverseParams>(step);
  const uint8_t *x = ctx.in<uint8_t>(step, 0), *lengths = ctx.in<uint8_t>(step, 1);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint32_t time_n = p.time_first != 0 ? p.first_n : p.second_n;
  for (uint32_t o = 0; o < p.pre; ++o)
    for (uint32_t f = 0; f < p.first_n; ++f)
      for (uint32_t m = 0; m < p.mid; ++m)
        for (uint32_t s = 0; s < p.second_n; ++s, y += p.row_bytes) {
          const uint32_t b = p.time_first != 0 ? s : f, t = p.time_first != 0 ? f : s;
          const int64_t given = load_index(lengths, p.index_bytes, b);
          const uint32_t length = given < 0 ? 0 : given > time_n ? time_n : static_cast<uint32_t>(given);
          const uint32_t from = t < length ? length - 1 - t : t;
          const uint32_t ff = p.time_first != 0 ? from : f, ss = p.time_first != 0 ? s : from;
          __builtin_memcpy(y, x + (((o * p.first_n + ff) * p.mid + m) * p.second_n + ss) * p.row_bytes, p.row_bytes);
        }
}

}  // namespace lathe
