// 8-bit depthwise convolution on AVX512-VNNI, u8 storage.
//
// A vector has four 128-bit lanes of 16 channels. A block of channels takes 4, 2 or 1 panels; the lanes that narrow blocks leave
// free take further output rows, so that 16 channels are as fast as 64. Up to four input rows of one column are interleaved byte
// by byte into quads (unpack works within lanes: register j gets channels 4 j .. 4 j + 3 of every lane), which one vpdpbusd
// multiplies with the weights of that column. Three ways, the fastest that fits:
//
//   pair_rows     3x3, stride 1: four input rows in a quad serve two output rows, whose weights are (w0 w1 w2 0) and (0 w0 w1 w2)
//   sliding_rows  3 columns, stride 1 or 2 (dilations): columns are kept while the window slides over them
//   any_rows      any kernel
//
// The first two rely on bounded multipliers (requantize_x86_avx512.h).
#include <immintrin.h>

#include "kernels/dwconv/rows.h"
#include "kernels/gemm/requantize_x86_avx512.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredQuads = 32;  // (column, quad) pairs whose weights are arranged once per block
constexpr uint32_t kStoredRows = 16;   // kernel rows whose input rows are looked up once per output row
constexpr uint32_t kChunk = 32;        // output columns whose first halves wait for the second ones

LATHE_INLINE void dot(__m512i& acc, __m512i a, __m512i w) { asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(w)); }

LATHE_INLINE __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

LATHE_INLINE __m512i join(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(a), b, 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(low, c, 2), d, 3);
}

// How a lane finds its 16 channels: kPlain, they are a run of the input; kExpand, every input channel stands for `multiplier` of
// them.
enum class Channels { kPlain, kExpand };

// A block: kPanels panels of kLanes = 4 / kPanels output rows.
struct Block {
  const DwConvS8Args* d;
  Requantize q;
  uint32_t c, n;          // channels [c, c + n) of the call
  uint32_t quads, pairs;  // quads of a column; (column, quad) pairs of a panel
  uint32_t panels;        // that exist: weights of others are not read
  bool bounded;           // all multipliers are
  uint32_t first[4];      // kExpand: input channel of a panel's first channel
  __m512i expand;         // kExpand: for every byte of a lane its place after `first`
  __m512i bias[4];
  __m512 scale[4];
  __m512i weights[kStoredQuads][4];
};

// Register j of 64-byte records, one per panel `stride` bytes apart, as lanes: lane l is dwords 4 j .. of panel l % kPanels.
template <int kPanels>
LATHE_INLINE __m512i arrange(const void* first, size_t stride, uint32_t panels, int j) {
  __m128i lane[4];
  LATHE_UNROLL
  for (uint32_t l = 0; l < 4; ++l) {
    const uint32_t panel = l % kPanels;
    lane[l] = panel < panels ? load16(static_cast<const char*>(first) + panel * stride + 16 * j) : _mm_setzero_si128();
  }
  return join(lane[0], lane[1], lane[2], lane[3]);
}

template <int kPanels>
LATHE_INLINE __m512i weights_of(const Block& b, uint32_t pair, int j) {
  const size_t panel_bytes = static_cast<size_t>(b.pairs) * 64;
  return arrange<kPanels>(b.d->w + b.c / 16 * panel_bytes + static_cast<size_t>(pair) * 64, panel_bytes, b.panels, j);
}

template <int kPanels>
void prepare(Block* b) {
  b->bounded = true;
  for (int j = 0; j < 4; ++j) {
    b->bias[j] = arrange<kPanels>(b->d->bias + b->c, 64, b->panels, j);
    b->scale[j] = _mm512_castsi512_ps(arrange<kPanels>(b->d->scale + b->c, 64, b->panels, j));
    b->bounded = b->bounded && is_bounded(b->scale[j], b->d->residual == nullptr ? 0 : b->d->residual_scale);
    for (uint32_t pair = 0; pair < b->pairs && pair < kStoredQuads; ++pair)
      b->weights[pair][j] = weights_of<kPanels>(*b, pair, j);
  }
  if (b->d->multiplier == 1) return;
  alignas(64) uint8_t place[64];
  for (uint32_t l = 0; l < 4; ++l) {
    const uint32_t panel = l % kPanels < b->panels ? l % kPanels : 0, c = b->c + 16 * panel;
    b->first[l] = c / b->d->multiplier;
    for (uint32_t i = 0; i < 16; ++i) place[16 * l + i] = static_cast<uint8_t>((c + i) / b->d->multiplier - b->first[l]);
  }
  b->expand = _mm512_load_si512(place);
}

// One vector of bytes: 16 kPanels channels of each of the 4 / kPanels rows. `row` points to the block's first channel (kExpand:
// to the input's).
template <int kPanels, Channels kChannels = Channels::kPlain>
LATHE_INLINE __m512i load_lanes(const Block& b, const uint8_t* const* row, size_t at) {
  if constexpr (kChannels == Channels::kExpand) {
    __m128i lane[4];
    LATHE_UNROLL
    for (uint32_t l = 0; l < 4; ++l) lane[l] = load16(row[l / kPanels] + at + b.first[l]);
    return _mm512_shuffle_epi8(join(lane[0], lane[1], lane[2], lane[3]), b.expand);
  } else if constexpr (kPanels == 4) {
    return _mm512_loadu_si512(row[0] + at);
  } else if constexpr (kPanels == 2) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row[0] + at))),
                              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row[1] + at)), 1);
  } else {
    return join(load16(row[0] + at), load16(row[1] + at), load16(row[2] + at), load16(row[3] + at));
  }
}

struct Column {
  __m512i v[4];
};

// Half a column: registers 2 kHalf and 2 kHalf + 1.
struct HalfColumn {
  __m512i v[2];
};

template <int kHalf>
LATHE_INLINE HalfColumn interleave_half(__m512i r0, __m512i r1, __m512i r2, __m512i r3) {
  const __m512i t = kHalf == 0 ? _mm512_unpacklo_epi8(r0, r1) : _mm512_unpackhi_epi8(r0, r1);
  const __m512i u = kHalf == 0 ? _mm512_unpacklo_epi8(r2, r3) : _mm512_unpackhi_epi8(r2, r3);
  return {{_mm512_unpacklo_epi16(t, u), _mm512_unpackhi_epi16(t, u)}};
}

LATHE_INLINE Column interleave(__m512i r0, __m512i r1, __m512i r2, __m512i r3) {
  const HalfColumn a = interleave_half<0>(r0, r1, r2, r3), b = interleave_half<1>(r0, r1, r2, r3);
  return {{a.v[0], a.v[1], b.v[0], b.v[1]}};
}

// The rows of one group of lanes. Output rows that are not there repeat the last one.
struct Rows {
  uint32_t i, count;  // output rows [i, i + count)
  const uint8_t* residual[4];
  uint8_t* y;
};

// Input rows under kernel row p.
template <Channels kChannels>
LATHE_INLINE void find_rows(const Block& b, const Rows& rows, uint32_t p, uint32_t lanes, const uint8_t** a) {
  const uint32_t row = p < b.d->in.kh ? p : b.d->in.kh - 1;  // rows past the kernel repeat its last one: their weights are zero
  for (uint32_t l = 0; l < lanes; ++l) {
    const uint32_t i = l < rows.count ? l : rows.count - 1;
    a[l] = input_row<uint8_t>(b.d->in, rows.i + i, row) + (kChannels == Channels::kPlain ? b.c : 0);
  }
}

// Stores the lanes of the first `rows` rows.
template <int kPanels>
LATHE_INLINE void store_lanes(const Block& b, uint8_t* y, size_t row_step, uint32_t rows, __m512i v) {
  constexpr uint32_t kBytes = 16 * kPanels;
  const __mmask64 all = kPanels == 4 ? ~0ull : (1ull << (kBytes % 64)) - 1;
  const bool whole = b.n >= kBytes;
  const __mmask64 mask = whole ? all : (1ull << b.n) - 1;
  LATHE_UNROLL
  for (uint32_t r = 0; r < 4 / kPanels; ++r) {
    if (r >= rows) return;
    uint8_t* to = y + r * row_step;
    if constexpr (kPanels == 4) {
      if (whole)
        _mm512_storeu_si512(to, v);
      else
        _mm512_mask_storeu_epi8(to, mask, v);
    } else if constexpr (kPanels == 2) {
      const __m256i half = r == 0 ? _mm512_castsi512_si256(v) : _mm512_extracti64x4_epi64(v, 1);
      if (whole)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
      else
        _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), half);
    } else {
      const __m128i lane = r == 0   ? _mm512_castsi512_si128(v)
                           : r == 1 ? _mm512_extracti32x4_epi32(v, 1)
                           : r == 2 ? _mm512_extracti32x4_epi32(v, 2)
                                    : _mm512_extracti32x4_epi32(v, 3);
      if (whole)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), lane);
      else
        _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), lane);
    }
  }
}

// Adds the residual of one pixel of every row: its bytes 4 j .. 4 j + 3 of a lane belong to register j.
template <int kPanels>
LATHE_INLINE void add_residual(const Block& b, const Requantize& q, const uint8_t* const* residual, size_t at, __m512* v) {
  const __m512i bytes = load_lanes<kPanels>(b, residual, at);
  LATHE_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int32_t first = static_cast<int32_t>(0x80808000u) + 4 * j;
    const __m512i order = _mm512_set4_epi32(first + 3, first + 2, first + 1, first);
    const __m512i r = _mm512_sub_epi32(_mm512_shuffle_epi8(bytes, order), q.residual_zero);
    v[j] = _mm512_add_ps(v[j], _mm512_mul_ps(_mm512_cvtepi32_ps(r), q.residual_scale));
  }
}

// Any kernel.
template <int kPanels, Channels kChannels>
void any_rows(const Block& b, const Rows& rows) {
  const auto& in = b.d->in;
  const uint8_t* const padding = static_cast<const uint8_t*>(in.pad_row) + (kChannels == Channels::kPlain ? b.c : 0);
  const uint8_t* const pad[4] = {padding, padding, padding, padding};
  const uint8_t* known[kStoredRows][4];
  for (uint32_t p = 0; p < kStoredRows; ++p) find_rows<kChannels>(b, rows, p, 4 / kPanels, known[p]);
  for (uint32_t x = 0; x < b.d->cols; ++x) {
    __m512i acc[4] = {b.bias[0], b.bias[1], b.bias[2], b.bias[3]};
    for (uint32_t s = 0, pair = 0; s < in.kw; ++s) {
      const int32_t column = in.col0 + static_cast<int32_t>(x * in.stride_w + s * in.dilation_w);
      const bool inside = has_column(in, column);
      const size_t at = inside ? static_cast<size_t>(column) * in.col_step : 0;
      for (uint32_t quad = 0; quad < b.quads; ++quad, ++pair) {
        __m512i r[4];
        LATHE_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t p = quad * 4 + i;
          const uint8_t* found[4];
          if (inside && p >= kStoredRows) find_rows<kChannels>(b, rows, p, 4 / kPanels, found);
          r[i] = load_lanes<kPanels, kChannels>(b, !inside ? pad : p < kStoredRows ? known[p] : found, at);
        }
        const Column c = interleave(r[0], r[1], r[2], r[3]);
        LATHE_UNROLL
        for (int j = 0; j < 4; ++j)
          dot(acc[j], c.v[j], pair < kStoredQuads ? b.weights[pair][j] : weights_of<kPanels>(b, pair, j));
      }
    }
    __m512 v[4];
    LATHE_UNROLL
    for (int j = 0; j < 4; ++j) v[j] = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[j]), b.scale[j]);
    if (rows.residual[0] != nullptr)
      add_residual<kPanels>(b, b.q, rows.residual, static_cast<size_t>(x) * b.d->residual_col_step, v);
    store_lanes<kPanels>(b, rows.y + static_cast<size_t>(x) * b.d->y_col_step, b.d->y_row_step, rows.count,
                         pack_lanes(b.q, round_scaled(b.q, v[0]), round_scaled(b.q, v[1]), round_scaled(b.q, v[2]),
                                    round_scaled(b.q, v[3])));
  }
}

// Input rows of a window, one dilation apart: those of lane l start kStep * l rows below the first.
template <int kPanels, int kStep, Channels kChannels>
struct LaneRows {
  static constexpr uint32_t kLanes = 4 / kPanels;
  const Block& b;
  const uint8_t *row[kLanes * kStep + 2], *pad[4];

  LATHE_INLINE LaneRows(const Block& block, const Rows& rows) : b(block) {
    const auto& in = b.d->in;
    const uint32_t c = kChannels == Channels::kPlain ? b.c : 0;
    for (uint32_t k = 0; k < kLanes * kStep + 2; ++k) row[k] = input_row<uint8_t>(in, rows.i, k) + c;
    for (auto& p : pad) p = static_cast<const uint8_t*>(in.pad_row) + c;
  }

  // Row p of every lane.
  LATHE_INLINE __m512i at(uint32_t p, size_t offset) const {
    const uint8_t* a[4];
    LATHE_UNROLL
    for (uint32_t l = 0; l < kLanes; ++l) a[l] = row[kStep * l + p];
    return load_lanes<kPanels, kChannels>(b, a, offset);
  }

  // at(p + kStep), given at(p): all but one of its rows.
  LATHE_INLINE __m512i next(uint32_t p, size_t offset, __m512i before) const {
    const uint8_t* last = row[kStep * kLanes + p] + offset;
    if constexpr (kChannels == Channels::kExpand) {
      return at(p + kStep, offset);
    } else if constexpr (kPanels == 4) {
      return _mm512_loadu_si512(last);
    } else if constexpr (kPanels == 2) {
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(last));
      return _mm512_alignr_epi64(_mm512_castsi256_si512(high), before, 4);
    } else {
      return _mm512_alignr_epi64(_mm512_castsi128_si512(load16(last)), before, 2);
    }
  }

  LATHE_INLINE __m512i padding() const { return load_lanes<kPanels, kChannels>(b, pad, 0); }
};

// A window of 3 columns and at most 3 rows that moves by kStep of both. Columns, weights and constants are locals of the loops:
// what shares an object with the pointers, or might alias the output, would be read from memory for every pixel.
template <int kPanels, int kStep, Channels kChannels, bool kResidual>
struct Window {
  const Block& b;
  const Rows& rows;
  const LaneRows<kPanels, kStep, kChannels> input;

  LATHE_INLINE Window(const Block& block, const Rows& r) : b(block), rows(r), input(block, r) {}

  // Column s; kLook: it may be outside of the image.
  template <bool kLook>
  LATHE_INLINE Column column(int32_t s) const {
    if (kLook && !has_column(b.d->in, s)) {
      const __m512i v = input.padding();
      return interleave(v, v, v, v);
    }
    const size_t at = static_cast<size_t>(s) * b.d->in.col_step;
    const __m512i r0 = input.at(0, at), r1 = kStep == 1 ? input.next(0, at, r0) : input.at(1, at);
    const __m512i r2 = input.next(2 - kStep, at, kStep == 1 ? r1 : r0);
    return interleave(r0, r1, r2, r2);
  }

  // Output pixel x.
  LATHE_INLINE void pixel(const Requantize& q, const Column* weights, const Column& left, const Column& middle,
                          const Column& right, size_t x) const {
    __m512 v[4];
    LATHE_UNROLL
    for (int j = 0; j < 4; ++j) {
      __m512i acc = b.bias[j];
      dot(acc, left.v[j], weights[0].v[j]);
      dot(acc, middle.v[j], weights[1].v[j]);
      dot(acc, right.v[j], weights[2].v[j]);
      v[j] = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), b.scale[j]);
    }
    if (kResidual) add_residual<kPanels>(b, q, rows.residual, x * b.d->residual_col_step, v);
    store_lanes<kPanels>(b, rows.y + x * b.d->y_col_step, b.d->y_row_step, rows.count,
                         pack_lanes(q, _mm512_cvtps_epi32(v[0]), _mm512_cvtps_epi32(v[1]), _mm512_cvtps_epi32(v[2]),
                                    _mm512_cvtps_epi32(v[3])));
  }
};

// Windows that move by kStep of their columns. Where no column needs a look, three (kStep 2: two) pixels take turns in which
// variable is which column of the window.
template <int kPanels, int kStep, Channels kChannels, bool kResidual>
void sliding_rows(const Block& b, const Rows& rows) {
  const auto& in = b.d->in;
  const Window<kPanels, kStep, kChannels, kResidual> w(b, rows);
  const Requantize q = b.q;
  Column weights[3];
  LATHE_UNROLL
  for (int i = 0; i < 12; ++i) weights[i / 4].v[i % 4] = b.weights[i / 4][i % 4];
  const Interior inside = interior(in, b.d->cols, kStep);
  const int32_t step = static_cast<int32_t>(in.dilation_w);
  int32_t at = in.col0;  // column of pixel x's left
  Column left = w.template column<true>(at), middle{}, right;
  if (kStep == 1) middle = w.template column<true>(at + step);
  const auto look = [&](uint32_t x) __attribute__((always_inline)) {
    if (kStep == 2) middle = w.template column<true>(at + step);
    right = w.template column<true>(at + 2 * step);
    w.pixel(q, weights, left, middle, right, x);
    left = kStep == 1 ? middle : right;
    middle = right;
    at += kStep * step;
  };
  uint32_t x = 0;
  for (; x < inside.first; ++x) look(x);
  for (; kStep == 1 && x + 3 <= inside.last; x += 3, at += 3 * step) {
    right = w.template column<false>(at + 2 * step);
    w.pixel(q, weights, left, middle, right, x);
    left = w.template column<false>(at + 3 * step);
    w.pixel(q, weights, middle, right, left, x + 1);
    middle = w.template column<false>(at + 4 * step);
    w.pixel(q, weights, right, left, middle, x + 2);
  }
  for (; kStep == 2 && x + 2 <= inside.last; x += 2, at += 4 * step) {
    middle = w.template column<false>(at + step);
    right = w.template column<false>(at + 2 * step);
    w.pixel(q, weights, left, middle, right, x);
    middle = w.template column<false>(at + 3 * step);
    left = w.template column<false>(at + 4 * step);
    w.pixel(q, weights, right, middle, left, x + 1);
  }
  for (; x < b.d->cols; ++x) look(x);
}

template <int kPanels, Channels kChannels, bool kResidual>
void window_rows(const Block& b, const Rows& rows) {
  if (b.d->in.stride_w == b.d->in.dilation_w) {
    sliding_rows<kPanels, 1, kChannels, kResidual>(b, rows);
  } else {
    sliding_rows<kPanels, 2, kChannels, kResidual>(b, rows);
  }
}

// A 3x3 window at stride 1 whose quads hold four input rows and serve two output rows. kHalf: one half of the registers, so that
// columns, weights and constants of both output rows stay in registers; the first half's results wait in 16 bits.
template <int kPanels, int kHalf>
struct PairWindow {
  const Block& b;
  const Rows& rows;
  const LaneRows<kPanels, 2, Channels::kPlain> input;

  LATHE_INLINE PairWindow(const Block& block, const Rows& r) : b(block), rows(r), input(block, r) {}

  template <bool kLook>
  LATHE_INLINE HalfColumn column(int32_t s) const {
    if (kLook && !has_column(b.d->in, s)) {
      const __m512i v = input.padding();
      return interleave_half<kHalf>(v, v, v, v);
    }
    const size_t at = static_cast<size_t>(s) * b.d->in.col_step;
    const __m512i r0 = input.at(0, at), r1 = input.at(1, at);
    return interleave_half<kHalf>(r0, r1, input.next(0, at, r0), input.next(1, at, r1));
  }
};

// What pair_half keeps in registers: weights of the two output rows, and constants.
struct PairConstants {
  HalfColumn weights[2][3];
  __m512i bias[2];
  __m512 scale[2];
  Requantize q;
};

// Output pixel x of both rows; `words`: its first halves.
template <int kPanels, int kHalf>
LATHE_INLINE void pair_pixel(const PairWindow<kPanels, kHalf>& w, const PairConstants& k, const HalfColumn& left,
                             const HalfColumn& middle, const HalfColumn& right, size_t x, __m512i* words) {
  LATHE_UNROLL
  for (uint32_t r = 0; r < 2; ++r) {
    __m512i v[2];
    LATHE_UNROLL
    for (int j = 0; j < 2; ++j) {
      __m512i acc = k.bias[j];
      dot(acc, left.v[j], k.weights[r][0].v[j]);
      dot(acc, middle.v[j], k.weights[r][1].v[j]);
      dot(acc, right.v[j], k.weights[r][2].v[j]);
      v[j] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(acc), k.scale[j]));
    }
    const __m512i packed = pack_words(k.q, v[0], v[1]);
    if (kHalf == 0) {
      words[r] = packed;
    } else {
      // Lane l has output row 2 l + r of the group.
      const size_t row_step = w.b.d->y_row_step;
      store_lanes<kPanels>(w.b, w.rows.y + r * row_step + x * w.b.d->y_col_step, 2 * row_step, (w.rows.count + 1 - r) / 2,
                           pack_bytes(k.q, words[r], packed));
    }
  }
}

// Output columns [x, end) of a pair of rows.
template <int kPanels, int kHalf>
LATHE_INLINE void pair_half(const PairWindow<kPanels, kHalf>& w, const Interior& inside, uint32_t x, uint32_t end,
                            __m512i (*words)[2]) {
  const Block& b = w.b;
  PairConstants k;
  LATHE_UNROLL
  for (int i = 0; i < 6; ++i) {
    const __m512i weights = b.weights[i / 2][2 * kHalf + i % 2];
    k.weights[0][i / 2].v[i % 2] = weights;
    k.weights[1][i / 2].v[i % 2] = _mm512_slli_epi32(weights, 8);
  }
  LATHE_UNROLL
  for (int j = 0; j < 2; ++j) k.bias[j] = b.bias[2 * kHalf + j], k.scale[j] = b.scale[2 * kHalf + j];
  k.q = b.q;
  const int32_t step = static_cast<int32_t>(b.d->in.dilation_w);
  int32_t at = b.d->in.col0 + static_cast<int32_t>(x) * step;  // column of pixel x's left
  HalfColumn left = w.template column<true>(at), middle = w.template column<true>(at + step), right;
  const uint32_t last = inside.last < end ? inside.last : end;
  for (; x < end; ++x, at += step, ++words) {
    for (; x >= inside.first && x + 3 <= last; x += 3, at += 3 * step, words += 3) {
      right = w.template column<false>(at + 2 * step);
      pair_pixel(w, k, left, middle, right, x, words[0]);
      left = w.template column<false>(at + 3 * step);
      pair_pixel(w, k, middle, right, left, x + 1, words[1]);
      middle = w.template column<false>(at + 4 * step);
      pair_pixel(w, k, right, left, middle, x + 2, words[2]);
    }
    if (x == end) break;
    right = w.template column<true>(at + 2 * step);
    pair_pixel(w, k, left, middle, right, x, *words);
    left = middle;
    middle = right;
  }
}

template <int kPanels>
void pair_rows(const Block& b, const Rows& rows) {
  __m512i words[kChunk][2];
  const Interior inside = interior(b.d->in, b.d->cols, 1);
  const uint32_t chunks = (b.d->cols + kChunk - 1) / kChunk, most = (b.d->cols + chunks - 1) / chunks;
  for (uint32_t x = 0; x < b.d->cols; x += most) {
    const uint32_t end = b.d->cols - x < most ? b.d->cols : x + most;
    pair_half(PairWindow<kPanels, 0>(b, rows), inside, x, end, words);
    pair_half(PairWindow<kPanels, 1>(b, rows), inside, x, end, words);
  }
}

template <int kPanels>
Rows rows_at(const Block& b, uint32_t i, uint32_t most) {
  const DwConvS8Args& d = *b.d;
  Rows rows{};
  rows.i = i;
  rows.count = d.rows - i < most ? d.rows - i : most;
  rows.y = static_cast<uint8_t*>(d.y) + static_cast<size_t>(i) * d.y_row_step + b.c;
  for (uint32_t l = 0; l < 4 / kPanels && d.residual != nullptr; ++l) {
    const size_t r = i + (l < rows.count ? l : rows.count - 1);
    rows.residual[l] = static_cast<const uint8_t*>(d.residual) + r * d.residual_row_step + b.c;
  }
  return rows;
}

template <int kPanels>
void block_rows(Block& b) {
  const DwConvS8Args& d = *b.d;
  constexpr uint32_t kLanes = 4 / kPanels;
  prepare<kPanels>(&b);
  const bool expand = d.multiplier != 1, residual = d.residual != nullptr, plain = !expand && !residual;
  const uint32_t step = d.in.stride_w / d.in.dilation_w;
  const bool slides = d.in.kw == 3 && d.in.kh <= 3 && b.bounded && !(expand && residual) && (step == 1 || step == 2) &&
                      d.in.stride_w == step * d.in.dilation_w && d.in.stride_h == step * d.in.dilation_h;
  const bool pairs = slides && plain && d.in.kh == 3 && step == 1;
  for (uint32_t i = 0; i < d.rows;) {
    if (pairs && d.rows - i > kLanes) {
      pair_rows<kPanels>(b, rows_at<kPanels>(b, i, 2 * kLanes));
      i += 2 * kLanes;
      continue;
    }
    const Rows rows = rows_at<kPanels>(b, i, kLanes);
    i += kLanes;
    if (slides && expand) {
      window_rows<kPanels, Channels::kExpand, false>(b, rows);
    } else if (slides && residual) {
      window_rows<kPanels, Channels::kPlain, true>(b, rows);
    } else if (slides) {
      window_rows<kPanels, Channels::kPlain, false>(b, rows);
    } else if (expand) {
      any_rows<kPanels, Channels::kExpand>(b, rows);
    } else {
      any_rows<kPanels, Channels::kPlain>(b, rows);
    }
  }
}

}  // namespace

void dwconv_u8s8s32_64_x86_avx512vnni(const DwConvS8Args& d) {
  Block b;
  b.d = &d;
  b.q = make_requantize(d.zero_point, d.lo, d.hi, d.residual_scale, d.residual_zero);
  b.quads = (d.in.kh + kGemmQuad - 1) / kGemmQuad;
  b.pairs = d.in.kw * b.quads;
  for (b.c = 0; b.c < d.n;) {
    b.n = d.n - b.c;
    b.panels = (b.n + 15) / 16;
    if (b.n > 32) {
      block_rows<4>(b);
      b.c += 64;
    } else if (b.n > 16) {
      block_rows<2>(b);
      b.c += 32;
    } else {
      block_rows<1>(b);
      b.c += 16;
    }
  }
}

}  // namespace lathe::kernels
