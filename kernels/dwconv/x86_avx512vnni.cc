// 8-bit depthwise convolution on AVX512-VNNI, u8 storage.
//
// A vector has four 128-bit lanes of 16 channels. A block of channels takes 4, 2 or 1 panels; the lanes that narrow blocks leave free take further output
// rows, so that 16 channels are as fast as 64. Up to four kernel rows of one column are interleaved byte by byte into quads (unpack works within
// lanes: register j gets channels 4 j .. 4 j + 3 of every lane), which one vpdpbusd multiplies with the weights of that column. Columns are kept
// while the window slides over them.
#include <immintrin.h>

#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/requantize_x86_avx512.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredQuads = 32;  // (column, quad) pairs whose weights are arranged once per block

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
    for (uint32_t pair = 0; pair < b->pairs && pair < kStoredQuads; ++pair) b->weights[pair][j] = weights_of<kPanels>(*b, pair, j);
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
  return {{_mm512_unpacklo_epi16(t0, u0), _mm512_unpackhi_epi16(t0, u0), _mm512_unpacklo_epi16(t1, u1), _mm512_unpackhi_epi16(t1, u1)}};
}

// Four kernel rows from `first` on of the column at `at`. Rows past the kernel repeat its last one: their weights are zero.
template <int kPanels>
LATHE_INLINE Column any_column(const DwConvS8Args& d, const uint8_t* const* row, size_t at, uint32_t first) {
  __m512i r[4];
  LATHE_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t p = first + i < d.kh ? first + i : d.kh - 1;
    r[i] = load_lanes<kPanels>(row, at + static_cast<size_t>(p) * d.a_tap_row);
  }
  return interleave(r[0], r[1], r[2], r[3]);
}

// The same for kernels of at most three rows, whose offsets are given.
template <int kPanels>
LATHE_INLINE Column short_column(const uint8_t* const* row, size_t at, size_t row1, size_t row2) {
  const __m512i r2 = load_lanes<kPanels>(row, at + row2);
  return interleave(load_lanes<kPanels>(row, at), load_lanes<kPanels>(row, at + row1), r2, r2);
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
      if (whole) _mm512_storeu_si512(to, v);
      else _mm512_mask_storeu_epi8(to, mask, v);
    } else if constexpr (kPanels == 2) {
      const __m256i half = r == 0 ? _mm512_castsi512_si256(v) : _mm512_extracti64x4_epi64(v, 1);
      if (whole) _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), half);
      else _mm256_mask_storeu_epi8(to, static_cast<__mmask32>(mask), half);
    } else {
      const __m128i lane = r == 0 ? _mm512_castsi512_si128(v) : r == 1 ? _mm512_extracti32x4_epi32(v, 1) : r == 2 ? _mm512_extracti32x4_epi32(v, 2) : _mm512_extracti32x4_epi32(v, 3);
      if (whole) _mm_storeu_si128(reinterpret_cast<__m128i*>(to), lane);
      else _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask), lane);
    }
  }
}

// Requantizes and stores one pixel of every row. Residual bytes 4 j .. 4 j + 3 of a lane belong to register j.
template <int kPanels>
LATHE_INLINE void finish(const Block& b, const __m512i* acc, const uint8_t* const* residual, size_t residual_at, uint8_t* y, uint32_t rows) {
  const Requantize& q = b.q;
  __m512 v[4];
  LATHE_UNROLL
  for (int j = 0; j < 4; ++j) v[j] = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[j]), b.scale[j]);
  if (residual[0] != nullptr) {
    const __m512i bytes = load_lanes<kPanels>(residual, residual_at);
    LATHE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int32_t at = 4 * j;
      const __m512i order = _mm512_set4_epi32(static_cast<int32_t>(0x80808000u) + at + 3, static_cast<int32_t>(0x80808000u) + at + 2, static_cast<int32_t>(0x80808000u) + at + 1,
                                              static_cast<int32_t>(0x80808000u) + at);
      const __m512i r = _mm512_sub_epi32(_mm512_shuffle_epi8(bytes, order), q.residual_zero);
      v[j] = _mm512_add_ps(v[j], _mm512_mul_ps(_mm512_cvtepi32_ps(r), q.residual_scale));
    }
  }
  store_lanes<kPanels>(b, y, b.d->y_row_step, rows, pack_lanes(q, round_scaled(q, v[0]), round_scaled(q, v[1]), round_scaled(q, v[2]), round_scaled(q, v[3])));
}

// The rows of one group of lanes: inputs, residuals and output of their first pixels. Rows that are not there repeat the last one.
struct Rows {
  const uint8_t* a[4];
  const uint8_t* residual[4];
  uint8_t* y;
  uint32_t count;
};

// Any kernel.
template <int kPanels>
void any_rows(const Block& b, const Rows& rows) {
  const DwConvS8Args& d = *b.d;
  for (uint32_t x = 0; x < d.cols; ++x) {
    __m512i acc[4] = {b.bias[0], b.bias[1], b.bias[2], b.bias[3]};
    for (uint32_t s = 0, pair = 0; s < d.kw; ++s) {
      const size_t at = static_cast<size_t>(x) * d.a_col_step + static_cast<size_t>(s) * d.a_tap_col;
      for (uint32_t quad = 0; quad < b.quads; ++quad, ++pair) {
        const Column column = any_column<kPanels>(d, rows.a, at, quad * 4);
        LATHE_UNROLL
        for (int j = 0; j < 4; ++j) dot(acc[j], column.v[j], pair < kStoredQuads ? b.weights[pair][j] : weights_of<kPanels>(b, pair, j));
      }
    }
    finish<kPanels>(b, acc, rows.residual, static_cast<size_t>(x) * d.residual_col_step, rows.y + static_cast<size_t>(x) * d.y_col_step, rows.count);
  }
}

// Kernels of 3 columns and at most 3 rows whose window moves by kStep columns, 1 or 2.
template <int kPanels, int kStep>
void sliding_rows(const Block& b, const Rows& rows) {
  const DwConvS8Args& d = *b.d;
  const size_t row1 = d.kh > 1 ? d.a_tap_row : 0, row2 = d.kh > 2 ? 2 * static_cast<size_t>(d.a_tap_row) : row1, step = d.a_tap_col;
  Column left = short_column<kPanels>(rows.a, 0, row1, row2), middle{};
  if (kStep == 1) middle = short_column<kPanels>(rows.a, step, row1, row2);
  for (size_t x = 0, at = 0; x < d.cols; ++x, at += kStep * step) {
    if (kStep == 2) middle = short_column<kPanels>(rows.a, at + step, row1, row2);
    const Column right = short_column<kPanels>(rows.a, at + 2 * step, row1, row2);
    __m512i acc[4] = {b.bias[0], b.bias[1], b.bias[2], b.bias[3]};
    LATHE_UNROLL
    for (int j = 0; j < 4; ++j) {
      dot(acc[j], left.v[j], b.weights[0][j]);
      dot(acc[j], middle.v[j], b.weights[1][j]);
      dot(acc[j], right.v[j], b.weights[2][j]);
    }
    left = kStep == 1 ? middle : right;
    middle = right;
    finish<kPanels>(b, acc, rows.residual, x * d.residual_col_step, rows.y + x * d.y_col_step, rows.count);
  }
}

template <int kPanels>
void block_rows(Block& b) {
  const DwConvS8Args& d = *b.d;
  constexpr uint32_t kLanes = 4 / kPanels;
  prepare<kPanels>(&b);
  const bool short_kernel = d.kw == 3 && d.kh <= 3;
  for (uint32_t i = 0; i < d.rows; i += kLanes) {
    Rows rows{};
    rows.count = d.rows - i < kLanes ? d.rows - i : kLanes;
    rows.y = static_cast<uint8_t*>(d.y) + static_cast<size_t>(i) * d.y_row_step + b.c;
    for (uint32_t l = 0; l < kLanes; ++l) {
      const size_t r = i + (l < rows.count ? l : rows.count - 1);
      rows.a[l] = static_cast<const uint8_t*>(d.a) + r * d.a_row_step + b.c;
      rows.residual[l] = d.residual == nullptr ? nullptr : static_cast<const uint8_t*>(d.residual) + r * d.residual_row_step + b.c;
    }
    if (short_kernel && d.a_col_step == d.a_tap_col) {
      sliding_rows<kPanels, 1>(b, rows);
    } else if (short_kernel && d.a_col_step == 2 * d.a_tap_col) {
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
  b.quads = (d.kh + kGemmQuad - 1) / kGemmQuad;
  b.pairs = d.kw * b.quads;
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
