// How the byte results of the AVX-512 GEMM tiles end: for the ISA files of the gemm and gemm_sparse families only.
#pragma once
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pixels.h"
#include "kernels/gemm/requantize_x86_avx512.h"

namespace lathe::kernels {
namespace {

using BytePixels = Pixels<uint8_t, uint8_t>;

// How a tile ends, each a template instance so that the loop over rows has no branch. kPlain and kShift: products fit, no
// residual, and a clamp that packing does by itself; kPlain: with zero point 0, as after a ReLU. kResidual: products fit;
// kPlainResidual: kPlain with a residual whose zero point is 0 as well.
enum class Finish { kPlain, kShift, kPlainResidual, kResidual, kAny };

// What ends the tiles of a call, and of the panels at hand.
struct ByteEnd {
  Requantize q;
  Finish finish;
  const float* scale;  // of the tile's first channel
  bool whole;          // the last panel here has 16 channels
  __mmask64 mask;      // bytes of a row that exist

  // `n` channels, at most 64.
  void set_width(uint32_t n) {
    whole = n % 16 == 0;
    mask = ~__mmask64{0} >> (64 - n);
  }
};

inline bool products_fit(const float* scale, uint32_t n, float residual_scale) {
  __m512 most = _mm512_setzero_ps();
  for (uint32_t c = 0; c < n; c += 16) most = _mm512_max_ps(most, _mm512_load_ps(scale + c));
  return is_bounded(most, residual_scale);
}

// Stores kPanels x 16 bytes of one row that lie in lanes first .. of `v`; `mask` says which bytes if the last panel is not whole.
template <int kPanels>
inline __attribute__((always_inline)) void store_row(uint8_t* y, __m512i v, int first, bool whole, __mmask64 mask) {
  if constexpr (kPanels == 1) {
    const __m128i lane = first == 0   ? _mm512_castsi512_si128(v)
                         : first == 1 ? _mm512_extracti32x4_epi32(v, 1)
                         : first == 2 ? _mm512_extracti32x4_epi32(v, 2)
                                      : _mm512_extracti32x4_epi32(v, 3);
    if (whole) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), lane);
    } else {
      _mm_mask_storeu_epi8(y, static_cast<__mmask16>(mask), lane);
    }
  } else if constexpr (kPanels == 2) {
    const __m256i half = first == 0 ? _mm512_castsi512_si256(v) : _mm512_extracti64x4_epi64(v, 1);
    if (whole) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), half);
    } else {
      _mm256_mask_storeu_epi8(y, static_cast<__mmask32>(mask), half);
    }
  } else {
    if (kPanels == 4 && whole) {
      _mm512_storeu_si512(y, v);
    } else {
      _mm512_mask_storeu_epi8(y, mask, v);
    }
  }
}

template <Finish kFinish>
inline __attribute__((always_inline)) __m512i pack(const Requantize& q, const __m512i* v) {
  if constexpr (kFinish == Finish::kPlain || kFinish == Finish::kPlainResidual) {
    const __m512i words[] = {_mm512_packs_epi32(v[0], v[1]), _mm512_packs_epi32(v[2], v[3])};
    return _mm512_permutexvar_epi32(q.lane_order, _mm512_packus_epi16(words[0], words[1]));
  } else if constexpr (kFinish == Finish::kShift) {
    const __m512i words[] = {pack_words(q, v[0], v[1]), pack_words(q, v[2], v[3])};
    return _mm512_permutexvar_epi32(q.lane_order, _mm512_packus_epi16(words[0], words[1]));
  } else {
    return pack_ordered(q, v[0], v[1], v[2], v[3]);
  }
}

// float(r) * m_r of 16 bytes of u8.
inline __attribute__((always_inline)) __m512 plain_residual16(const Requantize& q, const uint8_t* residual) {
  const __m512i r = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(residual)));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(r), q.residual_scale);
}

// Four accumulators are packed at a time: one row of 3 or 4 panels, two rows of 2, or four rows of 1.
// Sums: at(r, z) gives the accumulators of row r and panel z.
template <Finish kFinish, int kRows, int kPanels, class Sums>
inline __attribute__((always_inline)) void finish(const ByteEnd& p, const BytePixels& px, const Sums& sums) {
  constexpr int kRowsAtOnce = kPanels == 1 ? 4 : kPanels == 2 ? 2 : 1;
  const Requantize q = p.q;
  const bool whole = p.whole;
  const __mmask64 mask = p.mask;
  __m512 scale[kPanels];
  LATHE_UNROLL
  for (int z = 0; z < kPanels; ++z) scale[z] = _mm512_load_ps(p.scale + 16 * z);
  LATHE_UNROLL
  for (int r0 = 0; r0 < kRows; r0 += kRowsAtOnce) {
    __m512i v[4];
    LATHE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int r = r0 + i / kPanels, z = i % kPanels;
      if (r >= kRows || i >= kRowsAtOnce * kPanels) {
        v[i] = _mm512_setzero_si512();
        continue;
      }
      __m512 x = _mm512_mul_ps(_mm512_cvtepi32_ps(sums.at(r, z)), scale[z]);
      if (kFinish == Finish::kResidual || (kFinish == Finish::kAny && px.residual != nullptr))
        x = _mm512_add_ps(x, residual16(q, px.residual + px.residual_at[r] + 16 * z));
      if (kFinish == Finish::kPlainResidual)
        x = _mm512_add_ps(x, plain_residual16(q, px.residual + px.residual_at[r] + 16 * z));
      v[i] = kFinish == Finish::kAny ? round_scaled(q, x) : _mm512_cvtps_epi32(x);
    }
    const __m512i bytes = pack<kFinish>(q, v);
    LATHE_UNROLL
    for (int i = 0; i < kRowsAtOnce; ++i) {
      if (r0 + i < kRows) store_row<kPanels>(px.y + px.y_at[r0 + i], bytes, i, whole, mask);
    }
  }
}

template <int kRows, int kPanels, class Sums>
inline __attribute__((always_inline)) void finish_any(const ByteEnd& p, const BytePixels& px, const Sums& sums) {
  switch (p.finish) {
    case Finish::kPlain: return finish<Finish::kPlain, kRows, kPanels>(p, px, sums);
    case Finish::kShift: return finish<Finish::kShift, kRows, kPanels>(p, px, sums);
    case Finish::kPlainResidual: return finish<Finish::kPlainResidual, kRows, kPanels>(p, px, sums);
    case Finish::kResidual: return finish<Finish::kResidual, kRows, kPanels>(p, px, sums);
    case Finish::kAny: return finish<Finish::kAny, kRows, kPanels>(p, px, sums);
  }
}

template <int kRows, class Y>
inline __attribute__((always_inline)) void row_pointers(const Pixels<uint8_t, Y>& px, const uint8_t** row) {
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) row[r] = px.a + px.a_at[r];
}

inline Finish finish_of(const GemmS8Args& g) {
  if (!products_fit(g.scale, g.geo.n, g.residual == nullptr ? 0.0f : g.residual_scale)) return Finish::kAny;
  const bool open = g.lo == 0 && g.hi == 255, plain = open && g.zero_point == 0;
  if (g.residual != nullptr) return plain && g.residual_zero == 0 ? Finish::kPlainResidual : Finish::kResidual;
  return plain ? Finish::kPlain : open ? Finish::kShift : Finish::kAny;
}

inline void set_end(const GemmS8Args& g, ByteEnd* end) {
  end->q = make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero);
  end->finish = finish_of(g);
}

}  // namespace
}  // namespace lathe::kernels
