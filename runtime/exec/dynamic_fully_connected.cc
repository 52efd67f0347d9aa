// FullyConnected on float activations that are quantized on the fly: each row (or the whole tensor) gets the scale that its
// largest magnitude asks for, is quantized once, and meets the 8-bit weights in the GEMM with float results.
//
//   s_t = amax / 127 (1 if amax is 0);  q = R(x / s_t, 0)
//   y = clamp((float(sum q w) * s_t) * s_w[c] + bias[c] + residual, lo, hi)
#include "kernels/amax/amax.h"
#include "kernels/eltwise/eltwise.h"
#include "kernels/gemm/gemm.h"
#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

using kernels::Family;
using kernels::kGemmPanel;
using kernels::round_up;

// As lowering emits them (runtime/exec/exec.h).
constexpr uint32_t kX = 0, kW = 1, kStartS8 = 2, kStartU8 = 3, kScale = 4, kBias = 5, kResidual = 6;
constexpr uint32_t kGemmKernel = 0, kAmaxKernel = 1, kQuantizeKernel = 2;

struct DynamicParams {
  uint32_t per_token;
  uint32_t m, n, k;
  uint32_t row_bytes;                 // of a quantized row in scratch
  uint32_t scale_at;                  // bytes in scratch: scales of the rows, behind the rows
  uint32_t block_rows, row_tasks, task_panels, panel_tasks;
  Split quantize;                     // inner: rows
  int32_t zero_point, lo_q, hi_q;     // of a quantized row in the plan's storage
  float lo, hi;
};

Status check_padded(const PrepareInput& in, uint32_t i, DType dtype, Layout layout, uint32_t bytes) {
  if (!in.has(i)) return refuse(in, Code::kCorrupt, i);
  const ProgramTensor& t = in.tensor(i);
  if (t.kind != TensorKind::kConstant || t.dtype != dtype || t.layout != layout) return unsupported_operand(in, i);
  return t.stored_bytes == bytes ? Status{} : refuse(in, Code::kCorrupt, bytes, t.stored_bytes);
}

Status check_operands(const PrepareInput& in, const DynamicParams& p) {
  const uint32_t vector = round_up(p.n, kGemmPanel) * 4;
  Status s = check_padded(in, kW, DType::kS8, Layout::kGemmS8, kernels::gemm_s8_packed_bytes(p.n, 1, p.k));
  if (s.ok()) s = check_padded(in, kStartS8, DType::kS32, Layout::kPadded16, vector);
  if (s.ok()) s = check_padded(in, kStartU8, DType::kS32, Layout::kPadded16, vector);
  if (s.ok()) s = check_padded(in, kScale, DType::kF32, Layout::kPadded16, vector);
  if (s.ok() && in.has(kBias)) s = check_padded(in, kBias, DType::kF32, Layout::kPadded16, vector);
  if (!s.ok()) return s;
  if (!is_f32(in, kX)) return unsupported_operand(in, kX);
  if (!is_f32(in, in.out())) return unsupported_operand(in, in.out());
  if (!in.has(kResidual)) return {};
  if (!is_f32(in, kResidual)) return unsupported_operand(in, kResidual);
  return in.shape(kResidual) == in.shape(in.out())
             ? Status{}
             : refuse(in, Code::kInvalidArgument, elems(in, in.out()), elems(in, kResidual));
}

Status set_geometry(const PrepareInput& in, DynamicParams* p) {
  const Shape &x = in.shape(kX), &w = in.shape(kW), &y = in.shape(in.out());
  if (w.rank != 2 || w[0] < 1 || w[1] < 1) return refuse(in, Code::kCorrupt, 2, w.rank);
  if (x.rank < 1 || y.rank != x.rank) return refuse(in, Code::kCorrupt, x.rank, y.rank);
  p->n = static_cast<uint32_t>(w[0]);
  p->k = static_cast<uint32_t>(w[1]);
  p->m = x.elems(0, x.rank - 1);
  for (uint32_t i = 0; i < x.rank; ++i) {
    const int32_t wanted = i + 1 < x.rank ? x[i] : w[0];
    if (y[i] != wanted) return refuse(in, Code::kCorrupt, static_cast<uint32_t>(wanted), static_cast<uint32_t>(y[i]));
  }
  if (x[x.rank - 1] != w[1]) return refuse(in, Code::kCorrupt, p->k, static_cast<uint32_t>(x[x.rank - 1]));
  // Before any size is computed in 32 bits; sums of k products of 128 * 127 fit 32 bits by far.
  const uint64_t packed = (static_cast<uint64_t>(p->k) + 3) / 4 * 4 * ((static_cast<uint64_t>(p->n) + 15) / 16 * 16);
  return p->k <= 65536 && packed <= 0x7fffffff / 4 ? Status{} : refuse(in, Code::kUnsupported, 65536, p->k);
}

// Below this many multiply-adds waking a second thread costs more than it brings.
constexpr uint64_t kParallelMacs = 400000;
// Quantized rows that stay near while panels pass; tiles of 12 rows.
constexpr uint32_t kRowsBytes = 49152, kTileRows = 12;

constexpr uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }
constexpr uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

// Rows are split first; panels where rows are few or the weights so large that every thread should read its own part.
Status cut_tasks(const PrepareInput& in, DynamicParams* p, Prepared* out) {
  const uint32_t panels = ceil_div(p->n, kGemmPanel);
  const uint32_t threads = static_cast<uint64_t>(p->m) * p->n * p->k < kParallelMacs ? 1 : larger(in.threads, 1);
  const uint32_t rows = larger(p->m, 1);
  const bool split_panels = threads > 1 && (rows < 2 * threads || (p->n * p->k > 262144 && panels >= 4 * threads));
  p->task_panels = split_panels ? ceil_div(panels, threads) : panels;
  p->panel_tasks = ceil_div(panels, p->task_panels);
  const uint32_t most = larger(kRowsBytes / p->k / kTileRows, 1) * kTileRows;
  uint32_t blocks = ceil_div(rows, most);
  if (!split_panels) blocks = smaller(ceil_div(blocks, threads) * threads, rows);
  p->block_rows = ceil_div(rows, blocks);
  p->row_tasks = ceil_div(p->m, p->block_rows);
  p->quantize = split_work(1, p->m, p->m * p->k, in.threads, 1);
  p->row_bytes = round_up(p->k, 64);
  // Kernels read 63 bytes past the last row.
  const uint64_t scales = static_cast<uint64_t>(p->m) * p->row_bytes + 64, bytes = scales + 4ull * larger(p->m, 1);
  if (bytes > 0x7fffffff) return refuse(in, Code::kOutOfMemory, static_cast<uint32_t>(bytes >> 10));
  p->scale_at = static_cast<uint32_t>(scales);
  out->scratch_bytes = static_cast<uint32_t>(bytes);
  return {};
}

float scale_of(float amax) { return amax > 0 ? amax / 127.0f : 1.0f; }

// Scales of all rows.
void find_scales(const RunContext& ctx, const BoundStep& step, const DynamicParams& p, const float* x, float* scales) {
  const auto amax = ctx.kernel<kernels::AmaxF32Fn>(step, kAmaxKernel);
  ctx.parallel(p.quantize.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.quantize, task);
    amax({x + static_cast<size_t>(t.inner_begin) * p.k, scales + t.inner_begin, t.inner_end - t.inner_begin, p.k, p.k});
  });
  float most = 0;
  for (uint32_t r = 0; r < p.m && p.per_token == 0; ++r) most = scales[r] > most ? scales[r] : most;
  for (uint32_t r = 0; r < p.m; ++r) scales[r] = scale_of(p.per_token != 0 ? scales[r] : most);
}

void quantize_rows(const RunContext& ctx, const BoundStep& step, const DynamicParams& p, const float* x, const float* scales,
                   uint8_t* q) {
  const auto quantize = ctx.kernel<kernels::QuantizeF32Fn>(step, kQuantizeKernel);
  ctx.parallel(p.quantize.tasks(), [&](uint32_t task, uint32_t) {
    const TaskRange t = task_range(p.quantize, task);
    for (uint32_t r = t.inner_begin; r < t.inner_end; ++r) {
      quantize({x + static_cast<size_t>(r) * p.k, q + static_cast<size_t>(r) * p.row_bytes, p.k,
                {scales[r], p.zero_point, p.lo_q, p.hi_q}});
    }
  });
}

}  // namespace

Status prepare_DynamicFullyConnected(const PrepareInput& in, Prepared* out) {
  const auto attrs = in.program->attrs<DynamicFullyConnectedAttrs>(*in.step);
  auto& p = out->make<DynamicParams>();
  if (const Status s = set_geometry(in, &p); !s.ok()) return s;
  if (const Status s = check_operands(in, p); !s.ok()) return s;
  if (!(attrs.lo <= attrs.hi)) return refuse(in, Code::kInvalidArgument);
  const int32_t shift = kernels::storage_shift(in.storage);
  p.per_token = attrs.per_token != 0 ? 1 : 0;
  p.zero_point = shift;
  p.lo_q = shift - 128;
  p.hi_q = shift + 127;
  p.lo = attrs.lo;
  p.hi = attrs.hi;
  if (const Status s = cut_tasks(in, &p, out); !s.ok()) return s;
  if (in.has(kResidual)) out->share_input_mask = 1u << kResidual;
  out->unread_input_mask = 1u << (in.storage == kernels::Storage::kU8 ? kStartS8 : kStartU8);
  const bool ok = out->use(kernels::select(Family::kGemmS8F32, in.storage, in.isa)) &&
                  out->use(kernels::select(Family::kAmaxF32, kernels::Storage::kS8, in.isa)) &&
                  out->use(kernels::select(Family::kQuantizeF32, in.storage, in.isa));
  return ok ? Status{} : refuse(in, Code::kUnsupported);
}

void run_DynamicFullyConnected(const RunContext& ctx, const BoundStep& step) {
  const DynamicParams& p = ctx.params<DynamicParams>(step);
  uint8_t* q = ctx.scratch(step);
  auto* scales = reinterpret_cast<float*>(q + p.scale_at);
  const float* x = ctx.in<float>(step, kX);
  find_scales(ctx, step, p, x, scales);
  quantize_rows(ctx, step, p, x, scales, q);
  const auto gemm = ctx.kernel<kernels::GemmS8F32Fn>(step, kGemmKernel);
  const int32_t* start = ctx.in<int32_t>(step, ctx.storage() == kernels::Storage::kU8 ? kStartU8 : kStartS8);
  const float *bias = ctx.in<float>(step, kBias), *residual = ctx.in<float>(step, kResidual);
  ctx.parallel(p.row_tasks * p.panel_tasks, [&](uint32_t task, uint32_t) {
    const uint32_t row = task / p.panel_tasks * p.block_rows, panel = task % p.panel_tasks * p.task_panels,
                   c = panel * kGemmPanel;
    const uint32_t rows = smaller(p.m - row, p.block_rows), columns = smaller(p.n - c, p.task_panels * kGemmPanel);
    const size_t at = static_cast<size_t>(row) * p.n + c;
    kernels::GemmS8F32Args g{};
    g.geo = kernels::gemm_s8_matrix(rows, columns, p.k, p.row_bytes, p.n);
    g.a = q + static_cast<size_t>(row) * p.row_bytes;
    g.w = ctx.in<int8_t>(step, kW) + static_cast<size_t>(panel) * kernels::gemm_s8_panel_bytes(1, p.k);
    g.bias = start + c;
    g.row_scale = scales + row;
    g.row_scale_step = 1;
    g.scale = ctx.in<float>(step, kScale) + c;
    g.bias_f32 = bias == nullptr ? nullptr : bias + c;
    g.y = ctx.out<float>(step, 0) + at;
    g.residual = residual == nullptr ? nullptr : residual + at;
    g.lo = p.lo;
    g.hi = p.hi;
    gemm(g);
  });
}

}  // namespace lathe
