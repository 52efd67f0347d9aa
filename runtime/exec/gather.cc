// Gather: rows of a tensor by index.
//
// Indices are s64 or s32; negative ones count from the end. Constant indices are checked in prepare. An index that is out of
// range at run time reads nothing: its row becomes NaN (floats), the zero point (quantized values) or 0, because a step
// cannot fail; hosts that want an error look for NaN in the step hook.
#include "kernels/eltwise/eltwise.h"
#include "kernels/layout/layout.h"
#include "runtime/exec/indexing.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::Family;

// data is [outer][axis_n][row_bytes], the output [outer][indices][row_bytes].
struct GatherParams {
  int32_t axis_n;
  uint32_t row_bytes, elem_bytes;
  uint32_t index_bytes;  // 4 or 8
  Split split;           // outer: outer, inner: indices
  uint32_t flip;         // data is an s8 constant under u8 storage: rows go through kernel 0, a regrid to the same grid
  int32_t zero_point;
  uint32_t fill_low, fill_high;
};

// The output is data's dims with `axis` replaced by the dims of the indices.
bool check_dims(const Shape& x, const Shape& indices, const Shape& y, uint32_t axis) {
  if (y.rank + 1 != x.rank + indices.rank) return false;
  for (uint32_t i = 0; i < y.rank; ++i) {
    const int32_t want = i < axis ? x.dims[i] : (i < axis + indices.rank ? indices.dims[i - axis] : x.dims[i - indices.rank + 1]);
    if (y.dims[i] != want) return false;
  }
  return true;
}

}  // namespace

Status prepare_Gather(const PrepareInput& in, Prepared* out) {
  if (!same_bytes(in, 0)) return unsupported_operand(in, 0);
  if (!is_index_operand(in, 1)) return unsupported_operand(in, 1);
  const uint32_t axis = static_cast<uint32_t>(in.program->attrs<AxisAttrs>(*in.step).axis);
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  if (axis >= x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  if (!check_dims(x, in.shape(1), y, axis)) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  if (const Status s = check_constant_indices(in, 1, [&](uint32_t) { return x.dims[axis]; }); !s.ok()) return s;
  GatherParams& p = out->make<GatherParams>();
  p.axis_n = x.dims[axis];
  p.elem_bytes = elem_bytes(in, 0);
  p.row_bytes = x.elems(axis + 1, x.rank) * p.elem_bytes;
  p.index_bytes = elem_bytes(in, 1);
  p.split = split_work(x.elems(0, axis), elems(in, 1), elems(in, in.out()), in.threads, 1);
  p.flip = stored_flip(in, 0);
  p.zero_point = in.quant(in.out()).zero_point;
  out->exact_input_mask = 3;
  const uint64_t fill = outside_bits(in, 0);
  p.fill_low = static_cast<uint32_t>(fill);
  p.fill_high = static_cast<uint32_t>(fill >> 32);
  if (p.flip == 0) return {};
  if (!is_q8(in, 0)) return unsupported_operand(in, 0);
  return out->use(kernels::select(Family::kRegridS8, in.storage, in.isa)) ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Gather(const RunContext& ctx, const BoundStep& step) {
  const GatherParams& p = ctx.params<GatherParams>(step);
  const uint8_t *x = ctx.in<uint8_t>(step, 0), *indices = ctx.in<uint8_t>(step, 1);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint64_t fill = static_cast<uint64_t>(p.fill_high) << 32 | p.fill_low;
  const kernels::RegridConstants same{p.flip, p.zero_point, 1.0f, 1.0f, p.zero_point, 0, 255};
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
      for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) {
        const int32_t at = resolve_index(load_index(indices, p.index_bytes, i), p.axis_n);
        uint8_t* to = y + (o * p.split.inner + i) * p.row_bytes;
        const uint8_t* from = x + (o * static_cast<uint32_t>(p.axis_n) + static_cast<uint32_t>(at < 0 ? 0 : at)) * p.row_bytes;
        if (at < 0) kernels::fill(to, p.row_bytes / p.elem_bytes, p.elem_bytes, fill);
        else if (p.flip != 0) ctx.kernel<kernels::RegridS8Fn>(step)({from, to, p.row_bytes, same});
        else __builtin_memcpy(to, from, p.row_bytes);
      }
    }
  });
}

}  // namespace lathe
