// Segment GEMM on AVX512-VNNI, u8 storage.
//
// A tile is rows x panels of 16 channels in up to 24 accumulators: 6 x 4, 8 x 3, 12 x 2 or 12 x 1. Four bytes of a row are
// broadcast straight from memory against one vector of weights per panel (4 k of 16 channels). The dot product is inline
// assembly: gcc 12 spills a tile of this size when it sees the intrinsic.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/requantize_x86_avx512.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

inline __attribute__((always_inline)) void dot(__m512i& acc, __m512i a, __m512i w) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(w));
}

inline __attribute__((always_inline)) __m512i broadcast4(const uint8_t* p) {
  int32_t v;
  __builtin_memcpy(&v, p, sizeof(v));
  return _mm512_set1_epi32(v);
}

// One call's constants, and where the current panels and rows are.
struct Place {
  const GemmS8Args* g;
  Requantize q;
  size_t panel_bytes;
  uint32_t quads;  // per segment
  const int8_t* w;
  const int32_t* bias;
  const float* scale;
  const uint8_t* a;
  uint8_t* y;
  const uint8_t* residual;
  uint32_t tail;  // channels of the last panel here, 1 .. 16
};

// Sums of kRows x kPanels. Row r is addressed as base[r / 3] + (r % 3) * stride, which x86 does without a pointer per row.
template <int kRows, int kPanels>
inline __attribute__((always_inline)) void accumulate(const Place& p, __m512i* acc) {
  constexpr int kBases = (kRows + 2) / 3;
  LATHE_UNROLL
  for (int i = 0; i < kRows * kPanels; ++i) acc[i] = _mm512_load_si512(p.bias + 16 * (i % kPanels));
  const int8_t* w = p.w;
  const size_t stride = p.g->a_stride;
  for (uint32_t s = 0; s < p.g->segs; ++s) {
    const uint8_t* base[kBases];
    LATHE_UNROLL
    for (int i = 0; i < kBases; ++i) base[i] = p.a + p.g->seg_offset[s] + 3 * stride * static_cast<size_t>(i);
    for (uint32_t k = 0; k < p.quads; ++k, w += 64) {
      __m512i weights[kPanels];
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) weights[z] = _mm512_load_si512(w + static_cast<size_t>(z) * p.panel_bytes);
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const __m512i a = broadcast4(base[r / 3] + static_cast<size_t>(r % 3) * stride);
        LATHE_UNROLL
        for (int z = 0; z < kPanels; ++z) dot(acc[r * kPanels + z], a, weights[z]);
      }
      LATHE_UNROLL
      for (int i = 0; i < kBases; ++i) base[i] += 4;
    }
  }
}

inline __attribute__((always_inline)) void store16(uint8_t* y, __m128i v, uint32_t count) {
  if (count == 16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), v);
  } else {
    _mm_mask_storeu_epi8(y, static_cast<__mmask16>((1u << count) - 1), v);
  }
}

// Stores kPanels x 16 bytes of one row that lie in lanes first .. of `v`; the last panel has `tail` channels.
template <int kPanels>
inline __attribute__((always_inline)) void store_row(uint8_t* y, __m512i v, int first, uint32_t tail) {
  if constexpr (kPanels == 1) {
    store16(y,
            first == 0   ? _mm512_castsi512_si128(v)
            : first == 1 ? _mm512_extracti32x4_epi32(v, 1)
            : first == 2 ? _mm512_extracti32x4_epi32(v, 2)
                         : _mm512_extracti32x4_epi32(v, 3),
            tail);
  } else if constexpr (kPanels == 2) {
    const __m256i half = first == 0 ? _mm512_castsi512_si256(v) : _mm512_extracti64x4_epi64(v, 1);
    if (tail == 16) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), half);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(half));
      store16(y + 16, _mm256_extracti128_si256(half, 1), tail);
    }
  } else if constexpr (kPanels == 3) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(v));
    store16(y + 32, _mm512_extracti32x4_epi32(v, 2), tail);
  } else {
    if (tail == 16) {
      _mm512_storeu_si512(y, v);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(v));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y + 32), _mm512_extracti32x4_epi32(v, 2));
      store16(y + 48, _mm512_extracti32x4_epi32(v, 3), tail);
    }
  }
}

// Four accumulators are packed at a time: one row of 3 or 4 panels, two rows of 2, or four rows of 1.
template <int kRows, int kPanels>
inline __attribute__((always_inline)) void finish(const Place& p, const __m512i* acc) {
  constexpr int kRowsAtOnce = kPanels == 1 ? 4 : kPanels == 2 ? 2 : 1;
  LATHE_UNROLL
  for (int r0 = 0; r0 < kRows; r0 += kRowsAtOnce) {
    __m512i v[4];
    LATHE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = r0 + i / kPanels, z = i % kPanels;
      if (r < kRows && i < kRowsAtOnce * kPanels) {
        const uint8_t* residual =
            p.residual != nullptr ? p.residual + static_cast<size_t>(r) * p.g->residual_stride + 16 * z : nullptr;
        v[i] = requantize16(p.q, acc[r * kPanels + z], _mm512_load_ps(p.scale + 16 * z), residual);
      } else {
        v[i] = _mm512_setzero_si512();
      }
    }
    const __m512i bytes = pack_ordered(p.q, v[0], v[1], v[2], v[3]);
    LATHE_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (r0 + i < kRows) store_row<kPanels>(p.y + static_cast<size_t>(r0 + i) * p.g->y_stride, bytes, i, p.tail);
    }
  }
}

template <int kRows, int kPanels>
__attribute__((noinline)) void tile(const Place& p) {
  __m512i acc[kRows * kPanels];
  accumulate<kRows, kPanels>(p, acc);
  finish<kRows, kPanels>(p, acc);
}

template <int kRows, int kPanels>
inline __attribute__((always_inline)) void tile_of(uint32_t rows, const Place& p) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return tile_of<kRows - 1, kPanels>(rows, p);
  }
  tile<kRows, kPanels>(p);
}

// All rows of one group of panels, split evenly: 14 rows are 7 + 7, not 12 + 2.
template <int kMaxRows, int kPanels>
void all_rows(Place p) {
  const GemmS8Args& g = *p.g;
  const uint32_t tiles = (g.m + kMaxRows - 1) / kMaxRows, base = g.m / tiles, larger = g.m % tiles;
  for (uint32_t t = 0; t < tiles; ++t) {
    const uint32_t rows = base + (t < larger ? 1 : 0);
    tile_of<kMaxRows, kPanels>(rows, p);
    p.a += static_cast<size_t>(rows) * g.a_stride;
    p.y += static_cast<size_t>(rows) * g.y_stride;
    if (p.residual != nullptr) p.residual += static_cast<size_t>(rows) * g.residual_stride;
  }
}

}  // namespace

void gemm_u8s8s32_6x64x4_x86_avx512vnni(const GemmS8Args& g) {
  if (g.m == 0) return;
  Place p;
  p.g = &g;
  p.q = make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero);
  p.panel_bytes = gemm_s8_panel_bytes(g.segs, g.seg_k);
  p.quads = (g.seg_k + kGemmQuad - 1) / kGemmQuad;
  p.a = static_cast<const uint8_t*>(g.a);
  for (uint32_t c = 0, panels; c < g.n; c += 16 * panels) {
    const uint32_t left = (g.n - c + 15) / 16;
    panels = left < 4 ? left : 4;
    p.w = g.w + static_cast<size_t>(c / 16) * p.panel_bytes;
    p.bias = g.bias + c;
    p.scale = g.scale + c;
    p.y = static_cast<uint8_t*>(g.y) + c;
    p.residual = g.residual == nullptr ? nullptr : static_cast<const uint8_t*>(g.residual) + c;
    p.tail = g.n - c >= 16 * panels ? 16 : (g.n - c) - 16 * (panels - 1);
    switch (panels) {
      case 4: all_rows<6, 4>(p); break;
      case 3: all_rows<8, 3>(p); break;
      case 2: all_rows<12, 2>(p); break;
      default: all_rows<12, 1>(p); break;
    }
  }
}

}  // namespace lathe::kernels
