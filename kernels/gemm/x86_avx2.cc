// Segment GEMM on AVX2 and FMA, u8 storage, float and half precision.
//
// The 8-bit one is exact: activations and weights are widened to 16 bits for vpmaddwd (vpmaddubsw would saturate). A quad of k is
// taken apart into its even and odd bytes, because two shifts do that to weights as they are packed and leave one channel to a
// 32-bit lane: sums need no horizontal add, and stand in channel order. A block of rows is widened once for all channels, into
// two planes (even, odd bytes); neighbouring pixels of a convolution share most of their bytes, which are then widened only once.
// A panel of weights is widened once for all tiles of a block, and by each tile if there are few. A tile is 6 rows x 16 channels
// in 12 accumulators.
//
// One row has no use for widened weights: its own bytes are split into nibbles instead, whose products with bytes fit vpmaddubsw,
// and eight of which fit a 16-bit sum: 2 * 15 * 128 * 8 < 2^15.
#include <immintrin.h>

#include "kernels/gemm/half_quads_x86_avx2.h"
#include "kernels/gemm/real_tile_x86_avx2.h"
#include "kernels/gemm/requantize_x86_avx2.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kMaxRows = 6;
constexpr uint32_t kChunkQuads = 128;                                 // quads of k that are widened at a time
constexpr uint32_t kBlockRows = 6 * kMaxRows;                         // rows whose longest chunks fit a plane
constexpr uint32_t kSlack = 16;                                       // words between rows; copies run up to 15 over
constexpr uint32_t kPlane = kBlockRows * (kChunkQuads * 2 + kSlack);  // words from an even one to its odd neighbour
constexpr uint32_t kSumCols = 64;                                     // channels that are summed over several chunks
constexpr uint32_t kNearBytes = 16384;                                // of widened rows that stay near
constexpr uint32_t kMinTiles = 3;                                     // from which on a panel is widened for all of them

// Splits `n` bytes into words: bytes 0 2 4 .. to `to`, bytes 1 3 5 .. to the other plane.
LATHE_INLINE void widen_run(const uint8_t* from, uint32_t n, int16_t* to) {
  for (uint32_t i = 0; i < n; i += 32, to += 16) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_and_si256(v, _mm256_set1_epi16(0xff)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kPlane), _mm256_srli_epi16(v, 8));
  }
}

// One row of pixels of a call, with its segments in one sequence.
struct Run {
  const GemmGeometry* geo;
  const uint8_t* a;
  const uint8_t* residual;  // or null
  uint8_t* y;
  const int8_t* w;
  const int32_t* bias;
  const float* scale;
  uint32_t m, n, a_stride, y_stride, residual_stride;
  uint32_t segs, seg_k, quads;  // quads per segment
  size_t panel_bytes;
  bool contiguous;  // a panel's segments follow one another, none left out

  Run(const GemmS8Args& g)
      : geo(&g.geo),
        a(static_cast<const uint8_t*>(g.a)),
        residual(static_cast<const uint8_t*>(g.residual)),
        y(static_cast<uint8_t*>(g.y)),
        w(g.w),
        bias(g.bias),
        scale(g.scale),
        m(g.geo.cols),
        n(g.geo.n),
        a_stride(g.geo.a_col_step),
        y_stride(g.geo.y_col_step),
        residual_stride(g.geo.residual_col_step),
        segs(g.geo.seg_rows * g.geo.seg_cols),
        seg_k(g.geo.seg_k),
        quads((seg_k + kGemmQuad - 1) / kGemmQuad),
        panel_bytes(g.geo.w_panel_step),
        contiguous((g.geo.seg_cols <= 1 || g.geo.w_seg_col_step == quads * 64) &&
                   (g.geo.seg_rows <= 1 || g.geo.w_seg_row_step == g.geo.seg_cols * quads * 64)) {}
  void next_row() {
    a += geo->a_row_step;
    y += geo->y_row_step;
    if (residual != nullptr) residual += geo->residual_row_step;
  }
  ptrdiff_t a_at(uint32_t s) const {
    return static_cast<ptrdiff_t>(s / geo->seg_cols) * geo->a_seg_row_step +
           static_cast<ptrdiff_t>(s % geo->seg_cols) * geo->a_seg_col_step;
  }
  size_t w_at(uint32_t s) const {
    return static_cast<size_t>(s / geo->seg_cols) * geo->w_seg_row_step + s % geo->seg_cols * geo->w_seg_col_step;
  }
  // Calls fn(segment, its first quad, quads) for the pieces of quads [first, first + count) of the flat (segment, quad) order.
  template <class F>
  LATHE_INLINE void for_each_piece(uint32_t first, uint32_t count, const F& fn) const {
    for (uint32_t s = first / quads, q = first % quads, run; count > 0; ++s, q = 0, count -= run) {
      run = quads - q < count ? quads - q : count;
      fn(s, q, run);
    }
  }
};

// Widened rows of a block, even plane: row r of segment s starts at data + s * seg_step + r * row_step.
struct Wide {
  int16_t* data;
  uint32_t row_step, seg_step;
  uint32_t segs, quads;  // of this chunk; quads per segment
};

// Rows that overlap: per segment the one run of bytes that holds all of them.
void widen_overlapping(const Run& g, const uint8_t* a, uint32_t rows, const Wide& w) {
  const uint32_t run = (rows - 1) * g.a_stride + w.quads * kGemmQuad;
  for (uint32_t s = 0; s < w.segs; ++s) widen_run(a + g.a_at(s), run, w.data + static_cast<size_t>(s) * w.seg_step);
}

// Any rows: quads [first, first + w.quads) of the flat (segment, quad) order, row by row, as one segment.
void widen_flat(const Run& g, const uint8_t* a, uint32_t rows, uint32_t first, const Wide& w) {
  int16_t* row = w.data;
  for (uint32_t r = 0; r < rows; ++r, a += g.a_stride, row += w.row_step) {
    int16_t* to = row;
    g.for_each_piece(first, w.quads, [&](uint32_t seg, uint32_t q, uint32_t run) {
      widen_run(a + g.a_at(seg) + static_cast<ptrdiff_t>(q * kGemmQuad), run * kGemmQuad, to);
      to += run * 2;
    });
  }
}

// A panel's quads, or the first halves of them: even words, then odd words, 16 (8) channels each.
template <int kHalves>
void widen_weights(const int8_t* w, uint32_t quads, int16_t* to) {
  for (; quads > 0; --quads, w += 64, to += 32 * kHalves) {
    auto* v = reinterpret_cast<__m256i*>(to);
    LATHE_UNROLL
    for (int i = 0; i < kHalves; ++i) {
      _mm256_store_si256(v + i, half_quads<false>(w + 32 * i));
      _mm256_store_si256(v + kHalves + i, half_quads<true>(w + 32 * i));
    }
  }
}

// A panel, or its first half, over one chunk of k.
struct Tile {
  Wide wide;              // data: of the tile's first row
  const int8_t* w;        // packed
  const int16_t* wide_w;  // the same widened, or null
  const int32_t* bias;    // null: `sums` holds what earlier chunks left
  int32_t* sums;          // of this panel; rows are kSumCols apart
  bool last;              // finish instead of leaving sums
  bool straight;          // finish_straight will do
  bool whole;             // the chunk is all of k: `sums` is one tile's
  const Requantize* q;
  const float* scale;
  const uint8_t* residual;  // or null
  size_t residual_step;
  uint8_t* y;
  size_t y_step;
  uint32_t n;  // channels that exist, at most 16
};

// kRows x kHalves products of half quads; kOdd picks the plane.
template <int kRows, int kHalves, bool kOdd>
LATHE_INLINE void accumulate(const int16_t* a, size_t step, const __m256i* weights, __m256i* acc) {
  const int16_t* a3 = a + 3 * step;
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int16_t* at = r < 3 ? a + static_cast<size_t>(r) * step : a3 + static_cast<size_t>(r - 3) * step;
    int32_t pair;
    __builtin_memcpy(&pair, at + (kOdd ? kPlane : 0), sizeof(pair));
    const __m256i v = _mm256_set1_epi32(pair);
    LATHE_UNROLL
    for (int i = 0; i < kHalves; ++i) dot(acc[r * kHalves + i], v, weights[i]);
  }
}

template <int kRows, int kHalves>
LATHE_INLINE void accumulate_packed(const Tile& t, __m256i* acc) {
  const int8_t* w = t.w;
  for (uint32_t s = 0; s < t.wide.segs; ++s) {
    const int16_t* a = t.wide.data + static_cast<size_t>(s) * t.wide.seg_step;
    for (uint32_t k = t.wide.quads; k > 0; --k, w += 64, a += 2) {
      __m256i weights[kHalves];
      LATHE_UNROLL
      for (int i = 0; i < kHalves; ++i) weights[i] = half_quads<false>(w + 32 * i);
      accumulate<kRows, kHalves, false>(a, t.wide.row_step, weights, acc);
      LATHE_UNROLL
      for (int i = 0; i < kHalves; ++i) weights[i] = half_quads<true>(w + 32 * i);
      accumulate<kRows, kHalves, true>(a, t.wide.row_step, weights, acc);
    }
  }
}

template <int kRows, int kHalves>
LATHE_INLINE void accumulate_wide(const Tile& t, __m256i* acc) {
  const auto* w = reinterpret_cast<const __m256i*>(t.wide_w);
  for (uint32_t s = 0; s < t.wide.segs; ++s) {
    const int16_t* a = t.wide.data + static_cast<size_t>(s) * t.wide.seg_step;
    for (uint32_t k = t.wide.quads; k > 0; --k, w += 2 * kHalves, a += 2) {
      accumulate<kRows, kHalves, false>(a, t.wide.row_step, w, acc);
      accumulate<kRows, kHalves, true>(a, t.wide.row_step, w + kHalves, acc);
    }
  }
}

LATHE_INLINE __m256i* sums_at(const Tile& t, int row, int half) {
  return reinterpret_cast<__m256i*>(t.sums + row * static_cast<int>(kSumCols) + half * 8);
}

// Stores four packed vectors: two rows of 16 channels or four of 8. kFull: all channels exist.
template <int kHalves, bool kFull>
LATHE_INLINE void store_rows(const Tile& t, __m256i bytes, int first, int rows) {
  LATHE_UNROLL
  for (int i = 0; i < 4 / kHalves; ++i) {
    if (first + i >= rows) continue;
    uint8_t* y = t.y + static_cast<size_t>(first + i) * t.y_step;
    __m128i lane = i < 2 / kHalves ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1);
    if (kHalves == 1 && i % 2 == 1) lane = _mm_unpackhi_epi64(lane, lane);
    if (!kFull) {
      store_bytes16(y, lane, t.n);
    } else if (kHalves == 2) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), lane);
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(y), lane);
    }
  }
}

// The straight way: no residual, all channels, products_convert().
template <int kRows, int kHalves>
LATHE_INLINE void finish_straight(const Tile& t, const __m256i* sums) {
  const Requantize& q = *t.q;
  LATHE_UNROLL
  for (int r = 0; r < kRows; r += 4 / kHalves) {
    __m256i v[4];
    LATHE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int at = r * kHalves + i;
      v[i] = at < kRows * kHalves
                 ? _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(sums[at]), _mm256_load_ps(t.scale + i % kHalves * 8)))
                 : v[0];
    }
    store_rows<kHalves, true>(t, _mm256_min_epu8(pack_ordered(q, v[0], v[1], v[2], v[3]), q.hi_bytes), r, kRows);
  }
}

// Any other: sums come from memory.
template <int kHalves>
__attribute__((noinline)) void finish(const Tile& t, int rows) {
  const Requantize& q = *t.q;
  for (int r = 0; r < rows; r += 4 / kHalves) {
    __m256i v[4] = {};
    for (int i = 0; i < 4; ++i) {
      const int row = r + i / kHalves, half = i % kHalves;
      if (row >= rows) break;
      const uint8_t* residual =
          t.residual == nullptr ? nullptr : t.residual + static_cast<size_t>(row) * t.residual_step + 8 * half;
      v[i] = requantize8(q, _mm256_load_si256(sums_at(t, row, half)), _mm256_load_ps(t.scale + 8 * half), residual);
    }
    store_rows<kHalves, false>(t, pack_ordered(q, v[0], v[1], v[2], v[3]), r, rows);
  }
}

template <int kRows, int kHalves>
__attribute__((noinline)) void tile(const Tile& t) {
  __m256i acc[kRows * kHalves];
  LATHE_UNROLL
  for (int i = 0; i < kRows * kHalves; ++i) {
    const __m256i* from =
        t.bias != nullptr ? reinterpret_cast<const __m256i*>(t.bias) + i % kHalves : sums_at(t, i / kHalves, i % kHalves);
    acc[i] = _mm256_load_si256(from);
  }
  if (t.wide_w != nullptr) {
    accumulate_wide<kRows, kHalves>(t, acc);
  } else {
    accumulate_packed<kRows, kHalves>(t, acc);
  }
  if (t.straight) return finish_straight<kRows, kHalves>(t, acc);
  LATHE_UNROLL
  for (int i = 0; i < kRows * kHalves; ++i) _mm256_store_si256(sums_at(t, i / kHalves, i % kHalves), acc[i]);
  if (t.last) finish<kHalves>(t, kRows);
}

template <int kRows, int kHalves>
LATHE_INLINE void tile_of(uint32_t rows, const Tile& t) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return tile_of<kRows - 1, kHalves>(rows, t);
  }
  tile<kRows, kHalves>(t);
}

// What one call works with. Rows are split evenly: 8 rows are 4 + 4, not 6 + 2.
struct Work {
  const Run& g;
  Requantize q;
  uint32_t base, larger;  // rows of a tile; tiles with one more
  bool convert;           // products_convert()
  alignas(32) int32_t sums[kBlockRows * kSumCols];
  alignas(32) int16_t weights[kChunkQuads * 4 * kGemmPanel];
  alignas(32) int16_t planes[2 * kPlane];

  Work(const Run& args, const Requantize& requantize, uint32_t tiles)
      : g(args), q(requantize), base(args.m / tiles), larger(args.m % tiles), convert(products_convert(args.scale, args.n)) {}
  uint32_t first_row(uint32_t tile) const { return tile * base + (tile < larger ? tile : larger); }
};

// Tiles [first, end) of one panel, or of its first half, over one chunk of k. `t` is for the first tile.
template <int kHalves>
void panel_tiles(Work& work, Tile t, const int8_t* panel, uint32_t first_quad, uint32_t first, uint32_t end) {
  t.w = panel + static_cast<size_t>(first_quad) * 64;
  t.wide_w = nullptr;
  if (end - first >= kMinTiles || !work.g.contiguous) {
    int16_t* to = work.weights;
    work.g.for_each_piece(first_quad, t.wide.segs * t.wide.quads, [&](uint32_t seg, uint32_t q, uint32_t run) {
      widen_weights<kHalves>(panel + work.g.w_at(seg) + static_cast<size_t>(q) * 64, run, to);
      to += static_cast<size_t>(run) * 32 * kHalves;
    });
    t.wide_w = work.weights;
  }
  for (uint32_t i = first; i < end; ++i) {
    const uint32_t rows = work.base + (i < work.larger ? 1 : 0);
    tile_of<kMaxRows, kHalves>(rows, t);
    t.wide.data += static_cast<size_t>(rows) * t.wide.row_step;
    t.y += rows * t.y_step;
    if (t.residual != nullptr) t.residual += rows * t.residual_step;
    if (!t.whole) t.sums += static_cast<size_t>(rows) * kSumCols;
  }
}

struct QuadChunk {
  uint32_t first_quad;
  bool last;
};

// Tiles [first, end), channels [c, end_c): one chunk of k, rows of which are widened already.
void chunk_tiles(Work& work, const Wide& wide, QuadChunk chunk, uint32_t first, uint32_t end, uint32_t c, uint32_t end_c) {
  const Run& g = work.g;
  const size_t row = work.first_row(first);
  const uint8_t* residual = g.residual;
  Tile t;
  t.wide = wide;
  t.last = chunk.last;
  t.whole = chunk.last && chunk.first_quad == 0;
  t.q = &work.q;
  t.residual_step = g.residual_stride;
  t.y_step = g.y_stride;
  for (; c < end_c; c += kGemmPanel) {
    const int8_t* panel = g.w + c / kGemmPanel * g.panel_bytes;
    t.bias = chunk.first_quad == 0 ? g.bias + c : nullptr;
    t.sums = work.sums + c % kSumCols;
    t.scale = g.scale + c;
    t.residual = residual == nullptr ? nullptr : residual + row * g.residual_stride + c;
    t.y = g.y + row * g.y_stride + c;
    t.n = end_c - c < kGemmPanel ? end_c - c : kGemmPanel;
    t.straight = t.last && residual == nullptr && work.convert && t.n % 8 == 0;
    if (t.n > 8) {
      panel_tiles<2>(work, t, panel, chunk.first_quad, first, end);
    } else {
      panel_tiles<1>(work, t, panel, chunk.first_quad, first, end);
    }
  }
}

// How planes hold `rows` rows that overlap; 0 segments if they cannot.
Wide overlapping_form(const Run& g, uint32_t rows, int16_t* planes) {
  const uint32_t quads = g.quads;
  const uint64_t words = (static_cast<uint64_t>(rows - 1) * g.a_stride + static_cast<uint64_t>(quads) * kGemmQuad) / 2 + kSlack;
  // A row that starts on an odd byte would have its planes swapped. Weights have to fit as well.
  const bool fits = g.a_stride < g.seg_k && g.a_stride % 2 == 0 && words * g.segs <= kPlane && g.segs * quads <= kChunkQuads;
  return {planes, g.a_stride / 2, static_cast<uint32_t>(words), fits ? g.segs : 0, quads};
}

// Tiles [first, end), as block_tiles() says.
void block(Work& work, uint32_t first, uint32_t end) {
  const Run& g = work.g;
  const uint32_t row = work.first_row(first), rows = work.first_row(end) - row;
  const uint32_t all_quads = g.segs * g.quads;
  const uint8_t* a = g.a + static_cast<size_t>(row) * g.a_stride;
  const Wide overlapping = overlapping_form(g, rows, work.planes);
  if (overlapping.segs != 0) {
    widen_overlapping(g, a, rows, overlapping);
    return chunk_tiles(work, overlapping, {0, true}, first, end, 0, g.n);
  }
  const uint32_t most = all_quads < kChunkQuads ? all_quads : kChunkQuads, cols = all_quads <= kChunkQuads ? g.n : kSumCols;
  for (uint32_t c = 0; c < g.n; c += cols) {
    const uint32_t end_c = g.n - c < cols ? g.n : c + cols;
    for (uint32_t quad = 0, end_quad;; quad = end_quad) {
      end_quad = all_quads - quad < most ? all_quads : quad + most;
      const Wide wide{work.planes, most * 2 + kSlack, 0, 1, end_quad - quad};
      widen_flat(g, a, rows, quad, wide);
      chunk_tiles(work, wide, {quad, end_quad == all_quads}, first, end, c, end_c);
      if (end_quad == all_quads) break;
    }
  }
}

// Adds up to 8 quads of k of one row: w has kVectors vectors of 8 channels, every two of them in the next panel.
template <int kVectors>
LATHE_INLINE void nibble_sums(const uint8_t* a, uint32_t quads, const int8_t* w, size_t panel_bytes, __m256i* acc) {
  const __m256i mask = _mm256_set1_epi8(0x0f);
  __m256i high[kVectors], low[kVectors];
  LATHE_UNROLL
  for (int i = 0; i < kVectors; ++i) high[i] = low[i] = _mm256_setzero_si256();
  for (; quads > 0; --quads, a += 4, w += 64) {
    int32_t quad;
    __builtin_memcpy(&quad, a, sizeof(quad));
    const __m256i v = _mm256_set1_epi32(quad);
    const __m256i v_low = _mm256_and_si256(v, mask), v_high = _mm256_and_si256(_mm256_srli_epi16(v, 4), mask);
    LATHE_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const __m256i weights = _mm256_load_si256(reinterpret_cast<const __m256i*>(w + i / 2 * panel_bytes + 32 * (i % 2)));
      high[i] = _mm256_add_epi16(high[i], _mm256_maddubs_epi16(v_high, weights));
      low[i] = _mm256_add_epi16(low[i], _mm256_maddubs_epi16(v_low, weights));
    }
  }
  LATHE_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(high[i], _mm256_set1_epi16(16)));
    acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(low[i], _mm256_set1_epi16(1)));
  }
}

// One row, channels [c, c + n), in kVectors vectors of 8.
template <int kVectors>
__attribute__((noinline)) void one_row(const Run& g, const Requantize& q, uint32_t c, uint32_t n) {
  const int8_t* panel = g.w + c / kGemmPanel * g.panel_bytes;
  __m256i acc[kVectors];
  LATHE_UNROLL
  for (int i = 0; i < kVectors; ++i) acc[i] = _mm256_load_si256(reinterpret_cast<const __m256i*>(g.bias + c + 8 * i));
  for (uint32_t s = 0; s < g.segs; ++s) {
    const uint8_t* a = g.a + g.a_at(s);
    const int8_t* w = panel + g.w_at(s);
    for (uint32_t k = 0, run; k < g.quads; k += run, w += 64 * run) {
      run = g.quads - k < 8 ? g.quads - k : 8;
      nibble_sums<kVectors>(a + 4 * k, run, w, g.panel_bytes, acc);
    }
  }
  const uint8_t* residual = g.residual == nullptr ? nullptr : g.residual + c;
  __m256i v[4];
  LATHE_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = i < kVectors
               ? requantize8(q, acc[i], _mm256_load_ps(g.scale + c + 8 * i), residual == nullptr ? nullptr : residual + 8 * i)
               : v[0];
  }
  store_bytes(g.y + c, pack_ordered(q, v[0], v[1], v[2], v[3]), n);
}

// Tiles of a block: more of them where k is short, because a panel is widened once per block.
uint32_t block_tiles(const Run& g) {
  const uint32_t quads = g.segs * g.quads, least = kBlockRows / kMaxRows;
  if (quads > kChunkQuads || g.a_stride < g.seg_k) return least;
  const uint32_t fit = kNearBytes / ((2 * quads + kSlack) * 4) / kMaxRows;
  return fit > least ? fit : least;
}

// All of one row of pixels.
void gemm_run(const Run& g, const Requantize& q) {
  if (g.m == 1) {
    for (uint32_t c = 0; c < g.n; c += 32) {
      if (g.n - c > kGemmPanel) {
        one_row<4>(g, q, c, g.n - c < 32 ? g.n - c : 32);
      } else {
        one_row<2>(g, q, c, g.n - c);
      }
    }
    return;
  }
  const uint32_t tiles = (g.m + kMaxRows - 1) / kMaxRows, most = block_tiles(g);
  Work work(g, q, tiles);
  for (uint32_t t = 0; t < tiles; t += most) block(work, t, tiles - t < most ? tiles : t + most);
}

}  // namespace

void gemm_u8s8s32_6x16x4_x86_avx2(const GemmS8Args& g) {
  if (g.geo.cols == 0) return;
  const Requantize q = make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero);
  Run run(g);
  for (uint32_t i = 0; i < g.geo.rows; ++i, run.next_row()) gemm_run(run, q);
}

void gemm_f32_6x16_x86_avx2(const GemmF32Args& g) { real_gemm<Avx2>(g); }
void gemm_f16_6x16_x86_avx2(const GemmF16Args& g) { real_gemm<Avx2>(g); }

}  // namespace lathe::kernels
