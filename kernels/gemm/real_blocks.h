// How the float and half-precision kernels cut a call: portable, for this folder's ISA files only.
//
// k is cut into chunks whose weights stay in the second-level cache while a block of pixels passes; in between sums wait in
// memory, as they are, so that results do not depend on the cut. The first tiles of a block also fetch the weights of the next
// chunk: those of late layers come from far away and are used by few pixels. Half-precision pixels are widened once per group of
// panels, into a buffer that then takes the place of `a`.
#pragma once
#include "kernels/gemm/pixels.h"

namespace lathe::kernels {
namespace {

// Elements of k and segments in a chunk, pixels in a block of several chunks. Halves are widened into kPixels rows on the stack.
template <class T>
struct Cut {
  static constexpr bool kWidens = sizeof(T) == 2;
  static constexpr uint32_t kChunk = kWidens ? 256 : 512, kPixels = kWidens ? 48 : 96;
  static constexpr uint32_t kRow = kChunk + 16;  // of the buffer; copies run up to 15 over
};
inline constexpr uint32_t kChunkPieces = 64;

// A run of k: elements of a from a_at on, weights from w_at on in each panel.
struct Piece {
  ptrdiff_t a_at;
  size_t w_at;
  uint32_t k;
};

struct Chunk {
  Piece pieces[kChunkPieces];
  uint32_t count;
  bool first, last;
  // Where its weights begin. A window in padding alone has no pieces.
  size_t w_begin() const { return count == 0 ? 0 : pieces[0].w_at; }
  size_t w_end() const { return count == 0 ? 0 : pieces[count - 1].w_at + static_cast<size_t>(pieces[count - 1].k) * kGemmPanel; }
};

// Walks over all (segment, k) of a call, chunk by chunk; there is at least one.
class Chunks {
 public:
  Chunks(const GemmGeometry& g, uint32_t most) : g_(g), most_(most) {}
  bool next(Chunk* c) {
    if (done_) return false;
    c->first = i_ == 0 && j_ == 0 && k_ == 0;
    c->count = 0;
    for (uint32_t left = most_; left > 0 && c->count < kChunkPieces && i_ < g_.seg_rows && g_.seg_cols > 0;) {
      Piece& p = c->pieces[c->count++];
      p.k = g_.seg_k - k_ < left ? g_.seg_k - k_ : left;
      p.a_at = static_cast<ptrdiff_t>(i_) * g_.a_seg_row_step + static_cast<ptrdiff_t>(j_) * g_.a_seg_col_step +
               static_cast<ptrdiff_t>(k_);
      p.w_at = static_cast<size_t>(i_) * g_.w_seg_row_step + static_cast<size_t>(j_) * g_.w_seg_col_step +
               static_cast<size_t>(k_) * kGemmPanel;
      left -= p.k;
      k_ += p.k;
      if (k_ == g_.seg_k) k_ = 0, ++j_;
      if (j_ == g_.seg_cols) j_ = 0, ++i_;
    }
    done_ = c->last = i_ == g_.seg_rows || g_.seg_cols == 0;
    return true;
  }

 private:
  const GemmGeometry& g_;
  uint32_t most_;
  uint32_t i_ = 0, j_ = 0, k_ = 0;
  bool done_ = false;
};

// One call's constants, and where the current panels and chunk are.
template <class T>
struct Place {
  const GemmRealArgs<T>* g;
  const Chunk* chunk;
  const T* w;
  const T* ahead;  // what the next `ahead_panels` tiles fetch, one panel each
  uint32_t ahead_panels;
  const float* bias;  // or null
  float* sums;        // of the next tile: rows of 16 x Isa::kMaxPanels
  uint32_t panels;
  uint32_t tail;  // channels of the last panel here, 1 .. 16

  // The weights that a tile fetches while it works: its own, which costs nothing, if there are no others.
  const T* take_ahead() {
    if (ahead_panels == 0) return w + chunk->w_begin();
    const T* mine = ahead;
    --ahead_panels;
    ahead += g->geo.w_panel_step;
    return mine;
  }
};

// The pixels of a block, for a chunk: `a` itself, or its chunk widened.
template <class T>
using RealPixels = Pixels<float, T>;

// The buffer that takes the place of half-precision pixels.
template <class T>
struct Widened {
  alignas(64) float rows[Cut<T>::kPixels * Cut<T>::kRow];
  uint32_t row_at[Cut<T>::kPixels];
  Chunk chunk;

  template <class Isa>
  RealPixels<T> take(const Pixels<T, T>& px, uint32_t m, const Chunk& c) {
    chunk = c;
    uint32_t k = 0;
    for (uint32_t i = 0; i < c.count; k += c.pieces[i++].k) chunk.pieces[i].a_at = k;
    for (uint32_t p = 0; p < m; ++p) {
      const T* a = px.table_step != 0 ? px.a + px.a_at[p] : px.a + static_cast<size_t>(p) * px.a_step;
      row_at[p] = p * Cut<T>::kRow;
      for (uint32_t i = 0; i < c.count; ++i)
        Isa::widen(a + c.pieces[i].a_at, c.pieces[i].k, rows + row_at[p] + chunk.pieces[i].a_at);
    }
    return {.a = rows,
            .y = px.y,
            .residual = px.residual,
            .a_at = row_at,
            .y_at = px.y_at,
            .residual_at = px.residual_at,
            .index = px.index,
            .a_step = px.table_step != 0 ? 0 : Cut<T>::kRow,
            .y_step = px.y_step,
            .residual_step = px.residual_step,
            .table_step = px.table_step};
  }
};
template <>
struct Widened<float> {
  template <class Isa>
  RealPixels<float> take(const Pixels<float, float>& px, uint32_t, const Chunk&) {
    return px;
  }
};

// All channels of a block of pixels.
template <class Isa, class T>
void real_block(const GemmRealArgs<T>& g, Pixels<T, T> px, uint32_t m) {
  alignas(64) float sums[Cut<T>::kPixels * 16 * Isa::kMaxPanels];
  Widened<T> widened;
  Chunk chunk;
  Place<T> p{};
  p.g = &g;
  T* const y = px.y;
  const T* const residual = px.residual;
  const uint32_t all = (g.geo.n + 15) / 16;
  for (uint32_t first = 0; first < all; first += p.panels) {
    const uint32_t c = 16 * first;
    p.panels = Isa::group_panels(all - first, m);
    p.w = g.w + static_cast<size_t>(first) * g.geo.w_panel_step;
    p.bias = g.bias == nullptr ? nullptr : g.bias + c;
    p.tail = g.geo.n - c >= 16 * p.panels ? 16 : g.geo.n - c - 16 * (p.panels - 1);
    px.y = y + c;
    px.residual = residual == nullptr ? nullptr : residual + c;
    Chunks chunks(g.geo, Cut<T>::kChunk);
    while (chunks.next(&chunk)) {
      const RealPixels<T> real = widened.template take<Isa>(px, m, chunk);
      if constexpr (Cut<T>::kWidens)
        p.chunk = &widened.chunk;
      else
        p.chunk = &chunk;
      p.sums = sums;
      p.ahead = p.w + (chunk.last ? static_cast<size_t>(p.panels) * g.geo.w_panel_step : chunk.w_end());
      p.ahead_panels = chunk.last && first + p.panels >= all ? 0 : p.panels;
      Isa::run(p, real, m);
    }
  }
}

// All of a call.
template <class Isa, class T>
inline __attribute__((always_inline)) void real_gemm(const GemmRealArgs<T>& g) {
  const uint64_t segs = static_cast<uint64_t>(g.geo.seg_rows) * g.geo.seg_cols;
  const bool several = Cut<T>::kWidens || segs * g.geo.seg_k > Cut<T>::kChunk || segs > kChunkPieces;
  for_each_block(g.geo, g.a, g.y, g.residual, [&](Pixels<T, T> px, uint32_t m) {
    const uint32_t most = several ? Cut<T>::kPixels : m;
    for (uint32_t count; m > 0; m -= count, px.advance(count)) {
      count = m < most ? m : most;
      real_block<Isa>(g, px, count);
    }
  });
}

}  // namespace
}  // namespace lathe::kernels
