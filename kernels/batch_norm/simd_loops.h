// The loops over a Lanes type. Included by this family's ISA files only, after their lanes.
#pragma once
#include "kernels/batch_norm/batch_norm.h"
#include "kernels/math/simd_math.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

// Channels go in strips of this many vectors; sums of one vector wait for one another, so that such a strip takes as many rows
// side by side.
inline constexpr uint32_t kVectors = 4;

// What n, and so the mask, is made of. It is the same expression in every kernel: forward and backward agree on which values
// the clamp held.
template <class L>
struct Normal {
  typename L::F mean, factor, bias;
  template <class G, class Part>
  Normal(const G& g, uint32_t c, Part part)
      : mean(L::load(g.mean + c, part)), factor(L::load(g.factor + c, part)), bias(L::load(g.bias + c, part)) {}
  [[gnu::always_inline]] typename L::F of(typename L::F d) const { return L::mul_add(d, factor, bias); }
};

template <class L>
[[gnu::always_inline]] inline typename L::F through(const NormalizeClamp& k, typename L::F n, typename L::F dy) {
  using F = typename L::F;
  if (k.clamps == 0) return dy;
  return L::select(F(k.lo) < n, L::select(n < F(k.hi), dy, F(0.0f)), F(0.0f));
}

// sums[v][i]: over rows, of term(row, vector v of the strip, i < kSums). kSide rows side by side, whose sums are added at the
// end.
template <class L, uint32_t kSide, uint32_t kStrip, uint32_t kSums, class Term>
[[gnu::always_inline]] inline void sum_rows(uint32_t rows, typename L::F (&sums)[kStrip][kSums], const Term& term) {
  using F = typename L::F;
  F side[kSide][kStrip][kSums];
  for (auto& s : side)
    for (auto& v : s)
      for (F& f : v) f = F(0.0f);
  uint32_t r = 0;
  for (; r + kSide <= rows; r += kSide) {
    LATHE_UNROLL
    for (uint32_t k = 0; k < kSide; ++k)
      for (uint32_t v = 0; v < kStrip; ++v) term(r + k, v, side[k][v]);
  }
  for (; r < rows; ++r)
    for (uint32_t v = 0; v < kStrip; ++v) term(r, v, side[0][v]);
  for (uint32_t v = 0; v < kStrip; ++v) {
    for (uint32_t i = 0; i < kSums; ++i) {
      sums[v][i] = side[0][v][i];
      for (uint32_t k = 1; k < kSide; ++k) sums[v][i] = sums[v][i] + side[k][v][i];
    }
  }
}

template <class L>
void channel_sums_f32(const ChannelSumsF32Args& g) {
  using F = typename L::F;
  const F rows(static_cast<float>(g.rows));
  for_each_strip<L, kVectors>(
      g.c, [&](uint32_t c, auto strip, auto part) __attribute__((always_inline)) {
        constexpr uint32_t kStrip = decltype(strip)::kVectors, kSide = kVectors / kStrip;
        const float* x = g.x + c;
        F sum[kStrip][1], squares[kStrip][1], mean[kStrip];
        sum_rows<L, kSide>(
            g.rows, sum, [&](uint32_t r, uint32_t v, F * s) __attribute__((always_inline)) {
              s[0] = s[0] + F(L::load(x + static_cast<size_t>(r) * g.c + v * L::kWidth, part));
            });
        for (uint32_t v = 0; v < kStrip; ++v) mean[v] = sum[v][0] / rows;
        sum_rows<L, kSide>(
            g.rows, squares, [&](uint32_t r, uint32_t v, F * s) __attribute__((always_inline)) {
              const F d = F(L::load(x + static_cast<size_t>(r) * g.c + v * L::kWidth, part)) - mean[v];
              s[0] = L::mul_add(d, d, s[0]);
            });
        for (uint32_t v = 0; v < kStrip; ++v) {
          L::store(g.sum + c + v * L::kWidth, sum[v][0], part);
          L::store(g.squares + c + v * L::kWidth, squares[v][0], part);
        }
      });
}

template <class L>
void normalize_f32(const NormalizeF32Args& g) {
  using F = typename L::F;
  for_each_vector<L>(
      g.c, [&](uint32_t c, auto part) __attribute__((always_inline)) {
        const Normal<L> normal(g, c, part);
        for (uint32_t r = 0; r < g.rows; ++r) {
          const size_t at = static_cast<size_t>(r) * g.c + c;
          F n = normal.of(F(L::load(g.x + at, part)) - normal.mean);
          if (g.clamp.clamps != 0) n = clamp_lanes<L>(n, F(g.clamp.lo), F(g.clamp.hi));
          L::store(g.y + at, n, part);
        }
      });
}

template <class L>
void normalize_sums_f32(const NormalizeSumsF32Args& g) {
  using F = typename L::F;
  for_each_vector<L>(
      g.c, [&](uint32_t c, auto part) __attribute__((always_inline)) {
        const Normal<L> normal(g, c, part);
        F sums[1][2];
        sum_rows<L, kVectors>(
            g.rows, sums, [&](uint32_t r, uint32_t, F * s) __attribute__((always_inline)) {
              const size_t at = static_cast<size_t>(r) * g.c + c;
              const F d = F(L::load(g.x + at, part)) - normal.mean;
              const F dy = through<L>(g.clamp, normal.of(d), L::load(g.dy + at, part));
              s[0] = s[0] + dy;
              s[1] = L::mul_add(dy, d, s[1]);
            });
        L::store(g.sum + c, sums[0][0], part);
        L::store(g.product + c, sums[0][1], part);
      });
}

template <class L>
void normalize_grad_f32(const NormalizeGradF32Args& g) {
  using F = typename L::F;
  for_each_vector<L>(
      g.c, [&](uint32_t c, auto part) __attribute__((always_inline)) {
        const Normal<L> normal(g, c, part);
        const F slope(L::load(g.slope + c, part)), offset(L::load(g.offset + c, part));
        for (uint32_t r = 0; r < g.rows; ++r) {
          const size_t at = static_cast<size_t>(r) * g.c + c;
          const F d = F(L::load(g.x + at, part)) - normal.mean;
          const F dy = through<L>(g.clamp, normal.of(d), L::load(g.dy + at, part));
          L::store(g.dx + at, L::neg_mul_add(slope, d, L::mul_add(normal.factor, dy, F(0.0f) - offset)), part);
        }
      });
}

}  // namespace
}  // namespace lathe::kernels
