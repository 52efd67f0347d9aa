// How the float and half-precision kernels cut a call: portable, for this folder's ISA files only.
//
// k is cut into chunks whose weights stay in the second-level cache while a block of pixels passes; in between sums wait in
// memory, as they are, so that results do not depend on the cut. The first tiles of a block also fetch the weights of the next
// chunk: those of late layers come from far away and are used by few pixels. Tiles take float pixels: halves are widened part by
// part before (wide_parts.h), or, where not even one pixel's input fits there, chunk by chunk for every group of panels.
#pragma once
#include "kernels/gemm/pixels.h"
#include "kernels/gemm/wide_parts.h"

namespace lathe::kernels {
namespace {

// Elements of k and segments in a chunk, pixels in a block of several chunks. A: of the pixels, as they lie in memory. Halves are
// widened into kPixels rows on the stack.
template <class A>
struct Cut {
  static constexpr bool kWidens = sizeof(A) == 2;
  static constexpr uint32_t kChunk = kWidens ? 256 : 512, kPixels = kWidens ? 48 : 96;
  static constexpr uint32_t kRow = kChunk + 16;  // of the buffer; copies run up to 15 over
};
// Elements of k in a chunk whose weights are widened, and the pixels from which on they are.
inline constexpr uint32_t kWideChunk = 320, kWideWeightsPixels = 32;
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

// One call's constants, and where the current panels and chunk are. W: of the weights, as tiles load them.
template <class W, class T>
struct Place {
  const GemmRealArgs<T>* g;
  const Chunk* chunk;
  const W* w;
  size_t panel_step;
  const W* ahead;  // what the next `ahead_panels` tiles fetch, one panel each
  uint32_t ahead_panels;
  const float* bias;  // or null
  float* sums;        // of the next tile: rows of 16 x Isa::kMaxPanels
  uint32_t panels;
  uint32_t tail;  // channels of the last panel here, 1 .. 16

  // The weights that a tile fetches while it works: its own, which costs nothing, if there are no others.
  const W* take_ahead() {
    if (ahead_panels == 0) return w + chunk->w_begin();
    const W* mine = ahead;
    --ahead_panels;
    ahead += panel_step;
    return mine;
  }
};

// The pixels of a block, for a chunk: `a` itself, or its chunk widened.
template <class T>
using RealPixels = Pixels<float, T>;

// The buffer that takes the place of half-precision pixels, for one chunk.
template <class A, class T>
struct Widened {
  alignas(64) float rows[Cut<A>::kPixels * Cut<A>::kRow];
  uint32_t row_at[Cut<A>::kPixels];
  Chunk chunk;

  template <class Isa>
  RealPixels<T> take(const Pixels<A, T>& px, uint32_t m, const Chunk& c) {
    chunk = c;
    uint32_t k = 0;
    for (uint32_t i = 0; i < c.count; k += c.pieces[i++].k) chunk.pieces[i].a_at = k;
    for (uint32_t p = 0; p < m; ++p) {
      const A* a = px.table_step != 0 ? px.a + px.a_at[p] : px.a + static_cast<size_t>(p) * px.a_step;
      row_at[p] = p * Cut<A>::kRow;
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
            .a_step = px.table_step != 0 ? 0 : Cut<A>::kRow,
            .y_step = px.y_step,
            .residual_step = px.residual_step,
            .table_step = px.table_step};
  }
};
template <class T>
struct Widened<float, T> {
  template <class Isa>
  RealPixels<T> take(const Pixels<float, T>& px, uint32_t, const Chunk&) {
    return px;
  }
};

// A chunk of a group's weights as floats: panel after panel, k in order.
template <class Isa>
struct WideWeights {
  alignas(64) float w[kWideChunk * 16 * Isa::kMaxPanels];
  Chunk chunk;

  void take(const Place<uint16_t, uint16_t>& p) {
    chunk = *p.chunk;
    size_t at = 0;
    for (uint32_t i = 0; i < chunk.count; ++i) {
      chunk.pieces[i].w_at = at;
      at += static_cast<size_t>(chunk.pieces[i].k) * kGemmPanel;
    }
    for (uint32_t z = 0; z < p.panels; ++z) {
      for (uint32_t i = 0; i < chunk.count; ++i)
        Isa::widen(p.w + z * p.panel_step + p.chunk->pieces[i].w_at, chunk.pieces[i].k * kGemmPanel,
                   w + z * kWideChunk * kGemmPanel + chunk.pieces[i].w_at);
    }
  }
  Place<float, uint16_t> place(const Place<uint16_t, uint16_t>& p) const {
    return {.g = p.g, .chunk = &chunk, .w = w, .panel_step = kWideChunk * kGemmPanel, .ahead = nullptr, .ahead_panels = 0,
            .bias = p.bias, .sums = p.sums, .panels = p.panels, .tail = p.tail};
  }
};

// Calls fn(place, chunk) for every chunk of k of every group of panels of a block.
template <class Isa, class T, class F>
inline __attribute__((always_inline)) void for_each_chunk(const GemmRealArgs<T>& g, uint32_t m, uint32_t most_k, float* sums,
                                                          const F& fn) {
  Chunk chunk;
  Place<T, T> p{};
  p.g = &g;
  p.chunk = &chunk;
  p.panel_step = g.geo.w_panel_step;
  const uint32_t all = (g.geo.n + 15) / 16;
  for (uint32_t first = 0; first < all; first += p.panels) {
    const uint32_t c = 16 * first;
    p.panels = Isa::group_panels(all - first, m);
    p.w = g.w + first * p.panel_step;
    p.bias = g.bias == nullptr ? nullptr : g.bias + c;
    p.tail = g.geo.n - c >= 16 * p.panels ? 16 : g.geo.n - c - 16 * (p.panels - 1);
    Chunks chunks(g.geo, most_k);
    while (chunks.next(&chunk)) {
      p.sums = sums;
      p.ahead = p.w + (chunk.last ? p.panels * p.panel_step : chunk.w_end());
      p.ahead_panels = chunk.last && first + p.panels >= all ? 0 : p.panels;
      fn(p, c);
    }
  }
}

// The pixels of a block at channel c of the results.
template <class A, class T>
Pixels<A, T> at_channel(Pixels<A, T> px, uint32_t c) {
  px.y += c;
  if (px.residual != nullptr) px.residual += c;
  return px;
}

// All channels of a block of pixels.
template <class Isa, class A, class T>
__attribute__((noinline)) void real_block(const GemmRealArgs<T>& g, const Pixels<A, T>& px, uint32_t m) {
  alignas(64) float sums[Cut<A>::kPixels * 16 * Isa::kMaxPanels];
  Widened<A, T> widened;
  for_each_chunk<Isa>(g, m, Cut<A>::kChunk, sums, [&](Place<T, T>& p, uint32_t c) {
    const RealPixels<T> real = widened.template take<Isa>(at_channel(px, c), m, *p.chunk);
    Place<T, T> here = p;
    if constexpr (Cut<A>::kWidens) here.chunk = &widened.chunk;
    Isa::run(here, real, m);
  });
}

// The same with weights widened once for all pixels.
template <class Isa>
__attribute__((noinline)) void wide_weights_block(const GemmF16Args& g, const RealPixels<uint16_t>& px, uint32_t m) {
  alignas(64) float sums[Cut<float>::kPixels * 16 * Isa::kMaxPanels];
  WideWeights<Isa> weights;
  for_each_chunk<Isa>(g, m, kWideChunk, sums, [&](const Place<uint16_t, uint16_t>& p, uint32_t c) {
    weights.take(p);
    Place<float, uint16_t> here = weights.place(p);
    Isa::run(here, at_channel(px, c), m);
  });
}

// All of a call whose pixels are read at `a`.
template <class Isa, class A, class T>
inline __attribute__((always_inline)) void real_pixels(const GemmRealArgs<T>& g, const A* a) {
  const uint64_t segs = static_cast<uint64_t>(g.geo.seg_rows) * g.geo.seg_cols;
  const uint64_t chunk_k = sizeof(T) == 2 ? kWideChunk : Cut<A>::kChunk;
  const bool several = Cut<A>::kWidens || segs * g.geo.seg_k > chunk_k || segs > kChunkPieces;
  for_each_block(g.geo, a, g.y, g.residual, [&](Pixels<A, T> px, uint32_t m) {
    const uint32_t most = several ? Cut<A>::kPixels : m;
    for (uint32_t count; m > 0; m -= count, px.advance(count)) {
      count = m < most ? m : most;
      if constexpr (sizeof(T) == 2 && sizeof(A) == 4) {
        if (count >= kWideWeightsPixels) {
          wide_weights_block<Isa>(g, px, count);
          continue;
        }
      }
      real_block<Isa>(g, px, count);
    }
  });
}

template <class Isa>
inline __attribute__((always_inline)) void real_gemm(const GemmF32Args& g) {
  real_pixels<Isa>(g, g.a);
}

template <class Isa>
inline __attribute__((always_inline)) void real_gemm(const GemmF16Args& g) {
  alignas(64) float wide[kWideElems];
  const WideCut cut = wide_cut(g.geo);
  if (cut.rows == 0) return real_pixels<Isa>(g, g.a);
  for (uint32_t i = 0; i < g.geo.rows; i += cut.rows) {
    for (uint32_t j = 0; j < g.geo.cols; j += cut.cols) {
      const WidePart part(g, cut, i, j);
      part.template widen<Isa>(wide);
      real_pixels<Isa>(part.args, wide + part.first);
    }
  }
}

}  // namespace
}  // namespace lathe::kernels
