// Segment GEMM on AVX512-VNNI, u8 storage: tiles of up to 24 accumulators, 6 x 4, 8 x 3, 12 x 2 or 12 x 1 panels of 16 channels.
// The variants for weights with zero points and for float results have tiles of up to 6 rows.
#include <immintrin.h>

#include "kernels/gemm/gemm.h"
#include "kernels/gemm/requantize_x86_avx512.h"
#include "kernels/gemm/tile_x86_avx512vnni.h"

namespace lathe::kernels {
namespace {

using BytePixels = Pixels<uint8_t, uint8_t>;

// How a tile ends, each a template instance so that the loop over rows has no branch. kPlain and kShift: products fit, no
// residual, and a clamp that packing does by itself; kPlain: with zero point 0, as after a ReLU. kResidual: products fit;
// kPlainResidual: kPlain with a residual whose zero point is 0 as well.
enum class Finish { kPlain, kShift, kPlainResidual, kResidual, kAny };

// One call's constants, and where the current panels are.
struct Place {
  const GemmGeometry* geo;
  Requantize q;
  Finish finish;
  const int8_t* w;
  const int32_t* bias;
  const float* scale;
  const int32_t* w_zero;  // of weights with zero points, else null
  bool whole;             // the last panel here has 16 channels
  bool half;              // it has at most 8
  __mmask64 mask;         // bytes of a row that exist
};

bool products_fit(const float* scale, uint32_t n, float residual_scale) {
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
template <Finish kFinish, int kRows, int kPanels, bool kHalf>
inline __attribute__((always_inline)) void finish(const Place& p, const BytePixels& px, const Sums<kRows, kPanels, kHalf>& sums) {
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

template <int kRows, int kPanels, bool kHalf>
inline __attribute__((always_inline)) void finish_any(const Place& p, const BytePixels& px,
                                                      const Sums<kRows, kPanels, kHalf>& sums) {
  switch (p.finish) {
    case Finish::kPlain: return finish<Finish::kPlain>(p, px, sums);
    case Finish::kShift: return finish<Finish::kShift>(p, px, sums);
    case Finish::kPlainResidual: return finish<Finish::kPlainResidual>(p, px, sums);
    case Finish::kResidual: return finish<Finish::kResidual>(p, px, sums);
    case Finish::kAny: return finish<Finish::kAny>(p, px, sums);
  }
}

template <int kRows, class Y>
inline __attribute__((always_inline)) void row_pointers(const Pixels<uint8_t, Y>& px, const uint8_t** row) {
  LATHE_UNROLL
  for (int r = 0; r < kRows; ++r) row[r] = px.a + px.a_at[r];
}

template <int kRows, int kPanels, bool kHalf>
__attribute__((noinline)) void tiles(const Place& p, BytePixels px, uint32_t count) {
  for (; count > 0; --count, px.advance(kRows)) {
    const uint8_t* row[kRows];
    row_pointers<kRows>(px, row);
    Sums<kRows, kPanels, kHalf> sums;
    sums.compute(*p.geo, row, p.w, p.bias);
    finish_any(p, px, sums);
  }
}

template <int kRows, int kPanels>
__attribute__((noinline)) void tiles_with_zeros(const Place& p, BytePixels px, uint32_t count) {
  for (; count > 0; --count, px.advance(kRows)) {
    const uint8_t* row[kRows];
    row_pointers<kRows>(px, row);
    int32_t row_sums[kRows];
    for (int r = 0; r < kRows; ++r) row_sums[r] = row_sum(*p.geo, row[r]);
    Sums<kRows, kPanels, false> sums;
    sums.compute(*p.geo, row, p.w, p.bias);
    sums.subtract(p.w_zero, row_sums);
    finish<Finish::kAny>(p, px, sums);
  }
}

// All pixels of a block for one group of panels.
template <int kMaxRows, int kPanels, bool kHalf>
inline __attribute__((always_inline)) void group(const Place& p, BytePixels px, uint32_t m) {
  for_each_tile_size<kMaxRows>(m, [&]<int kRows>(uint32_t count) {
    tiles<kRows, kPanels, kHalf>(p, px, count);
    px.advance(count * kRows);
  });
}

template <int kMaxRows, int kPanels>
void group_of(const Place& p, const BytePixels& px, uint32_t m) {
  if (p.half) {
    group<kMaxRows, kPanels, true>(p, px, m);
  } else {
    group<kMaxRows, kPanels, false>(p, px, m);
  }
}

// The most panels of a group: 7 to 12 pixels fill the registers better as more rows of fewer panels.
uint32_t most_panels(uint32_t m) { return m > 8 && m <= 12 ? 2 : m > 6 && m <= 8 ? 3 : 4; }

// Panels that the next group takes of `left`: none is left with one panel, which would load nearly as much as it multiplies.
uint32_t group_panels(uint32_t left, uint32_t most) {
  if (left == most + 1 && most > 2) return most - 1;
  return left < most ? left : most;
}

// Channels of the group of `panels` panels from panel `first` on.
void set_channels(const GemmGeometry& g, uint32_t first, uint32_t panels, Place* p) {
  const uint32_t c = 16 * first, n = g.n - c < 16 * panels ? g.n - c : 16 * panels;
  p->whole = n % 16 == 0;
  p->half = !p->whole && n % 16 <= 8;
  p->mask = ~__mmask64{0} >> (64 - n);
}

// Calls fn(place, pixels, panels) for every group of panels.
template <class F>
inline __attribute__((always_inline)) void for_each_group(const GemmS8Args& g, const int32_t* w_zero, uint32_t most, Place p,
                                                          BytePixels px, const F& fn) {
  const uint32_t all = (g.geo.n + 15) / 16;
  uint8_t* const y = px.y;
  const uint8_t* const residual = px.residual;
  for (uint32_t first = 0, panels; first < all; first += panels) {
    panels = group_panels(all - first, most);
    const uint32_t c = 16 * first;
    p.w = g.w + static_cast<size_t>(first) * g.geo.w_panel_step;
    p.bias = g.bias + c;
    p.scale = g.scale + c;
    p.w_zero = w_zero == nullptr ? nullptr : w_zero + c;
    px.y = y + c;
    px.residual = residual == nullptr ? nullptr : residual + c;
    set_channels(g.geo, first, panels, &p);
    fn(p, px, panels);
  }
}

void block(const GemmS8Args& g, const Place& place, const BytePixels& pixels, uint32_t m) {
  for_each_group(g, nullptr, most_panels(m), place, pixels, [&](const Place& p, const BytePixels& px, uint32_t panels) {
    switch (panels) {
      case 4: return group_of<6, 4>(p, px, m);
      case 3: return group_of<8, 3>(p, px, m);
      case 2: return group_of<12, 2>(p, px, m);
      default: return group_of<12, 1>(p, px, m);
    }
  });
}

template <int kPanels>
void group_with_zeros(const Place& p, BytePixels px, uint32_t m) {
  for_each_tile_size<6>(m, [&]<int kRows>(uint32_t count) {
    tiles_with_zeros<kRows, kPanels>(p, px, count);
    px.advance(count * kRows);
  });
}

void block_with_zeros(const GemmS8ZwArgs& g, const Place& place, const BytePixels& pixels, uint32_t m) {
  for_each_group(g.s8, g.w_zero, 4, place, pixels, [&](const Place& p, const BytePixels& px, uint32_t panels) {
    switch (panels) {
      case 4: return group_with_zeros<4>(p, px, m);
      case 3: return group_with_zeros<3>(p, px, m);
      case 2: return group_with_zeros<2>(p, px, m);
      default: return group_with_zeros<1>(p, px, m);
    }
  });
}

Finish finish_of(const GemmS8Args& g) {
  if (!products_fit(g.scale, g.geo.n, g.residual == nullptr ? 0.0f : g.residual_scale)) return Finish::kAny;
  const bool open = g.lo == 0 && g.hi == 255, plain = open && g.zero_point == 0;
  if (g.residual != nullptr) return plain && g.residual_zero == 0 ? Finish::kPlainResidual : Finish::kResidual;
  return plain ? Finish::kPlain : open ? Finish::kShift : Finish::kAny;
}

Place place_of(const GemmS8Args& g) {
  Place p{};
  p.geo = &g.geo;
  p.q = make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero);
  p.finish = finish_of(g);
  return p;
}

// The float form: one call's constants, and where the current panels are.
using MixedPixels = Pixels<uint8_t, float>;
struct FloatPlace {
  const GemmS8F32Args* g;
  const int8_t* w;
  const int32_t* bias;
  const float* scale;
  const float* bias_f32;  // or null
  __mmask64 mask;
};

template <int kRows, int kPanels>
__attribute__((noinline)) void float_tiles(const FloatPlace& p, MixedPixels px, uint32_t count) {
  const __m512 lo = _mm512_set1_ps(p.g->lo), hi = _mm512_set1_ps(p.g->hi);
  for (; count > 0; --count, px.advance(kRows)) {
    const uint8_t* row[kRows];
    row_pointers<kRows>(px, row);
    Sums<kRows, kPanels, false> sums;
    sums.compute(p.g->geo, row, p.w, p.bias);
    LATHE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512 row_scale =
          _mm512_set1_ps(p.g->row_scale[(px.index + static_cast<size_t>(r)) * p.g->row_scale_step]);
      LATHE_UNROLL
      for (int z = 0; z < kPanels; ++z) {
        __m512 v = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums.at(r, z)), row_scale), _mm512_load_ps(p.scale + 16 * z));
        if (p.bias_f32 != nullptr) v = _mm512_add_ps(v, _mm512_load_ps(p.bias_f32 + 16 * z));
        if (px.residual != nullptr) v = _mm512_add_ps(v, _mm512_loadu_ps(px.residual + px.residual_at[r] + 16 * z));
        // The second operand passes when either is NaN.
        v = _mm512_min_ps(hi, _mm512_max_ps(lo, v));
        _mm512_mask_storeu_ps(px.y + px.y_at[r] + 16 * z, static_cast<__mmask16>(p.mask >> (16 * z)), v);
      }
    }
  }
}

template <int kPanels>
void float_group(const FloatPlace& p, MixedPixels px, uint32_t m) {
  for_each_tile_size<6>(m, [&]<int kRows>(uint32_t count) {
    float_tiles<kRows, kPanels>(p, px, count);
    px.advance(count * kRows);
  });
}

void float_block(const GemmS8F32Args& g, FloatPlace p, MixedPixels px, uint32_t m) {
  const uint32_t all = (g.geo.n + 15) / 16;
  float* const y = px.y;
  const float* const residual = px.residual;
  for (uint32_t first = 0, panels; first < all; first += panels) {
    panels = group_panels(all - first, 4);
    const uint32_t c = 16 * first, n = g.geo.n - c < 16 * panels ? g.geo.n - c : 16 * panels;
    p.w = g.w + static_cast<size_t>(first) * g.geo.w_panel_step;
    p.bias = g.bias + c;
    p.scale = g.scale + c;
    p.bias_f32 = g.bias_f32 == nullptr ? nullptr : g.bias_f32 + c;
    p.mask = ~__mmask64{0} >> (64 - n);
    px.y = y + c;
    px.residual = residual == nullptr ? nullptr : residual + c;
    switch (panels) {
      case 4: float_group<4>(p, px, m); break;
      case 3: float_group<3>(p, px, m); break;
      case 2: float_group<2>(p, px, m); break;
      default: float_group<1>(p, px, m); break;
    }
  }
}

}  // namespace

void gemm_u8s8s32_6x64x4_x86_avx512vnni(const GemmS8Args& g) {
  const Place p = place_of(g);
  for_each_block(g.geo, static_cast<const uint8_t*>(g.a), static_cast<uint8_t*>(g.y), static_cast<const uint8_t*>(g.residual),
                 [&](const BytePixels& px, uint32_t m) { block(g, p, px, m); });
}

void gemm_u8s8zws32_6x64x4_x86_avx512vnni(const GemmS8ZwArgs& g) {
  const Place p = place_of(g.s8);
  for_each_block(g.s8.geo, static_cast<const uint8_t*>(g.s8.a), static_cast<uint8_t*>(g.s8.y),
                 static_cast<const uint8_t*>(g.s8.residual),
                 [&](const BytePixels& px, uint32_t m) { block_with_zeros(g, p, px, m); });
}

void gemm_u8s8f32_6x64x4_x86_avx512vnni(const GemmS8F32Args& g) {
  FloatPlace p{};
  p.g = &g;
  for_each_block(g.geo, static_cast<const uint8_t*>(g.a), g.y, g.residual,
                 [&](const MixedPixels& px, uint32_t m) { float_block(g, p, px, m); });
}

}  // namespace lathe::kernels
