// Products of two activations. A task packs its columns of b into panels in its slot's scratch and runs the segment GEMM over its
// rows of a. Operands are strided, so that attention's heads need no transposes. Results do not depend on the cut. Halves are
// widened in the slot's scratch, columns of b before they are packed and rows of a for each call; results narrow from there.
#include "kernels/gemm_pack/gemm_pack.h"
#include "lathe/float16.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/half_tiles.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::kGemmPanel;
using kernels::round_up;

constexpr uint32_t kA = 0, kB = 1;
constexpr uint32_t kGemmKernel = 0, kPackKernel = 1;
constexpr uint32_t kMaxBatchDims = kMaxRank - 2;

// Sizes and strides in elements unless they say bytes; a stride of 0 broadcasts.
struct BatchDim {
  uint32_t size, a_stride, b_stride, y_stride;
};
struct MatMulParams {
  uint32_t quantized, half;
  uint32_t m, n, k;
  uint32_t a_row, b_k, b_n, y_row;
  uint32_t batch_rank, batches;
  BatchDim batch[kMaxBatchDims];
  uint32_t block_rows, row_tasks, block_columns, column_tasks;
  uint32_t call_rows;  // of a kernel call: they stay near while columns pass
  uint32_t bias_at, scale_at, zero_at, slot_bytes;  // in a slot: packed panels, bias, multipliers, zero points of b
  uint32_t wide_at;                                 // of halves: columns of b and, in their place later, rows of a and of y
  uint32_t b_flip;
  int32_t a_zero, b_zero, zero_point, lo_q, hi_q;
  float m_y;  // s_a s_b scale / s_y
  float scale, lo, hi;
};

// Axes of an operand in the order that its perm gives, with their strides; dims before the last two are batch dims.
struct View {
  uint32_t rank;
  uint32_t size[kMaxRank], stride[kMaxRank];
  // Batch axis `i` of `rank` of them, counted from the outermost; missing ones broadcast.
  uint32_t batch_size(uint32_t i, uint32_t of) const { return i + rank < of + 2 ? 1 : size[i + rank - 2 - of]; }
  uint32_t batch_stride(uint32_t i, uint32_t of) const { return batch_size(i, of) == 1 ? 0 : stride[i + rank - 2 - of]; }
};

// False if `perm` is no permutation of the axes. `inverted`: the tensor's axis perm[i] is the view's axis i for operands; a
// result is stored in the order of its perm, so that its view's axis perm[i] is the tensor's axis i.
bool make_view(const Shape& shape, const Ints& perm, bool inverted, View* view) {
  view->rank = shape.rank;
  if (shape.rank < 2 || (perm.count != 0 && perm.count != static_cast<int32_t>(shape.rank))) return false;
  uint32_t strides[kMaxRank], stride = 1, seen = 0;
  for (uint32_t i = shape.rank; i-- > 0; stride *= static_cast<uint32_t>(shape[i])) strides[i] = stride;
  for (uint32_t i = 0; i < shape.rank; ++i) {
    const uint32_t axis = perm.count == 0 ? i : static_cast<uint32_t>(perm[static_cast<int32_t>(i)]);
    if (axis >= shape.rank || (seen >> axis & 1) != 0) return false;
    seen |= 1u << axis;
    const uint32_t from = inverted ? i : axis, to = inverted ? axis : i;
    view->size[to] = static_cast<uint32_t>(shape[from]);
    view->stride[to] = strides[from];
  }
  return true;
}

Status set_geometry(const PrepareInput& in, const MatMulAttrs& attrs, MatMulParams* p) {
  View a, b, y;
  if (!make_view(in.shape(kA), attrs.a_perm, false, &a) || !make_view(in.shape(kB), attrs.b_perm, false, &b) ||
      !make_view(in.shape(in.out()), attrs.y_perm, true, &y))
    return refuse(in, Code::kInvalidArgument, 2, in.shape(kA).rank);
  if (y.rank != (a.rank > b.rank ? a.rank : b.rank)) return refuse(in, Code::kInvalidArgument, a.rank, y.rank);
  p->m = a.size[a.rank - 2];
  p->k = a.size[a.rank - 1];
  p->n = b.size[b.rank - 1];
  if (b.size[b.rank - 2] != p->k) return refuse(in, Code::kInvalidArgument, p->k, b.size[b.rank - 2]);
  if (y.size[y.rank - 2] != p->m || y.size[y.rank - 1] != p->n)
    return refuse(in, Code::kInvalidArgument, p->n, y.size[y.rank - 1]);
  // Rows of a and y are contiguous.
  if (a.stride[a.rank - 1] != 1 || y.stride[y.rank - 1] != 1) return refuse(in, Code::kUnsupported, 1, a.stride[a.rank - 1]);
  p->a_row = a.stride[a.rank - 2];
  p->b_k = b.stride[b.rank - 2];
  p->b_n = b.stride[b.rank - 1];
  p->y_row = y.stride[y.rank - 2];
  p->batches = 1;
  for (uint32_t i = 0, of = y.rank - 2; i < of; ++i) {
    const uint32_t size_a = a.batch_size(i, of), size_b = b.batch_size(i, of), size = size_a == 1 ? size_b : size_a;
    if ((size_b != 1 && size_b != size) || y.size[i] != size) return refuse(in, Code::kInvalidArgument, size, y.size[i]);
    if (size == 1) continue;
    p->batch[p->batch_rank++] = {size, a.batch_stride(i, of), b.batch_stride(i, of), y.stride[i]};
    p->batches *= size;
  }
  return {};
}

// Batches that share b are more rows of one product, where their rows follow each other in a and in y.
void merge_batches(MatMulParams* p) {
  while (p->batch_rank > 0) {
    const BatchDim& last = p->batch[p->batch_rank - 1];
    if (last.size == 0 || last.b_stride != 0 || last.a_stride != p->m * p->a_row || last.y_stride != p->m * p->y_row) return;
    p->m *= last.size;
    p->batches /= last.size;
    --p->batch_rank;
  }
}

Status set_types(const PrepareInput& in, const MatMulAttrs& attrs, MatMulParams* p) {
  p->scale = attrs.scale;
  p->lo = attrs.lo;
  p->hi = attrs.hi;
  if (!(attrs.scale > 0) || attrs.scale - attrs.scale != 0 || !(attrs.lo <= attrs.hi)) return refuse(in, Code::kInvalidArgument);
  if (is_f32(in, kA)) {
    if (!is_f32(in, kB)) return unsupported_operand(in, kB);
    return is_f32(in, in.out()) ? Status{} : unsupported_operand(in, in.out());
  }
  if (is_f16(in, kA)) {
    p->half = 1;
    if (!is_f16(in, kB)) return unsupported_operand(in, kB);
    return is_f16(in, in.out()) ? Status{} : unsupported_operand(in, in.out());
  }
  p->quantized = 1;
  if (!is_q8_in_storage(in, kA)) return unsupported_operand(in, kA);
  if (!is_q8(in, kB)) return unsupported_operand(in, kB);
  if (!is_q8(in, in.out())) return unsupported_operand(in, in.out());
  p->b_zero = in.tensor(kB).quant.zero_point;  // of s8, as it is packed
  // No sum of (a - z_a)(b - z_b) leaves int32.
  const uint32_t most = p->b_zero == 0 ? kernels::kMaxPackK : kernels::kMaxPackK / 2;
  if (p->k > most) return refuse(in, Code::kUnsupported, most, p->k);
  const QuantParams a = in.quant(kA), y = in.quant(in.out());
  p->b_flip = in.storage == kernels::Storage::kU8 && stored_flip(in, kB) == 0 ? 0x80u : 0u;
  p->a_zero = a.zero_point;
  p->zero_point = y.zero_point;
  if (!quantized_limits(y, attrs.lo, attrs.hi, &p->lo_q, &p->hi_q)) return refuse(in, Code::kInvalidArgument);
  const double product =
      static_cast<double>(a.scale) * static_cast<double>(in.quant(kB).scale) * static_cast<double>(attrs.scale);
  return round_multiplier(product / static_cast<double>(y.scale), &p->m_y) ? Status{} : refuse(in, Code::kInvalidArgument);
}

// Below this many multiply-adds waking a second thread costs more than it brings.
constexpr uint64_t kParallelMacs = 200000;
// Packed columns that stay near while rows pass.
constexpr uint32_t kPackedBytes = 131072;
// Rows of a of one kernel call, in bytes; tiles of 12 rows.
constexpr uint32_t kRowsBytes = 49152, kTileRows = 12;

constexpr uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }
constexpr uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
constexpr uint64_t larger64(uint64_t a, uint64_t b) { return a > b ? a : b; }

// Columns are cut so that a task's panels fit the cache, then rows (or, where rows are few, columns again) for the threads.
Status cut_tasks(const PrepareInput& in, MatMulParams* p, Prepared* out) {
  const uint64_t column_bytes = p->quantized != 0 ? round_up(p->k, kernels::kGemmQuad) : static_cast<uint64_t>(p->k) * 4;
  const uint32_t fit = static_cast<uint32_t>(kPackedBytes / (column_bytes == 0 ? 1 : column_bytes)) / 64 * 64;
  p->block_columns = smaller(round_up(larger(p->n, 1), kGemmPanel), larger(fit, kGemmPanel));
  p->block_rows = larger(p->m, 1);
  const uint64_t macs = static_cast<uint64_t>(p->batches) * p->m * p->n * p->k;
  const uint32_t threads = macs < kParallelMacs ? 1 : larger(in.threads, 1);
  const uint32_t wanted = ceil_div(threads, larger(p->batches * ceil_div(p->n, p->block_columns), 1));
  if (wanted > 1 && p->m >= 24 * wanted) {
    p->block_rows = ceil_div(p->m, wanted);
  } else if (wanted > 1) {
    p->block_columns = smaller(p->block_columns, round_up(ceil_div(larger(p->n, 1), wanted), kGemmPanel));
  }
  p->row_tasks = ceil_div(p->m, p->block_rows);
  const uint64_t row_bytes = static_cast<uint64_t>(p->k) * (p->half != 0 ? 4 : elem_bytes(in, kA));
  p->call_rows = larger(static_cast<uint32_t>(kRowsBytes / kTileRows / (row_bytes == 0 ? 1 : row_bytes)), 1) * kTileRows;
  p->column_tasks = ceil_div(p->n, p->block_columns);
  const uint64_t panels = round_up(static_cast<uint32_t>(column_bytes * p->block_columns), 64);
  const uint64_t rows = smaller(p->call_rows, p->block_rows), row_elems = uint64_t{p->k} + 16 + p->block_columns;
  const uint64_t columns = uint64_t{p->k} * (p->block_columns + 16);
  const uint64_t wide = p->half == 0 ? 0 : 4 * larger64(columns, rows * row_elems) + 64;
  const uint64_t slot = (panels + (p->quantized != 0 ? 12ull * p->block_columns : 0) + wide + 127) / 64 * 64;
  const uint32_t tasks = p->batches * p->row_tasks * p->column_tasks;
  const uint64_t scratch = slot * (tasks > 1 ? larger(in.threads, 1) : 1);
  if (column_bytes * p->block_columns > 0x7fffffff || scratch > 0x7fffffff || slot > 0x7fffffff)
    return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(scratch >> 10));
  p->bias_at = p->wide_at = static_cast<uint32_t>(panels);
  p->scale_at = p->bias_at + 4 * p->block_columns;
  p->zero_at = p->scale_at + 4 * p->block_columns;
  p->slot_bytes = static_cast<uint32_t>(slot);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  return {};
}

struct Task {
  uint32_t a, b, y;  // offsets of its batch
  uint32_t row, rows, column, columns;
};

Task task_at(const MatMulParams& p, uint32_t index) {
  Task t{};
  t.row = index % p.row_tasks * p.block_rows;
  index /= p.row_tasks;
  t.column = index % p.column_tasks * p.block_columns;
  index /= p.column_tasks;
  t.rows = smaller(p.m - t.row, p.block_rows);
  t.columns = smaller(p.n - t.column, p.block_columns);
  for (uint32_t i = p.batch_rank; i-- > 0; index /= p.batch[i].size) {
    const uint32_t at = index % p.batch[i].size;
    t.a += at * p.batch[i].a_stride;
    t.b += at * p.batch[i].b_stride;
    t.y += at * p.batch[i].y_stride;
  }
  t.a += t.row * p.a_row;
  t.b += t.column * p.b_n;
  t.y += t.row * p.y_row + t.column;
  return t;
}

// Calls fn for all rows of a task, whose columns are packed; `g` is the part of the call's arguments that says what to multiply.
template <class T, class Args, class F>
void each_rows(const MatMulParams& p, const Task& t, const T* a, T* y, Args* g, const F& fn) {
  for (uint32_t r = 0; r < t.rows; r += p.call_rows) {
    g->a = a + t.a + static_cast<size_t>(r) * p.a_row;
    g->y = y + t.y + static_cast<size_t>(r) * p.y_row;
    g->geo.cols = smaller(t.rows - r, p.call_rows);
    fn();
  }
}

void run_float(const RunContext& ctx, const BoundStep& step, const MatMulParams& p, const Task& t, uint8_t* slot) {
  auto* packed = reinterpret_cast<float*>(slot);
  const auto pack = ctx.kernel<kernels::GemmPackF32Fn>(step, kPackKernel);
  pack({ctx.in<float>(step, kB) + t.b, p.b_k, p.b_n, p.k, t.columns, p.scale, packed});
  kernels::GemmF32Args g{};
  g.geo = kernels::gemm_f32_matrix(t.rows, t.columns, p.k, p.a_row, p.y_row);
  g.w = packed;
  g.lo = p.lo;
  g.hi = p.hi;
  const auto fn = ctx.kernel<kernels::GemmF32Fn>(step, kGemmKernel);
  each_rows(p, t, ctx.in<float>(step, kA), ctx.out<float>(step, 0), &g, [&] { fn(g); });
}

// Widens columns of b as they lie: rows of k, or columns, whichever are contiguous, one after the other. Returns their distance.
uint32_t widen_columns(const HalfKernels& half, const MatMulParams& p, const uint16_t* b, uint32_t columns, float* wide) {
  const bool by_column = p.b_n != 1 && p.b_k == 1;
  const uint32_t runs = by_column ? columns : p.k, run = by_column ? p.k : columns, step = by_column ? p.b_n : p.b_k;
  for (uint32_t i = 0; i < runs; ++i, b += step, wide += run) {
    if (by_column || p.b_n == 1) {
      half.widen({b, wide, run});
      continue;
    }
    for (uint32_t c = 0; c < run; ++c) wide[c] = half_to_float(b[static_cast<size_t>(c) * p.b_n]);
  }
  return run;
}

void run_half(const RunContext& ctx, const BoundStep& step, const MatMulParams& p, const Task& t, uint8_t* slot) {
  auto* packed = reinterpret_cast<float*>(slot);
  auto* wide = reinterpret_cast<float*>(slot + p.wide_at);
  const HalfKernels half(ctx, step, 2);
  const bool by_column = p.b_n != 1 && p.b_k == 1;
  const uint32_t run = widen_columns(half, p, ctx.in<uint16_t>(step, kB) + t.b, t.columns, wide);
  const auto pack = ctx.kernel<kernels::GemmPackF32Fn>(step, kPackKernel);
  pack({wide, by_column ? 1 : run, by_column ? run : 1, p.k, t.columns, p.scale, packed});
  const auto fn = ctx.kernel<kernels::GemmF32Fn>(step, kGemmKernel);
  kernels::GemmF16Args at{};  // where a call's rows lie
  each_rows(p, t, ctx.in<uint16_t>(step, kA), ctx.out<uint16_t>(step, 0), &at, [&] {
    const uint32_t rows = at.geo.cols;
    float* y = wide + static_cast<size_t>(rows) * p.k + 16;
    for (uint32_t r = 0; r < rows; ++r)
      half.widen({at.a + static_cast<size_t>(r) * p.a_row, wide + static_cast<size_t>(r) * p.k, p.k});
    kernels::GemmF32Args g{};
    g.geo = kernels::gemm_f32_matrix(rows, t.columns, p.k, p.k, t.columns);
    g.a = wide, g.w = packed, g.y = y, g.lo = p.lo, g.hi = p.hi;
    fn(g);
    for (uint32_t r = 0; r < rows; ++r)
      half.narrow({y + static_cast<size_t>(r) * t.columns, at.y + static_cast<size_t>(r) * p.y_row, t.columns});
  });
}

// With a zero point z_b: sum (a - z_a)(b - z_b) = sum a b - z_a sum b + k z_a z_b - z_b sum a, the last of which the kernel adds.
void run_quantized(const RunContext& ctx, const BoundStep& step, const MatMulParams& p, const Task& t, uint8_t* slot) {
  auto* packed = reinterpret_cast<int8_t*>(slot);
  auto* bias = reinterpret_cast<int32_t*>(slot + p.bias_at);
  auto* scale = reinterpret_cast<float*>(slot + p.scale_at);
  auto* zero = reinterpret_cast<int32_t*>(slot + p.zero_at);
  const auto pack = ctx.kernel<kernels::GemmPackS8Fn>(step, kPackKernel);
  pack({ctx.in<uint8_t>(step, kB) + t.b, p.b_k, p.b_n, p.k, t.columns, p.b_flip, -p.a_zero, packed, bias});
  const uint32_t padded = round_up(t.columns, kGemmPanel);
  for (uint32_t c = 0; c < padded; ++c) scale[c] = p.m_y;
  kernels::GemmS8ZwArgs g{};
  g.s8.geo = kernels::gemm_s8_matrix(t.rows, t.columns, p.k, p.a_row, p.y_row);
  g.s8.w = packed;
  g.s8.bias = bias;
  g.s8.scale = scale;
  g.s8.zero_point = p.zero_point;
  g.s8.lo = p.lo_q;
  g.s8.hi = p.hi_q;
  const auto *a = ctx.in<uint8_t>(step, kA);
  auto* y = ctx.out<uint8_t>(step, 0);
  if (p.b_zero == 0) {
    const auto fn = ctx.kernel<kernels::GemmS8Fn>(step, kGemmKernel);
    return each_rows(p, t, a, y, &g.s8, [&] { fn(g.s8); });
  }
  for (uint32_t c = 0; c < padded; ++c) {
    bias[c] += static_cast<int32_t>(p.k) * p.a_zero * p.b_zero;
    zero[c] = p.b_zero;
  }
  g.w_zero = zero;
  const auto fn = ctx.kernel<kernels::GemmS8ZwFn>(step, kGemmKernel);
  each_rows(p, t, a, y, &g.s8, [&] { fn(g); });
}

}  // namespace

Status prepare_MatMul(const PrepareInput& in, Prepared* out) {
  const auto attrs = in.program->attrs<MatMulAttrs>(*in.step);
  auto& p = out->make<MatMulParams>();
  if (const Status s = set_geometry(in, attrs, &p); !s.ok()) return s;
  if (const Status s = set_types(in, attrs, &p); !s.ok()) return s;
  merge_batches(&p);
  if (const Status s = cut_tasks(in, &p, out); !s.ok()) return s;
  const bool q = p.quantized != 0;
  // Only the reference packs columns and rows that both have gaps.
  const kernels::IsaSet pack_isa = p.half != 0 || p.b_k == 1 || p.b_n == 1 ? in.isa : kernels::kIsaScalar;
  const kernels::Family product = !q              ? kernels::Family::kGemmF32
                                  : p.b_zero == 0 ? kernels::Family::kGemmS8
                                                  : kernels::Family::kGemmS8Zw;
  const bool ok = out->use(kernels::select(product, q ? in.storage : kernels::Storage::kS8, in.isa)) &&
                  out->use(kernels::select(q ? kernels::Family::kGemmPackS8 : kernels::Family::kGemmPackF32,
                                           kernels::Storage::kS8, pack_isa)) &&
                  (p.half == 0 || use_half_kernels(in, out));
  return ok ? Status{} : refuse(in, Code::kUnsupported);
}

void run_MatMul(const RunContext& ctx, const BoundStep& step) {
  const MatMulParams& p = ctx.params<MatMulParams>(step);
  uint8_t* scratch = ctx.scratch(step);
  ctx.parallel(p.batches * p.row_tasks * p.column_tasks, [&](uint32_t index, uint32_t slot) {
    const Task t = task_at(p, index);
    uint8_t* mine = scratch + static_cast<size_t>(slot) * p.slot_bytes;
    if (p.quantized != 0) run_quantized(ctx, step, p, t, mine);
    else if (p.half != 0) run_half(ctx, step, p, t, mine);
    else run_float(ctx, step, p, t, mine);
  });
}

}  // namespace lathe
