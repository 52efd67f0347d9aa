// Segment GEMM on AVX512-VNNI, u8 storage: tiles of up to 24 accumulators, 6 x 4, 8 x 3, 12 x 2 or 12 x 1 panels of 16 channels.
// The variants for weights with zero points and for float results have tiles of up to 6 rows.
#include <immintrin.h>

#include "kernels/gemm/finish_x86_avx512.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/tile_x86_avx512vnni.h"

namespace lathe::kernels {
namespace {

// One call's constants, and where the current panels are.
struct Place : ByteEnd {
  const GemmGeometry* geo;
  const int8_t* w;
  const int32_t* bias;
  const int32_t* w_zero;  // of weights with zero points, else null
  bool half;              // the last panel here has at most 8 channels
};

template <int kRows, int kPanels, bool kHalf>
__attribute__((noinline)) void tiles(const Place& p, BytePixels px, uint32_t count) {
  for (; count > 0; --count, px.advance(kRows)) {
    const uint8_t* row[kRows];
    row_pointers<kRows>(px, row);
    Sums<kRows, kPanels, kHalf> sums;
    sums.compute(*p.geo, row, p.w, p.bias);
    finish_any<kRows, kPanels>(p, px, sums);
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
    finish<Finish::kAny, kRows, kPanels>(p, px, sums);
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
  p->set_width(n);
  p->half = !p->whole && n % 16 <= 8;
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

Place place_of(const GemmS8Args& g) {
  Place p{};
  p.geo = &g.geo;
  set_end(g, &p);
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
