// Pooling and means over a Lanes type. Included by this family's ISA files only, after their lanes.
//
// All loops run over vectors of channels; every channel's values are added in the reference's order, so that float results
// agree with it bit for bit.
#pragma once
#include "kernels/math/simd_math.h"
#include "kernels/pool/window.h"

namespace lathe::kernels {
namespace {

// f(window, first element of the pixel in y, oh, ow) for every output pixel of rows [begin, end).
template <class F>
[[gnu::always_inline]] inline void each_pixel(const PoolGeometry& g, uint32_t begin, uint32_t end, const F& f) {
  for (uint32_t oh = begin; oh < end; ++oh) {
    for (uint32_t ow = 0; ow < g.out_w; ++ow) f(window_at(g, oh, ow), (oh * g.out_w + ow) * g.c, oh, ow);
  }
}

inline constexpr uint32_t kStripVectors = 4;

template <class L> void max_pool_f32(const MaxPoolF32Args& a) {
  using F = typename L::F;
  each_pixel(a.g, a.row_begin, a.row_end, [&](const Window& p, uint32_t out, uint32_t, uint32_t) __attribute__((always_inline)) {
    for_each_strip<L, kStripVectors>(a.g.c, [&](uint32_t c, auto strip, auto part) __attribute__((always_inline)) {
      F best[strip.kVectors];
      for (F& v : best) v = F(-kFloatInfinity);
      each_tap(a.g, p, [&](uint32_t at) __attribute__((always_inline)) {
        for (uint32_t v = 0; v < strip.kVectors; ++v) best[v] = L::max(L::load(a.x + at + c + v * L::kWidth, part), best[v]);
      });
      for (uint32_t v = 0; v < strip.kVectors; ++v) L::store(a.y + out + c + v * L::kWidth, best[v], part);
    });
  });
}

template <class L> void avg_pool_f32(const AvgPoolF32Args& a) {
  using F = typename L::F;
  each_pixel(
      a.g, a.row_begin, a.row_end, [&](const Window& p, uint32_t out, uint32_t oh, uint32_t ow) __attribute__((always_inline)) {
        const uint32_t count = counted_rows(a.g, a.rule, oh) * counted_columns(a.g, a.rule, ow);
        const F n(static_cast<float>(count == 0 ? 1 : count));
        for_each_strip<L, kStripVectors>(
            a.g.c, [&](uint32_t c, auto strip, auto part) __attribute__((always_inline)) {
              F sums[strip.kVectors];
              for (F& v : sums) v = F(0.0f);
              each_tap(
                  a.g, p, [&](uint32_t at) __attribute__((always_inline)) {
                    for (uint32_t v = 0; v < strip.kVectors; ++v) sums[v] = sums[v] + L::load(a.x + at + c + v * L::kWidth, part);
                  });
              for (uint32_t v = 0; v < strip.kVectors; ++v) L::store(a.y + out + c + v * L::kWidth, sums[v] / n, part);
            });
      });
}

template <class L, bool kUnsigned> void avg_pool_8(const AvgPoolS8Args& a) {
  using F = typename L::F;
  using I = typename L::I;
  const uint8_t* x = static_cast<const uint8_t*>(a.x);
  uint8_t* y = static_cast<uint8_t*>(a.y);
  const Rounding<L> rounding(a.c->zero_point, a.c->lo, a.c->hi);
  each_pixel(
      a.g, a.row_begin, a.row_end, [&](const Window& p, uint32_t out, uint32_t oh, uint32_t ow) __attribute__((always_inline)) {
        const F m(multiplier_for(*a.c, counted_rows(a.g, a.rule, oh) * counted_columns(a.g, a.rule, ow)));
        const I zeros(static_cast<int32_t>(p.inside()) * a.c->x_zero);
        for_each_strip<L, kStripVectors>(
            a.g.c, [&](uint32_t c, auto strip, auto part) __attribute__((always_inline)) {
              I sums[strip.kVectors];
              for (I& v : sums) v = I(0);
              each_tap(
                  a.g, p, [&](uint32_t at) __attribute__((always_inline)) {
                    for (uint32_t v = 0; v < strip.kVectors; ++v)
                      sums[v] = sums[v] + L::template load8<kUnsigned>(x + at + c + v * L::kWidth, 0, part);
                  });
              for (uint32_t v = 0; v < strip.kVectors; ++v)
                L::store8(y + out + c + v * L::kWidth, rounding(L::to_float(sums[v] - zeros) * m), part);
            });
      });
}

// Neighbouring means: vectors of them.
template <class L> [[gnu::always_inline]] inline void mean_columns_f32(const MeanF32Args& g) {
  using F = typename L::F;
  const F n(static_cast<float>(g.k));
  for_each_strip<L, kStripVectors>(g.n, [&](uint32_t i, auto strip, auto part) __attribute__((always_inline)) {
    F totals[strip.kVectors], blocks[strip.kVectors];
    for (F& v : totals) v = F(0.0f);
    for (uint32_t begin = 0; begin < g.k; begin += kMeanBlock) {
      const uint32_t end = g.k - begin < kMeanBlock ? g.k : begin + kMeanBlock;
      for (F& v : blocks) v = F(0.0f);
      for (uint32_t j = begin; j < end; ++j) {
        for (uint32_t v = 0; v < strip.kVectors; ++v)
          blocks[v] = blocks[v] + L::load(g.x + i + v * L::kWidth + j * g.k_step, part);
      }
      for (uint32_t v = 0; v < strip.kVectors; ++v) totals[v] = totals[v] + blocks[v];
    }
    for (uint32_t v = 0; v < strip.kVectors; ++v) L::store(g.y + i + v * L::kWidth, totals[v] / n, part);
  });
}

// Contiguous values: kMeanBlock interleaved sums as kMeanBlock / kWidth vectors, then the reference's tree.
template <class L> [[gnu::always_inline]] inline float sum_row_f32(const float* x, uint32_t k) {
  using F = typename L::F;
  constexpr uint32_t kVectors = kMeanBlock / L::kWidth;
  const typename L::Whole whole{};
  F sums[kVectors];
  for (uint32_t v = 0; v < kVectors; ++v) sums[v] = F(0.0f);
  uint32_t j = 0;
  for (; j + kMeanBlock <= k; j += kMeanBlock) {
    for (uint32_t v = 0; v < kVectors; ++v) sums[v] = sums[v] + L::load(x + j + v * L::kWidth, whole);
  }
  float lanes[kMeanBlock];
  for (uint32_t v = 0; v < kVectors; ++v) L::store(lanes + v * L::kWidth, sums[v], whole);
  for (uint32_t i = 0; j < k; ++i, ++j) lanes[i] += x[j];
  for (uint32_t half = kMeanBlock / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

template <class L> void mean_f32(const MeanF32Args& g) {
  if (g.k_step == 1) {
    for (uint32_t i = 0; i < g.n; ++i) g.y[i] = sum_row_f32<L>(g.x + i * g.step, g.k) / static_cast<float>(g.k);
    return;
  }
  mean_columns_f32<L>(g);
}

template <class L, bool kUnsigned> [[gnu::always_inline]] inline void mean_columns_8(const MeanS8Args& g) {
  using F = typename L::F;
  using I = typename L::I;
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  const Rounding<L> rounding(g.c.zero_point, g.c.lo, g.c.hi);
  const F m(g.c.m);
  const I zeros(static_cast<int32_t>(g.k) * g.c.x_zero);
  for_each_strip<L, kStripVectors>(g.n, [&](uint32_t i, auto strip, auto part) __attribute__((always_inline)) {
    I sums[strip.kVectors];
    for (I& v : sums) v = I(0);
    for (uint32_t j = 0; j < g.k; ++j) {
      for (uint32_t v = 0; v < strip.kVectors; ++v)
        sums[v] = sums[v] + L::template load8<kUnsigned>(x + i + v * L::kWidth + j * g.k_step, 0, part);
    }
    for (uint32_t v = 0; v < strip.kVectors; ++v)
      L::store8(y + i + v * L::kWidth, rounding(L::to_float(sums[v] - zeros) * m), part);
  });
}

}  // namespace
}  // namespace lathe::kernels
