// How the kernels of this folder walk over the pixels of a call: portable, for ISA files only.
//
// A tile takes some pixels in order, across rows: pixel r of a tile reads at a + a_at[r] and writes at y + y_at[r]. Where all
// pixels are equally far apart the offsets are the same for every tile and the bases move; else the offsets of a block of pixels
// are written down once for all its panels, and the bases stay.
#pragma once
#include "kernels/gemm/gemm.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

inline constexpr uint32_t kBlockPixels = 192;
inline constexpr uint32_t kMaxTileRows = 16;

struct PixelTable {
  uint32_t a[kBlockPixels], y[kBlockPixels], residual[kBlockPixels];
};

// The pixels from a tile's first one on. A: elements of a; Y: of y and residual.
template <class A, class Y>
struct Pixels {
  const A* a;
  Y* y;
  const Y* residual;  // or null
  const uint32_t *a_at, *y_at, *residual_at;
  uint32_t index;  // of the first pixel in its call
  // What one pixel moves the bases and the offsets.
  uint32_t a_step, y_step, residual_step, table_step;

  inline __attribute__((always_inline)) void advance(uint32_t rows) {
    index += rows;
    a += static_cast<size_t>(rows) * a_step;
    y += static_cast<size_t>(rows) * y_step;
    if (residual != nullptr) residual += static_cast<size_t>(rows) * residual_step;
    a_at += static_cast<size_t>(rows) * table_step;
    y_at += static_cast<size_t>(rows) * table_step;
    residual_at += static_cast<size_t>(rows) * table_step;
  }
};

inline bool equally_spaced(const GemmGeometry& g, bool residual) {
  if (g.rows == 1) return true;
  return g.a_row_step == g.cols * g.a_col_step && g.y_row_step == g.cols * g.y_col_step &&
         (!residual || g.residual_row_step == g.cols * g.residual_col_step);
}

// Offsets of `count` pixels from `first` on. Row by row, so that the inner loop becomes vectors.
inline void fill_offsets(uint32_t cols, uint32_t row_step, uint32_t col_step, uint32_t first, uint32_t count, uint32_t* to) {
  uint32_t row = first / cols * row_step;
  for (uint32_t j = first % cols; count > 0; j = 0, row += row_step) {
    const uint32_t n = cols - j < count ? cols - j : count;
    for (uint32_t i = 0; i < n; ++i) to[i] = row + (j + i) * col_step;
    to += n;
    count -= n;
  }
}

inline void fill_table(const GemmGeometry& g, bool residual, uint32_t first, uint32_t count, PixelTable* t) {
  fill_offsets(g.cols, g.a_row_step, g.a_col_step, first, count, t->a);
  fill_offsets(g.cols, g.y_row_step, g.y_col_step, first, count, t->y);
  if (residual) fill_offsets(g.cols, g.residual_row_step, g.residual_col_step, first, count, t->residual);
}

// Calls fn(pixels, count) for blocks of pixels that together are all of the call.
template <class A, class Y, class F>
inline __attribute__((always_inline)) void for_each_block(const GemmGeometry& g, const A* a, Y* y, const Y* residual,
                                                          const F& fn) {
  const uint32_t m = g.rows * g.cols;
  if (m == 0) return;
  PixelTable table;
  Pixels<A, Y> px{a, y, residual, table.a, table.y, table.residual, 0, 0, 0, 0, 1};
  if (equally_spaced(g, residual != nullptr)) {
    GemmGeometry row = g;
    row.cols = m;
    fill_table(row, residual != nullptr, 0, m < kMaxTileRows ? m : kMaxTileRows, &table);
    px.a_step = g.a_col_step, px.y_step = g.y_col_step, px.residual_step = g.residual_col_step, px.table_step = 0;
    return fn(px, m);
  }
  for (uint32_t first = 0; first < m; first += kBlockPixels) {
    const uint32_t count = m - first < kBlockPixels ? m - first : kBlockPixels;
    fill_table(g, residual != nullptr, first, count, &table);
    px.index = first;
    fn(px, count);
  }
}

}  // namespace
}  // namespace lathe::kernels
