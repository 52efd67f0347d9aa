// Softmax along an axis. Along the last axis the kernel reads rows in place; along another one rows are brought together in
// scratch and taken apart again.
#include "kernels/softmax/softmax.h"
#include "kernels/layout/layout.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::Family;

// x is [outer][n][inner]; softmax along n.
struct SoftmaxParams {
  uint32_t quantized;
  uint32_t n;
  uint32_t elem_bytes;
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

void run_rows(const RunContext& ctx, const BoundStep& step, const SoftmaxParams& p, const uint8_t* x, uint8_t* y, uint32_t rows) {
  if (p.quantized != 0) {
    ctx.kernel<kernels::SoftmaxS8Fn>(step, kSoftmaxKernel)({x, y, rows, p.n, ctx.in<uint16_t>(step, 1)});
  } else {
    ctx.kernel<kernels::SoftmaxF32Fn>(
        step, kSoftmaxKernel)({reinterpret_cast<const float*>(x), reinterpret_cast<float*>(y), rows, p.n});
  }
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
  const bool f32 = is_f32(in, 0) && is_f32(in, in.out()) && in.step->n_in == 1;
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
  return ok ? Status{} : refuse(in, Code::kUnsupported);
}

void run_Softmax(const RunContext& ctx, const BoundStep& step) {
  const SoftmaxParams& p = ctx.params<SoftmaxParams>(step);
  const uint8_t* x = ctx.in<uint8_t>(step, 0);
  uint8_t* y = ctx.out<uint8_t>(step, 0);
  const uint32_t inner = p.split.inner, bytes = p.elem_bytes;
  ctx.parallel(p.split.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.split, task);
    if (inner == 1) {
      const uint32_t at = t.outer_begin * p.n * bytes;
      run_rows(ctx, step, p, x + at, y + at, t.outer_end - t.outer_begin);
      return;
    }
    const auto transpose = ctx.kernel<kernels::TransposeFn>(step, kTransposeKernel);
    const uint32_t columns = t.inner_end - t.inner_begin;
    const int32_t spread = static_cast<int32_t>(inner * bytes), together = static_cast<int32_t>(p.n * bytes);
    for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
      const uint32_t at = (o * p.n * inner + t.inner_begin) * bytes;
      uint8_t* rows = ctx.scratch(step) + (o * inner + t.inner_begin) * p.n * bytes;
      transpose({x + at, rows, p.n, columns, spread, together, bytes});
      run_rows(ctx, step, p, rows, rows, columns);
      transpose({rows, y + at, columns, p.n, together, spread, bytes});
    }
  });
}

}  // namespace lathe
