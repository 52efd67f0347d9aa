// The transformations over a Lanes type, or over single floats (reference.cc). Included by this family's files only, after their
// lanes.
#pragma once
#include "kernels/simd.h"
#include "kernels/winograd/winograd.h"

namespace lathe::kernels {
namespace {

#define LATHE_FLAT [[gnu::always_inline]] static inline

// One axis of B^T x B: six values in place.
struct InputTransform {
  static constexpr int kIn = 6;
  template <class L, class F>
  LATHE_FLAT void apply(F* d) {
    const F a = L::neg_mul_add(F(4.0f), d[2], d[4]), b = L::neg_mul_add(F(4.0f), d[1], d[3]);
    const F c = d[4] - d[2], e = d[3] - d[1];
    const F first = L::mul_add(F(4.0f), d[0], L::neg_mul_add(F(5.0f), d[2], d[4]));
    const F last = L::mul_add(F(4.0f), d[1], L::neg_mul_add(F(5.0f), d[3], d[5]));
    d[0] = first;
    d[1] = a + b;
    d[2] = a - b;
    d[3] = L::mul_add(F(2.0f), e, c);
    d[4] = L::neg_mul_add(F(2.0f), e, c);
    d[5] = last;
  }
};

// One axis of A x A^T: four values become six.
struct GradientTransform {
  static constexpr int kIn = 4;
  template <class L, class F>
  LATHE_FLAT void apply(F* d) {
    const F even = d[0] + d[2], odd = d[1] + d[3];
    const F even2 = L::mul_add(F(4.0f), d[2], d[0]), odd2 = L::mul_add(F(8.0f), d[3], F(d[1] + d[1]));
    d[5] = d[3];
    d[1] = even + odd;
    d[2] = even - odd;
    d[3] = even2 + odd2;
    d[4] = even2 - odd2;
  }
};

// One axis of A^T m A: six values become four.
template <class L, class F>
LATHE_FLAT void output_transform(F* m) {
  const F s = m[1] + m[2], d = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
  m[0] = m[0] + s + s2;
  m[1] = L::mul_add(F(2.0f), d2, d);
  m[2] = L::mul_add(F(4.0f), s2, s);
  m[3] = L::mul_add(F(8.0f), d2, F(d + m[5]));
}

// Which of a patch's rows or columns lie in the image, when its first is at `at`.
struct Within {
  int32_t begin, end;
};
inline Within within(int32_t at, uint32_t size, int count) {
  const int32_t left = static_cast<int32_t>(size) - at;
  Within w{at < 0 ? -at : 0, left < count ? left : count};
  if (w.begin > count) w.begin = count;
  if (w.end < w.begin) w.end = w.begin;
  return w;
}

// One vector of channels of one tile; x: of its first pixel, which need not be in the image.
template <class L, class T, bool kWhole, class Part>
LATHE_FLAT void tile_to_points(const WinogradTilesF32Args& g, const float* x, Within rows, Within cols, float* v, Part part) {
  using F = typename L::F;
  constexpr int kIn = T::kIn, kPatch = static_cast<int>(kWinogradPatch);
  const ptrdiff_t pixel = static_cast<ptrdiff_t>(g.pixel), row = pixel * static_cast<ptrdiff_t>(g.cols);
  F t[kPatch * kIn];
  LATHE_UNROLL
  for (int j = 0; j < kIn; ++j) {
    F d[kPatch];
    LATHE_UNROLL
    for (int i = 0; i < kIn; ++i) {
      const bool inside = kWhole || (i >= rows.begin && i < rows.end && j >= cols.begin && j < cols.end);
      d[i] = inside ? F(L::load(x + i * row + j * pixel, part)) : F(0.0f);
    }
    T::template apply<L>(d);
    LATHE_UNROLL
    for (int i = 0; i < kPatch; ++i) t[i * kIn + j] = d[i];
  }
  LATHE_UNROLL
  for (int i = 0; i < kPatch; ++i) {
    F d[kPatch];
    LATHE_UNROLL
    for (int j = 0; j < kIn; ++j) d[j] = t[i * kIn + j];
    T::template apply<L>(d);
    LATHE_UNROLL
    for (int j = 0; j < kPatch; ++j) L::store(v + static_cast<size_t>(i * kPatch + j) * g.point_step, d[j], part);
  }
}

template <class L, class T, class EachVector>
LATHE_FLAT void to_points(const WinogradTilesF32Args& g, const EachVector& each) {
  constexpr int kIn = T::kIn;
  const Within rows = within(g.row, g.rows, kIn);
  for (uint32_t t = 0; t < g.tiles; ++t) {
    const int32_t col = g.col + static_cast<int32_t>(t * kWinogradTile);
    const Within cols = within(col, g.cols, kIn);
    const float* x =
        g.x + (static_cast<ptrdiff_t>(g.row) * static_cast<ptrdiff_t>(g.cols) + col) * static_cast<ptrdiff_t>(g.pixel);
    float* v = g.v + static_cast<size_t>(t) * g.channels;
    if (rows.end - rows.begin == kIn && cols.end - cols.begin == kIn) {
      each(
          g.channels, [&](uint32_t c, auto part)
                          __attribute__((always_inline)) { tile_to_points<L, T, true>(g, x + c, rows, cols, v + c, part); });
    } else {
      each(
          g.channels, [&](uint32_t c, auto part)
                          __attribute__((always_inline)) { tile_to_points<L, T, false>(g, x + c, rows, cols, v + c, part); });
    }
  }
}

// One vector of channels of one tile; at: where its first pixel lies in the image, `rows` x `cols` of it are there.
template <class L, class Part>
LATHE_FLAT void tile_from_points(const WinogradOutputF32Args& g, const float* m, uint32_t c, size_t at, int rows, int cols,
                                 Part part) {
  using F = typename L::F;
  constexpr int kPatch = static_cast<int>(kWinogradPatch), kTile = static_cast<int>(kWinogradTile);
  F t[kTile * kPatch];
  LATHE_UNROLL
  for (int j = 0; j < kPatch; ++j) {
    F d[kPatch];
    LATHE_UNROLL
    for (int i = 0; i < kPatch; ++i) d[i] = L::load(m + static_cast<size_t>(i * kPatch + j) * g.point_step, part);
    output_transform<L>(d);
    LATHE_UNROLL
    for (int i = 0; i < kTile; ++i) t[i * kPatch + j] = d[i];
  }
  const F bias = g.bias == nullptr ? F(0.0f) : F(L::load(g.bias + c, part));
  for (int i = 0; i < rows; ++i) {
    F d[kPatch];
    LATHE_UNROLL
    for (int j = 0; j < kPatch; ++j) d[j] = t[i * kPatch + j];
    output_transform<L>(d);
    LATHE_UNROLL
    for (int j = 0; j < kTile; ++j) {
      if (j >= cols) continue;
      const size_t to = at + (static_cast<size_t>(i) * g.cols + static_cast<size_t>(j)) * g.channels + c;
      F y = d[j] + bias;
      if (g.residual != nullptr) y = y + F(L::load(g.residual + to, part));
      L::store(g.y + to, L::min(F(g.hi), L::max(F(g.lo), y)), part);
    }
  }
}

template <class L, class EachVector>
LATHE_FLAT void from_points(const WinogradOutputF32Args& g, const EachVector& each) {
  const int rows = static_cast<int>(g.rows - g.row < kWinogradTile ? g.rows - g.row : kWinogradTile);
  for (uint32_t t = 0; t < g.tiles; ++t) {
    const uint32_t col = g.col + t * kWinogradTile, left = g.cols - col;
    const int cols = static_cast<int>(left < kWinogradTile ? left : kWinogradTile);
    const size_t at = (static_cast<size_t>(g.row) * g.cols + col) * g.channels;
    const float* m = g.m + static_cast<size_t>(t) * g.channels;
    each(
        g.channels, [&](uint32_t c, auto part)
                        __attribute__((always_inline)) { tile_from_points<L>(g, m + c, c, at, rows, cols, part); });
  }
}

}  // namespace
}  // namespace lathe::kernels
