// Softmax along an axis. Along the last axis the kernel reads rows in place; along another one rows are brought together in
// scratch and taken apart again. Halves are widened there, some rows at a time.
#include "kernels/softmax/softmax.h"
#include "kernels/layout/layout.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/half_tiles.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::Family;

// x is [outer][n][inner]; softmax along n.
struct SoftmaxParams {
  uint32_t quantized;
  uint32_t n;
  uint32_t elem_bytes;
  uint32_t half_rows;           // halves: rows that a slot widens at a time, else 0
  uint32_t half_at, slot_bytes;  // where the slots' floats begin in scratch, and how much each has
  Split split;  // outer: outer, inner: inner
};

constexpr uint32_t kSoftmaxKernel = 0, kTransposeKernel = 1;

// uint32 holds the sum of this many 16-bit terms.
constexpr uint32_t kMaxQuantizedRow = 65536;

Status check_q8(const PrepareInput& in, uint32_t n) {
  if (!is_q8_in_storage(in, 0)) return unsupported_operand(in, 0);
  if (in.step->n_in < 2) return refuse(in, Code::kCorrupt, 2, in.step->n_in);
  const ProgramTensor &table = in.tensor(1), &y = in.tensor(in.out());
  if (table.kind != TensorKind::kConstant || table.dtype != DType::kU16 || elems(in, 1) != 256)
    return refuse(in, Code::kCorrupt, 256, elems(in, 1));
  // The largest value of a row has entry 0; a sum of 0 would divide by zero.
  if (*reinterpret_cast<const uint16_t*>(in.program->constant(table)) == 0) return refuse(in, Code::kCorrupt, 65535, 0);
  if (!is_q8(in, in.out()) || y.quant.scale != 1.0f / 256.0f || y.quant.zero_point != -128 || y.quant.qmin != -128 ||
      y.quant.qmax != 127) {
    return unsupported_operand(in, in.out());
  }
  return n <= kMaxQuantizedRow ? Status{} : refuse(in, Code::kUnsupported, kMaxQuantizedRow, n);
}

void run_half_rows(const RunContext& ctx, const BoundStep& step, const SoftmaxParams& p, const uint16_t* x, uint16_t* y,
                   uint32_t rows, uint32_t slot) {
  const HalfKernels half(ctx, step, p.split.inner == 1 ? 1 : 2);
  auto* wide = reinterpret_cast<float*>(ctx.scratch(step) + p.half_at + static_cast<size_t>(slot) * p.slot_bytes);
  for (uint32_t count; rows > 0; rows -= count, x += count * p.n, y += count * p.n) {
    count = rows < p.half_rows ? rows : p.half_rows;
    half.widen({x, wide, count * p.n});
    ctx.kernel<kernels::SoftmaxF32Fn>(step, kSoftmaxKernel)({wide, wide, count, p.n});
    half.narrow({wide, y, count * p.n});
  }
}

void run_rows(const RunContext& ctx, const BoundStep& step, const SoftmaxParams& p, const uint8_t* x, uint8_t* y, uint32_t rows,
              uint32_t slot) {
  if (p.quantized != 0) {
    ctx.kernel<kernels::SoftmaxS8Fn>(step, kSoftmaxKernel)({x, y, rows, p.n, ctx.in<uint16_t>(step, 1)});
  } else if (p.half_rows != 0) {
    run_half_rows(ctx, step, p, reinterpret_cast<const uint16_t*>(x), reinterpret_cast<uint16_t*>(y), rows, slot);
  } else {
    ctx.kernel<kernels::SoftmaxF32Fn>(
        step, kSoftmaxKernel)({reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), rows, p.n});
  }
}

// Scratch of halves, behind what it has already.
Status add_half_scratch(const PrepareInput& in, SoftmaxParams* p, Prepared* out) {
  constexpr uint32_t kNear = 4096;
  p->half_rows = p->n < kNear ? kNear / (p->n == 0 ? 1 : p->n) : 1;
  p->half_at = (out->scratch_bytes + 63) / 64 * 64;
  const uint64_t slot = (uint64_t{p->half_rows} * p->n * 4 + 127) / 64 * 64;
  const uint64_t bytes = p->half_at + slot * (p->split.tasks() > 1 && in.threads > 1 ? in.threads : 1);
  if (bytes > 0x7fffffff) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(bytes >> 10));
  p->slot_bytes = static_cast<uint32_t>(slot);
  out->scratch_bytes = static_cast<uint32_t>(bytes);
  return use_half_kernels(in, out) ? Status{} : refuse(in, Code::kUnsupported);
}

}  // namespace

Status prepare_Softmax(const PrepareInput& in, Prepared* out) {
  const uint32_t axis = static_cast<uint32_t>(in.program->attrs<AxisAttrs>(*in.step).axis);
  const Shape& x = in.shape(0);
  if (axis >= x.rank) return refuse(in, Code::kInvalidArgument, x.rank, axis);
  if (!(x == in.shape(in.out()))) return refuse(in, Code::kInvalidArgument, elems(in, 0), elems(in, in.out()));
  SoftmaxParams& p = out->make<SoftmaxParams>();
  p.n = static_cast<uint32_t>(x.dims[axis]);
  p.elem_bytes = elem_bytes(in, 0);
  const bool half = is_f16(in, 0) && is_f16(in, in.out()) && in.step->n_in == 1;
  const bool f32 = half || (is_f32(in, 0) && is_f32(in, in.out()) && in.step->n_in == 1);
  p.quantized = f32 ? 0 : 1;
  if (!f32) {
    if (const Status s = check_q8(in, p.n); !s.ok()) return s;
  }
  const uint32_t outer = x.elems(0, axis), inner = x.elems(axis + 1, x.rank);
  p.split = split_work(outer, inner, elems(in, 0), in.threads, 16);
  out->share_input_mask = out->exact_input_mask = 1;
  bool ok = out->use(f32 ? kernels::select(Family::kSoftmaxF32, kernels::Storage::kS8, in.isa)
                         : kernels::select(Family::kSoftmaxS8, in.storage, in.isa));
  if (inner != 1) {
    ok = out->use(kernels::select(Family::kTranspose, kernels::Storage::kS8, in.isa)) && ok;
    out->scratch_bytes = elems(in, 0) * p.elem_bytes;
  }
  if (!ok) return refuse(in, Code::kUnsupported);
  return half ? add_half_scratch(in, &p, out) : Status{};
}

void run_Softmax(const RunContext& ctx, const BoundStep& step) {
  const SoftmaxParams& p = ctx.params<SoftmaxParams>(step);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint32_t inner = p.split.inner, bytes = p.elem_bytes;
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t slot) {
    const TaskRange t = task_range(p.split, task);
    if (inner == 1) {
      const uint32_t at = t.outer_begin * p.n * bytes;
      run_rows(ctx, step, p, x + at, y + at, t.outer_end - t.outer_begin, slot);
      return;
    }
    const auto transpose = ctx.kernel<kernels::TransposeFn>(step, kTransposeKernel);
    const uint32_t columns = t.inner_end - t.inner_begin;
    const int32_t spread = static_cast<int32_t>(inner * bytes), together = static_cast<int32_t>(p.n * bytes);
    for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
      const uint32_t at = (o * p.n * inner + t.inner_begin) * bytes;
      uint8_t* rows = ctx.scratch(step) + (o * inner + t.inner_begin) * p.n * bytes;
      transpose({x + at, rows, p.n, columns, spread, together, bytes});
      run_rows(ctx, step, p, rows, rows, columns, slot);
      transpose({rows, y + at, columns, p.n, together, spread, bytes});
    }
  });
}

}  // namespace lathe
