#include "kernels/gemm/gemm.h"
#include "runtime/exec/conv_params.h"
#include "runtime/exec/split.h"

namespace lathe {
namespace {

constexpr uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
constexpr uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

// Below this many multiply-adds handing over half of them and their input costs more than it brings: 0.5 us where two CPUs share a
// cache, but 2 us where they do not, which a virtual machine may change from one minute to the next.
constexpr uint64_t kParallelMacsS8 = 600000, kParallelMacsF32 = 200000;
// Weights from here on are better split than read by every thread.
constexpr uint32_t kLargeWeights = 262144;
// Input that stays near while one group of panels after the other passes over it.
constexpr uint32_t kNearBytes = 262144;
// From this width on copying only the edges saves more than its additional kernel calls cost.
constexpr uint32_t kEdgesFromCols = 32;

// What the cut depends on. A matrix is one image whose rows are in one run.
struct Work {
  uint32_t elem, weight_bytes, panels, images, rows, threads;
};

Work work_of(const PrepareInput& in, const ConvPacking& packing, const ConvParams& p) {
  const bool matrix = p.mode == ConvMode::kMatrix, q = p.quantized != 0;
  Work k;
  k.elem = p.elem_bytes;
  const uint32_t dense_bytes = q ? packing.packed_s8_bytes() : packing.packed_f32_elems() * k.elem;
  k.weight_bytes = p.pieces == 0 ? dense_bytes : in.tensor(kConvW).stored_bytes;
  k.panels = ceil_div(p.n, kernels::kGemmPanel);
  k.images = matrix ? 1 : p.images;
  k.rows = matrix ? p.images * p.h.out * p.w.out : p.h.out;
  // What block-sparse weights leave out takes no time.
  const uint64_t weights = min_u32(packing.weight_elems(), k.weight_bytes);
  const uint64_t macs = static_cast<uint64_t>(p.images) * p.h.out * p.w.out * weights;
  k.threads = macs < (q ? kParallelMacsS8 : kParallelMacsF32) ? 1 : max_u32(in.threads, 1);
  return k;
}

// The most output rows that a task may take for the caches' sake.
uint32_t most_rows(const PrepareInput& in, const ConvParams& p, const Work& k) {
  const uint32_t row_bytes = max_u32(p.w.in * p.ic * k.elem, 1);
  switch (p.mode) {
    case ConvMode::kMatrix:
      if (p.quantized != 0) return max_u32(49152 / max_u32(p.ic * k.elem, 1) / 12, 1) * 12;
      // Float kernels cut pixels and k themselves; large weights are read once, else rows stay near for all panels.
      return k.weight_bytes > 2 * kNearBytes ? max_u32(k.rows, 1) : max_u32(kNearBytes / max_u32(p.ic * k.elem, 1) / 24, 4) * 24;
    // Kernels pass over all rows once per block of channels.
    case ConvMode::kDepthwise: return max_u32(131072 / row_bytes / p.h.stride, 8);
    case ConvMode::kDense:
    case ConvMode::kWide:
    case ConvMode::kWinograd: break;
  }
  if (p.border != ConvBorder::kCopyAll && k.panels <= p.call_panels) return max_u32(k.rows, 1);
  if (p.border != ConvBorder::kCopyAll) return max_u32(kNearBytes / row_bytes / p.h.stride, 8);
  // Scalar targets have little memory and compute slowly: one output row at a time costs them nothing.
  const uint32_t target = in.isa == kernels::kIsaScalar ? 4096 : k.weight_bytes > 65536 ? kNearBytes : kNearBytes / 2;
  const uint32_t fit = target / max_u32(p.w.window(p.w.out) * p.ic * k.elem, 1);
  return fit > p.h.window(1) ? (fit - p.h.window(1)) / p.h.stride + 1 : 1;
}

// In how many parts panels are cut; rows make up what is missing to `threads`. Rows first: a thread then finds most of its input
// in its own cache, where it wrote the rows before. Panels only where that makes the largest part much smaller, or where the
// weights, which every thread would read, are large.
uint32_t panel_parts(const ConvParams& p, const Work& k) {
  if (k.threads == 1 || p.groups != 1 || p.multiplier > 1) return 1;
  uint32_t best = 1;
  uint64_t best_load = ~uint64_t{0} / 2;
  for (uint32_t parts = 1; parts <= min_u32(k.threads, k.panels); ++parts) {
    const uint64_t rows = static_cast<uint64_t>(k.images) * k.rows, row_parts = ceil_div(k.threads, parts);
    const uint64_t load = (rows + row_parts - 1) / row_parts * ceil_div(k.panels, parts);
    const bool large = k.weight_bytes > kLargeWeights;
    if (large ? load <= best_load : load + load / 4 < best_load) best = parts, best_load = load;
  }
  return best;
}

// Scratch of one slot in elements: the largest window that is copied, or a row of padding.
uint64_t slot_elems(const ConvParams& p) {
  if (p.border == ConvBorder::kNone || p.border == ConvBorder::kSkip || p.block_rows == 0 || p.w.out == 0) return 0;
  if (p.mode == ConvMode::kDepthwise) return static_cast<uint64_t>(p.w.in) * p.x_pixel;
  const uint64_t wide = static_cast<uint64_t>(p.w.window(p.w.out)) * p.ic;
  if (p.border == ConvBorder::kCopyAll) return p.h.window(p.block_rows) * wide;
  const uint32_t outside = p.border == ConvBorder::kSkipRows ? 0 : max_u32(p.h.inside, p.h.out - p.h.inside_end);
  const uint32_t edge_rows = min_u32(outside, p.block_rows);
  const uint32_t edge_cols = max_u32(p.w.inside, p.w.out - p.w.inside_end);
  const uint64_t across = edge_rows == 0 ? 0 : p.h.window(edge_rows) * wide;
  const uint64_t down = edge_cols == 0 ? 0 : static_cast<uint64_t>(p.h.window(p.block_rows)) * p.w.window(edge_cols) * p.ic;
  return across > down ? across : down;
}

}  // namespace

ConvBorder choose_border(const ConvParams& p) {
  const auto all_inside = [](const ConvAxis& a) { return a.inside == 0 && a.inside_end == a.out; };
  if (all_inside(p.h) && all_inside(p.w)) return ConvBorder::kNone;
  if (p.mode == ConvMode::kDepthwise) return ConvBorder::kCopyAll;
  // A kernel row as one segment can only be cut where a quad of packed weights starts.
  const bool cuts = p.quantized == 0 || p.segs != p.h.kernel || p.seg_k / p.w.kernel % kernels::kGemmQuad == 0;
  if (p.quantized == 0 || p.pad_value == 0) return cuts ? ConvBorder::kSkip : ConvBorder::kSkipRows;
  const bool some_inside = p.h.inside < p.h.inside_end && p.w.inside < p.w.inside_end;
  return some_inside && p.w.out >= kEdgesFromCols ? ConvBorder::kCopyEdges : ConvBorder::kCopyAll;
}

void set_pixels(const PrepareInput& in, ConvParams* p, Prepared* out) {
  const uint32_t residual = conv_residual(p->quantized != 0);
  p->x_pixel = in.pixel_stride(kConvX);
  p->y_pixel = in.pixel_stride(in.out());
  p->residual_pixel = in.has(residual) ? in.pixel_stride(residual) : p->y_pixel;
  // A row of the kernel is one segment only where pixels lie side by side; its taps are segments too if their weights are.
  const bool row_is_segment = p->mode == ConvMode::kDense && p->segs == p->h.kernel && p->w.kernel > 1;
  const bool by_taps = !row_is_segment || p->quantized == 0 || p->seg_k / p->w.kernel % kernels::kGemmQuad == 0;
  out->strided_input_mask = (by_taps ? 1u << kConvX : 0) | 1u << residual;
  out->strided_output = true;
  out->exact_input_mask = p->mode == ConvMode::kDense && p->border == ConvBorder::kCopyAll ? 1u << kConvX : 0;
}

Status cut_conv_tasks(const PrepareInput& in, const ConvPacking& packing, ConvParams* p, Prepared* out) {
  const Work k = work_of(in, packing, *p);
  const bool few_panels = p->mode != ConvMode::kMatrix && (p->quantized != 0 || p->border == ConvBorder::kSkip);
  p->call_panels = few_panels && k.weight_bytes > 24576 ? 4 : k.panels;
  const uint32_t rows = max_u32(k.rows, 1);
  uint32_t block = min_u32(most_rows(in, *p, k), rows);
  p->panel_tasks = panel_parts(*p, k);
  const uint32_t row_parts = ceil_div(k.threads, p->panel_tasks);
  if (k.images < row_parts) block = min_u32(block, ceil_div(rows, ceil_div(row_parts, max_u32(k.images, 1))));
  // Equal blocks, and a multiple of the parts where that is possible.
  uint32_t blocks = ceil_div(rows, block);
  if (k.images == 1) blocks = min_u32(ceil_div(blocks, row_parts) * row_parts, rows);
  p->block_rows = ceil_div(rows, blocks);
  p->row_tasks = k.rows == 0 ? 0 : ceil_div(k.rows, p->block_rows);
  p->task_panels = ceil_div(k.panels, p->panel_tasks);
  p->panel_tasks = ceil_div(k.panels, p->task_panels);

  const uint64_t slot = slot_elems(*p), tasks = static_cast<uint64_t>(k.images) * p->row_tasks * p->panel_tasks;
  const uint64_t slot_bytes = slot == 0 ? 0 : (slot * k.elem + 64 + 63) / 64 * 64;
  const uint64_t scratch = (tasks > 1 ? max_u32(in.threads, 1) : 1) * slot_bytes;
  if (scratch > 0x7fffffff) return {Code::kOutOfMemory, 0, static_cast<uint32_t>(scratch >> 10), 0};
  p->slot_bytes = static_cast<uint32_t>(slot_bytes);
  out->scratch_bytes = static_cast<uint32_t>(scratch);
  // Kernels read a residual element before they write the result in its place.
  const uint32_t residual = conv_residual(p->quantized != 0);
  if (in.has(residual)) out->share_input_mask = 1u << residual;
  if (p->quantized != 0) out->unread_input_mask = 1u << (in.storage == kernels::Storage::kU8 ? kConvBiasS8 : kConvBiasU8);
  return {};
}

}  // namespace lathe
