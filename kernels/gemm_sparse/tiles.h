// How the kernels of this folder walk over panels, pixels and pieces: portable, for ISA files only.
//
// M, the ISA file's, has A (an activation's type), kMaxRows, a constructor from the arguments, begin_panel(scale of its first
// channel, channels that exist) and Sums<kRows>: made from the bias, add(rows, at, quads, blocks, count) and finish(m, pixels).
#pragma once
#include "kernels/gemm/pixels.h"
#include "kernels/gemm_sparse/gemm_sparse.h"

namespace lathe::kernels {
namespace {

template <class M, int kRows>
__attribute__((noinline)) void sparse_tiles(const GemmSparseS8Args& g, const SparsePanel& panel, const int32_t* bias, const M& m,
                                            Pixels<typename M::A, typename M::A> px, uint32_t tiles) {
  for (; tiles > 0; --tiles, px.advance(kRows)) {
    const typename M::A* row[kRows];
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) row[r] = px.a + px.a_at[r];
    typename M::template Sums<kRows> sums(bias);
    uint32_t row_piece = g.first_piece;
    ptrdiff_t row_at = 0;
    for (uint32_t i = 0; i < g.geo.seg_rows; ++i, row_piece += g.geo.w_seg_row_step, row_at += g.geo.a_seg_row_step) {
      const uint32_t* first = panel.first + row_piece;
      ptrdiff_t at = row_at;
      for (uint32_t j = 0; j < g.geo.seg_cols; ++j, first += g.geo.w_seg_col_step, at += g.geo.a_seg_col_step)
        sums.add(row, at, panel.quad + first[0], panel.blocks + static_cast<size_t>(first[0]) * kSparseBlock,
                 first[g.seg_pieces] - first[0]);
    }
    sums.finish(m, px);
  }
}

// All pixels of a block, panel by panel.
template <class M>
inline __attribute__((always_inline)) void sparse_panels(const GemmSparseS8Args& g, M m,
                                                         const Pixels<typename M::A, typename M::A>& pixels, uint32_t count) {
  for (uint32_t c = 0; c < g.geo.n; c += kGemmPanel) {
    const SparsePanel panel = sparse_panel(g.w, g.first_panel + c / kGemmPanel, g.pieces);
    auto px = pixels;
    px.y += c;
    if (px.residual != nullptr) px.residual += c;
    m.begin_panel(g.scale + c, g.geo.n - c < kGemmPanel ? g.geo.n - c : kGemmPanel);
    for_each_tile_size<M::kMaxRows>(count, [&]<int kRows>(uint32_t tiles) __attribute__((always_inline)) {
      sparse_tiles<M, kRows>(g, panel, g.bias + c, m, px, tiles);
      px.advance(kRows * tiles);
    });
  }
}

template <class M>
inline __attribute__((always_inline)) void gemm_sparse_s8(const GemmSparseS8Args& g) {
  using A = typename M::A;
  const M m(g);
  for_each_block(g.geo, static_cast<const A*>(g.a), static_cast<A*>(g.y), static_cast<const A*>(g.residual),
                 [&](const Pixels<A, A>& px, uint32_t count)
                     __attribute__((always_inline)) { sparse_panels(g, m, px, count); });
}

}  // namespace
}  // namespace lathe::kernels
