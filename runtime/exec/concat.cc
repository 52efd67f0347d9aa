// Concat: inputs side by side along an axis. Quantized inputs on another grid than the output's are regridded on the way; inputs
// that the planner placed in the output are passed over.
#include "kernels/eltwise/eltwise.h"
#include "kernels/layout/layout.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::Family;

// A row of the output is one of every input in turn: `row_bytes` of input i, which begin x_step bytes after the last one's. Rows
// of the output begin y_step bytes apart.
struct ConcatParams {
  uint32_t count;
  uint32_t y_step;
  Split split;  // outer: rows, inner: inputs
  uint32_t placed;  // bit i: input i is there already
  uint32_t row_bytes[kMaxSharedInputs], x_step[kMaxSharedInputs];
  // Regrid of input i; m 0: plain copy. Bit i of `flips`: a constant that lies as s8 under u8 storage.
  float m[kMaxSharedInputs];
  int32_t x_zero[kMaxSharedInputs];
  uint32_t flips;
  int32_t zero_point, lo, hi;
};

constexpr uint32_t kCopyKernel = 0, kRegridKernel = 1;

// How input i gets to the output's grid.
Status prepare_input(const PrepareInput& in, uint32_t i, ConcatParams* p, bool* regrids) {
  if (same_bytes(in, i) && stored_flip(in, i) == 0) return {};
  if (!is_q8(in, i) || !is_q8(in, in.out())) return unsupported_operand(in, i);
  const QuantParams x = in.quant(i), y = in.quant(in.out());
  if (!round_multiplier(static_cast<double>(x.scale) / static_cast<double>(y.scale), &p->m[i]))
    return refuse(in, Code::kInvalidArgument, i);
  p->x_zero[i] = x.zero_point;
  if (stored_flip(in, i) != 0) p->flips |= 1u << i;
  *regrids = true;
  return {};
}

// Input i's dims are the output's but along `axis`; adds its extent to *total.
bool check_dims(const PrepareInput& in, uint32_t i, uint32_t axis, int64_t* total) {
  const Shape &x = in.shape(i), &y = in.shape(in.out());
  if (x.rank != y.rank) return false;
  for (uint32_t d = 0; d < x.rank; ++d) {
    if (d != axis && x.dims[d] != y.dims[d]) return false;
  }
  *total += x.dims[axis];
  return true;
}

void run_input(const RunContext& ctx, const BoundStep& step, const ConcatParams& p, uint32_t i, uint32_t offset,
               const TaskRange& t) {
  const uint32_t bytes = p.row_bytes[i], rows = t.outer_end - t.outer_begin;
  const uint8_t* x = ctx.in<uint8_t>(step, i) + t.outer_begin * p.x_step[i];
  uint8_t* y = ctx.out<uint8_t>(step, 0) + t.outer_begin * p.y_step + offset;
  if (p.m[i] == 0) {
    ctx.kernel<kernels::CopyFn>(
        step, kCopyKernel)({x, y, rows, bytes, static_cast<int32_t>(p.x_step[i]), static_cast<int32_t>(p.y_step), 1, 1});
    return;
  }
  const auto kernel = ctx.kernel<kernels::RegridS8Fn>(step, kRegridKernel);
  const kernels::RegridConstants c{(p.flips >> i & 1) != 0 ? 0x80u : 0u, p.x_zero[i], p.m[i], p.m[i], p.zero_point, p.lo, p.hi};
  for (uint32_t r = 0; r < rows; ++r) kernel({x + r * p.x_step[i], y + r * p.y_step, bytes, c});
}

}  // namespace

namespace {

// Rows are those along the axis: of pixels, if it is the last one. Only then can there be gaps between them.
void set_rows(const PrepareInput& in, uint32_t axis, ConcatParams* p) {
  const Shape& y = in.shape(in.out());
  const uint32_t bytes = elem_bytes(in, in.out()), inner = y.elems(axis + 1, y.rank);
  const bool last = axis + 1 == y.rank;
  for (uint32_t i = 0; i < p->count; ++i) {
    p->row_bytes[i] = static_cast<uint32_t>(in.shape(i).dims[axis]) * inner * bytes;
    p->x_step[i] = last ? in.pixel_stride(i) * bytes : p->row_bytes[i];
    if (in.is_placed(i, in.out())) p->placed |= 1u << i;
  }
  p->y_step = last ? in.pixel_stride(in.out()) * bytes : static_cast<uint32_t>(y.dims[axis]) * inner * bytes;
}

}  // namespace

Status prepare_Concat(const PrepareInput& in, Prepared* out) {
  const uint32_t axis = static_cast<uint32_t>(in.program->attrs<AxisAttrs>(*in.step).axis);
  const Shape& y = in.shape(in.out());
  if (axis >= y.rank) return refuse(in, Code::kInvalidArgument, y.rank, axis);
  if (in.step->n_in > kMaxSharedInputs) return refuse(in, Code::kUnsupported, kMaxSharedInputs, in.step->n_in);
  ConcatParams& p = out->make<ConcatParams>();
  p.count = in.step->n_in;
  const uint32_t outer = y.elems(0, axis), all = p.count == 32 ? 0xffffffffu : (1u << p.count) - 1;
  bool regrids = false;
  int64_t total = 0;
  out->pieces = {Piecing::kJoin, 0, outer, 0};
  for (uint32_t i = 0; i < p.count; ++i) {
    if (!check_dims(in, i, axis, &total)) return refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, i));
    if (const Status s = prepare_input(in, i, &p, &regrids); !s.ok()) return s;
    if (p.m[i] == 0) out->pieces.mask |= 1u << i;
  }
  if (total != y.dims[axis])
    return refuse(in, Code::kInvalidArgument, static_cast<uint32_t>(y.dims[axis]), static_cast<uint32_t>(total));
  set_rows(in, axis, &p);
  p.split = split_work(outer, p.count, elems(in, in.out()), in.threads, 1);
  const QuantParams q = in.quant(in.out());
  p.zero_point = q.zero_point;
  p.lo = q.qmin;
  p.hi = q.qmax;
  out->exact_input_mask = all;
  out->strided_input_mask = axis + 1 == y.rank ? all : 0;
  out->strided_output = axis + 1 == y.rank;
  if (p.count != 0 && p.placed == all) {
    out->elided = true;
    p.split = {};
    return {};
  }
  bool ok = out->use(kernels::select(Family::kCopy, kernels::Storage::kS8, in.isa));
  if (regrids) ok = out->use(kernels::select(Family::kRegridS8, in.storage, in.isa)) && ok;
  return ok ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Concat(const RunContext& ctx, const BoundStep& step) {
  const ConcatParams& p = ctx.params<ConcatParams>(step);
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    uint32_t offset = 0;
    for (uint32_t i = 0; i < t.inner_end; ++i) {
      if (i >= t.inner_begin && (p.placed >> i & 1) == 0) run_input(ctx, step, p, i, offset, t);
      offset += p.row_bytes[i];
    }
  });
}

}  // namespace lathe
