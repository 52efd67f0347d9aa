// How the half-precision kernels cut a call into parts whose input is widened to float on the stack: portable, for this folder's
// ISA files only.
//
// A part is some rows of output pixels, or some pixels of a row. What it reads are runs of a: input rows from its first column to
// its last, or, where pixels lie apart and share nothing, the pixels themselves. Runs are kept once however many pixels and taps
// see them, and the part is then a float call on the buffer with steps of its own.
#pragma once
#include "kernels/gemm/gemm.h"

namespace lathe::kernels {
namespace {

// Floats on the stack: a part of 10 rows of 32 pixels x 16 channels takes half. Copies run up to 15 over a run's end.
inline constexpr uint32_t kWideElems = 12288, kWideSlack = 16;

// The most that a part may hold. What one tap reads need not be shared by rows, so that little stays nearer.
inline uint32_t most_elems(const GemmGeometry& g, uint64_t padded_pixel) {
  constexpr uint32_t kNear = 4096, kPixels = 24;
  if (g.seg_rows * g.seg_cols > 1 || kPixels * padded_pixel > kWideElems) return kWideElems;
  return kPixels * padded_pixel < kNear ? kNear : static_cast<uint32_t>(kPixels * padded_pixel);
}

constexpr uint32_t distance(int32_t v) { return static_cast<uint32_t>(v < 0 ? -v : v); }

// The largest part of a call, its cut into parts of even size, and the runs of a part.
struct WideCut {
  uint32_t rows, cols;  // output pixels; rows 0: not even one pixel fits
  bool by_pixel;        // a run is one pixel, else one input row
  uint32_t run_rows;    // runs from an output row to the next (by_pixel: unused)
};

// Elements that `cols` pixels of a row read of one input row.
inline uint64_t run_elems(const GemmGeometry& g, uint32_t cols) {
  return static_cast<uint64_t>(cols - 1) * g.a_col_step + static_cast<uint64_t>(g.seg_cols - 1) * distance(g.a_seg_col_step) +
         g.seg_k;
}
inline uint64_t padded_run(uint64_t elems) { return (elems + 15) / 16 * 16 + kWideSlack; }

inline uint32_t runs_of(const GemmGeometry& g, const WideCut& cut, uint32_t rows) {
  return (rows - 1) * cut.run_rows + g.seg_rows;
}

// `all` in parts of at most `most`, of even size; of whole tiles if that may be.
inline uint32_t even_part(uint32_t all, uint32_t most) {
  constexpr uint32_t kTiles = 24;
  const uint32_t parts = (all + most - 1) / most, size = (all + parts - 1) / parts, whole = round_up(size, kTiles);
  return whole <= most ? whole : size;
}

inline WideCut wide_cut(const GemmGeometry& g) {
  if (g.rows == 0 || g.cols == 0 || g.seg_rows == 0 || g.seg_cols == 0 || g.seg_k == 0) return {g.rows, g.cols, false, 0};
  const uint32_t most = most_elems(g, padded_run(g.seg_k));
  if (g.seg_rows == 1 && g.seg_cols == 1 && g.a_col_step >= 2 * g.seg_k) {
    const uint64_t fit = most / padded_run(g.seg_k);
    if (fit == 0) return {};
    const uint32_t pixels = static_cast<uint32_t>(fit);
    if (pixels < g.cols) return {1, even_part(g.cols, pixels), true, 0};
    const uint32_t rows = pixels / g.cols;
    return {rows < g.rows ? rows : g.rows, g.cols, true, 0};
  }
  // Rows of a part share runs if their distance is a multiple of that between the taps' rows.
  const uint32_t tap = distance(g.a_seg_row_step);
  const bool shares = g.seg_rows == 1 || (tap != 0 && g.a_row_step % tap == 0);
  const uint32_t run_rows = g.seg_rows == 1 ? 1 : shares ? g.a_row_step / tap : 0;
  const uint64_t runs = most / padded_run(run_elems(g, g.cols));
  if (runs >= g.seg_rows) {
    const uint64_t rows = shares && run_rows > 0 ? (runs - g.seg_rows) / run_rows + 1 : 1;
    const uint32_t fit = rows < g.rows ? static_cast<uint32_t>(rows) : g.rows, parts = (g.rows + fit - 1) / fit;
    return {(g.rows + parts - 1) / parts, g.cols, false, run_rows};
  }
  const uint64_t run = most / g.seg_rows, one = padded_run(run_elems(g, 1)) + 15;
  if (one > run) return {};
  const uint64_t cols = g.a_col_step == 0 ? g.cols : (run - one) / g.a_col_step + 1;
  return {1, even_part(g.cols, static_cast<uint32_t>(cols)), false, run_rows};
}

// Pixels from (row, col) on, as a call on the buffer: tap 0 of the first one lies at `first`.
struct WidePart {
  GemmF16Args args;
  const uint16_t* from;             // the lowest element that is read
  uint32_t outer, inner;            // runs: `outer` times `inner`
  ptrdiff_t outer_step, inner_step;  // between them in a
  uint32_t run, step, first;        // elements of a run; from a run to the next in the buffer

  WidePart(const GemmF16Args& g, const WideCut& cut, uint32_t row, uint32_t col)
      : args(g), from(nullptr), outer(0), inner(0), outer_step(0), inner_step(0), run(0), step(0), first(0) {
    const GemmGeometry& all = g.geo;
    GemmGeometry& geo = args.geo;
    geo.rows = all.rows - row < cut.rows ? all.rows - row : cut.rows;
    geo.cols = all.cols - col < cut.cols ? all.cols - col : cut.cols;
    args.y += static_cast<size_t>(row) * all.y_row_step + static_cast<size_t>(col) * all.y_col_step;
    if (args.residual != nullptr)
      args.residual += static_cast<size_t>(row) * all.residual_row_step + static_cast<size_t>(col) * all.residual_col_step;
    if (all.seg_rows == 0 || all.seg_cols == 0 || all.seg_k == 0) return;
    from = g.a + static_cast<size_t>(row) * all.a_row_step + static_cast<size_t>(col) * all.a_col_step;
    run = cut.by_pixel ? all.seg_k : static_cast<uint32_t>(run_elems(all, geo.cols));
    step = static_cast<uint32_t>(padded_run(run));
    if (cut.by_pixel) {
      outer = geo.rows, outer_step = all.a_row_step;
      inner = geo.cols, inner_step = all.a_col_step;
      geo.a_col_step = step, geo.a_row_step = step * geo.cols;
      return;
    }
    outer = runs_of(all, cut, geo.rows), inner = 1;
    outer_step = all.seg_rows == 1 ? all.a_row_step : distance(all.a_seg_row_step);
    geo.a_row_step = cut.run_rows * step;
    geo.a_seg_row_step = all.a_seg_row_step < 0 ? -static_cast<int32_t>(step) : static_cast<int32_t>(step);
    if (all.a_seg_row_step < 0) go_back(all.seg_rows - 1, step, outer_step);
    if (all.a_seg_col_step < 0) go_back(all.seg_cols - 1, distance(all.a_seg_col_step), distance(all.a_seg_col_step));
  }

  template <class Isa>
  inline __attribute__((always_inline)) void widen(float* to) const {
    for (uint32_t i = 0; i < outer; ++i) {
      for (uint32_t j = 0; j < inner; ++j, to += step)
        Isa::widen(from + static_cast<ptrdiff_t>(i) * outer_step + static_cast<ptrdiff_t>(j) * inner_step, run, to);
    }
  }

 private:
  // Taps `count` steps before the first one are read, too.
  void go_back(uint32_t count, uint32_t in_buffer, ptrdiff_t in_a) {
    first += count * in_buffer;
    from -= static_cast<ptrdiff_t>(count) * in_a;
  }
};

}  // namespace
}  // namespace lathe::kernels
