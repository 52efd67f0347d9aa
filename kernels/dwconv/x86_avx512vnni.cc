// 8-bit depthwise convolution on AVX512-VNNI, u8 storage.
//
// A vector has four 128-bit lanes of 16 channels. A block of channels takes 4, 2 or 1 panels; the lanes that narrow blocks leave
// free take further output rows, so that 16 channels are as fast as 64. Up to four kernel rows of one column are interleaved byte
// by byte into quads (unpack works within lanes: register j gets channels 4 j .. 4 j + 3 of every lane), which one vpdpbusd
// multiplies with the weights of that column. Columns are kept while the window slides over them.
#include <immintrin.h>

#include "kernels/dwconv/rows.h"
#include "kernels/gemm/requantize_x86_avx512.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredQuads = 32;  // (column, quad) pairs whose weights are arranged once per block
constexpr uint32_t kStoredRows = 16;   // kernel rows whose input rows are looked up once per output row

LATHE_INLINE void dot(__m512i& acc, __m512i a, __m512i w) { asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(w)); }

LATHE_INLINE __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

LATHE_INLINE __m512i join(__m128i a, __m128i b, __m128i c, __m128i d) {
  const __m512i low = _mm512_inserti32x4(_mm512_castsi128_si512(a), b, 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(low, c, 2), d, 3);
}

// A block: kPanels panels of kLanes = 4 / kPanels output rows.
struct Block {
  const DwConvS8Args* d;
  Requantize q;
  uint32_t c, n;          // channels [c, c + n) of the call
  uint32_t quads, pairs;  // quads of a column; (column, quad) pairs of a panel
  uint32_t panels;        // that exist: weights of others are not read
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
  for (int j = 0; j < 4; ++j) {
    b->bias[j] = arrange<kPanels>(b->d->bias + b->c, 64, b->panels, j);
    b->scale[j] = _mm512_castsi512_ps(arrange<kPanels>(b->d->scale + b->c, 64, b->panels, j));
    for (uint32_t pair = 0; pair < b->pairs && pair < kStoredQuads; ++pair)
      b->weights[pair][j] = weights_of<kPanels>(*b, pair, j);
  }
}

// One vector of bytes: 16 kPanels channels of each of the 4 / kPanels rows.
template <int kPanels>
LATHE_INLINE __m512i load_lanes(const uint8_t* const* row, size_t at) {
  if constexpr (kPanels == 4) {
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

LATHE_INLINE Column interleave(__m512i r0, __m512i r1, __m512i r2, __m512i r3) {
  const __m512i t0 = _mm512_unpacklo_epi8(r0, r1), t1 = _mm512_unpackhi_epi8(r0, r1);
  const __m512i u0 = _mm512_unpacklo_epi8(r2, r3), u1 = _mm512_unpackhi_epi8(r2, r3);
  return {{_mm512_unpacklo_epi16(t0, u0), _mm512_unpackhi_epi16(t0, u0), _mm512_unpacklo_epi16(t1, u1),
           _mm512_unpackhi_epi16(t1, u1)}};
}

// The rows of one group of lanes. Output rows that are not there repeat the last one.
struct Rows {
  uint32_t i, count;  // output rows [i, i + count)
  const uint8_t* residual[4];
  uint8_t* y;
};

LATHE_INLINE void find_rows(const Block& b, const Rows& rows, uint32_t p, uint32_t lanes, const uint8_t** a) {
  const uint32_t row = p < b.d->in.kh ? p : b.d->in.kh - 1;  // rows past the kernel repeat its last one: their weights are zero
  for (uint32_t l = 0; l < lanes; ++l)
    a[l] = input_row<uint8_t>(b.d->in, rows.i + (l < rows.count ? l : rows.count - 1), row) + b.c;
}

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

// Requantizes and stores one pixel of every row. Residual bytes 4 j .. 4 j + 3 of a lane belong to register j.
template <int kPanels>
LATHE_INLINE void finish(const Block& b, const Requantize& q, const __m512i* acc, const uint8_t* const* residual,
                         size_t residual_at, uint8_t* y, uint32_t rows) {
  __m512 v[4];
  LATHE_UNROLL
  for (int j = 0; j < 4; ++j) v[j] = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[j]), b.scale[j]);
  if (residual[0] != nullptr) {
    const __m512i bytes = load_lanes<kPanels>(residual, residual_at);
    LATHE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int32_t at = 4 * j;
      const __m512i order =
          _mm512_set4_epi32(static_cast<int32_t>(0x80808000u) + at + 3, static_cast<int32_t>(0x80808000u) + at + 2,
                            static_cast<int32_t>(0x80808000u) + at + 1, static_cast<int32_t>(0x80808000u) + at);
      const __m512i r = _mm512_sub_epi32(_mm512_shuffle_epi8(bytes, order), q.residual_zero);
      v[j] = _mm512_add_ps(v[j], _mm512_mul_ps(_mm512_cvtepi32_ps(r), q.residual_scale));
    }
  }
  store_lanes<kPanels>(b, y, b.d->y_row_step, rows,
                       pack_lanes(q, round_scaled(q, v[0]), round_scaled(q, v[1]), round_scaled(q, v[2]), round_scaled(q, v[3])));
}

// Any kernel.
template <int kPanels>
void any_rows(const Block& b, const Rows& rows) {
  const auto& in = b.d->in;
  const uint8_t* const padding = static_cast<const uint8_t*>(in.pad_row) + b.c;
  const uint8_t* const pad[4] = {padding, padding, padding, padding};
  const uint8_t* known[kStoredRows][4];
  for (uint32_t p = 0; p < kStoredRows; ++p) find_rows(b, rows, p, 4 / kPanels, known[p]);
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
          if (inside && p >= kStoredRows) find_rows(b, rows, p, 4 / kPanels, found);
          r[i] = load_lanes<kPanels>(!inside ? pad : p < kStoredRows ? known[p] : found, at);
        }
        const Column c = interleave(r[0], r[1], r[2], r[3]);
        LATHE_UNROLL
        for (int j = 0; j < 4; ++j)
          dot(acc[j], c.v[j], pair < kStoredQuads ? b.weights[pair][j] : weights_of<kPanels>(b, pair, j));
      }
    }
    finish<kPanels>(b, b.q, acc, rows.residual, static_cast<size_t>(x) * b.d->residual_col_step,
                    rows.y + static_cast<size_t>(x) * b.d->y_col_step, rows.count);
  }
}

// Input rows under a window of at most 3 rows, and padding in their place.
struct WindowRows {
  const uint8_t *row[3][4], *pad[4];
};

// Column s of the window; kLook: it may be outside of the image.
template <int kPanels, bool kLook>
LATHE_INLINE Column window_column(const Block& b, const WindowRows& w, int32_t s) {
  if (kLook && !has_column(b.d->in, s)) {
    const __m512i v = load_lanes<kPanels>(w.pad, 0);
    return interleave(v, v, v, v);
  }
  const size_t at = static_cast<size_t>(s) * b.d->in.col_step;
  const __m512i r2 = load_lanes<kPanels>(w.row[2], at);
  return interleave(load_lanes<kPanels>(w.row[0], at), load_lanes<kPanels>(w.row[1], at), r2, r2);
}

// Output pixel x of a window of 3 columns whose first is at column `at`, and which moves by kStep of its columns. Columns,
// weights and constants are locals of the caller: what shares an object with the pointers, or might alias the output, would be
// read from memory for every pixel.
template <int kPanels, int kStep, bool kLook>
LATHE_INLINE void window_pixel(const Block& b, const Requantize& q, const Rows& rows, const WindowRows& w, const Column* weights,
                               int32_t at, size_t x, Column& left, Column& middle) {
  const int32_t step = static_cast<int32_t>(b.d->in.dilation_w);
  if (kStep == 2) middle = window_column<kPanels, kLook>(b, w, at + step);
  const Column right = window_column<kPanels, kLook>(b, w, at + 2 * step);
  __m512i acc[4] = {b.bias[0], b.bias[1], b.bias[2], b.bias[3]};
  LATHE_UNROLL
  for (int j = 0; j < 4; ++j) {
    dot(acc[j], left.v[j], weights[0].v[j]);
    dot(acc[j], middle.v[j], weights[1].v[j]);
    dot(acc[j], right.v[j], weights[2].v[j]);
  }
  left = kStep == 1 ? middle : right;
  middle = right;
  finish<kPanels>(b, q, acc, rows.residual, x * b.d->residual_col_step, rows.y + x * b.d->y_col_step, rows.count);
}

template <int kPanels, int kStep>
void sliding_rows(const Block& b, const Rows& rows) {
  const auto& in = b.d->in;
  WindowRows w;
  for (uint32_t p = 0; p < 3; ++p) find_rows(b, rows, p, 4 / kPanels, w.row[p]);
  for (uint32_t l = 0; l < 4; ++l) w.pad[l] = static_cast<const uint8_t*>(in.pad_row) + b.c;
  const Requantize q = b.q;
  Column weights[3];
  LATHE_UNROLL
  for (int i = 0; i < 12; ++i) weights[i / 4].v[i % 4] = b.weights[i / 4][i % 4];
  const Interior inside = interior(in, b.d->cols, kStep);
  const int32_t step = static_cast<int32_t>(in.dilation_w);
  int32_t at = in.col0;
  Column left = window_column<kPanels, true>(b, w, at), middle{};
  if (kStep == 1) middle = window_column<kPanels, true>(b, w, at + step);
  uint32_t x = 0;
  for (; x < inside.first; ++x, at += kStep * step)
    window_pixel<kPanels, kStep, true>(b, q, rows, w, weights, at, x, left, middle);
  for (; x < inside.last; ++x, at += kStep * step)
    window_pixel<kPanels, kStep, false>(b, q, rows, w, weights, at, x, left, middle);
  for (; x < b.d->cols; ++x, at += kStep * step) window_pixel<kPanels, kStep, true>(b, q, rows, w, weights, at, x, left, middle);
}

template <int kPanels>
void block_rows(Block& b) {
  const DwConvS8Args& d = *b.d;
  constexpr uint32_t kLanes = 4 / kPanels;
  prepare<kPanels>(&b);
  const bool short_kernel = d.in.kw == 3 && d.in.kh <= 3;
  for (uint32_t i = 0; i < d.rows; i += kLanes) {
    Rows rows{};
    rows.i = i;
    rows.count = d.rows - i < kLanes ? d.rows - i : kLanes;
    rows.y = static_cast<uint8_t*>(d.y) + static_cast<size_t>(i) * d.y_row_step + b.c;
    for (uint32_t l = 0; l < kLanes && d.residual != nullptr; ++l) {
      const size_t r = i + (l < rows.count ? l : rows.count - 1);
      rows.residual[l] = static_cast<const uint8_t*>(d.residual) + r * d.residual_row_step + b.c;
    }
    if (short_kernel && d.in.stride_w == d.in.dilation_w) {
      sliding_rows<kPanels, 1>(b, rows);
    } else if (short_kernel && d.in.stride_w == 2 * d.in.dilation_w) {
      sliding_rows<kPanels, 2>(b, rows);
    } else {
      any_rows<kPanels>(b, rows);
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
