// Register tiles of y over a Lanes type: kRows rows of kVectors vectors, which stay in registers while all pixels pass. Included
// by this family's ISA files only, after their lanes.
#pragma once
#include "kernels/gemm_tn/gemm_tn.h"
#include "kernels/math/simd_math.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

template <class L, int kRows, int kVectors, class Part>
void gemm_tn_tile(const GemmTnF32Args& g, uint32_t r, uint32_t c, Part part) {
  using F = typename L::F;
  float* y = g.y + static_cast<size_t>(r) * g.y_step + c;
  F acc[kRows * kVectors];
  LATHE_UNROLL
  for (int k = 0; k < kRows * kVectors; ++k) {
    const float* from = y + static_cast<size_t>(k / kVectors) * g.y_step + static_cast<uint32_t>(k % kVectors) * L::kWidth;
    acc[k] = g.add != 0 ? F(L::load(from, part)) : F(0.0f);
  }
  for (uint32_t i = 0; i < g.rows; ++i) {
    const float* a = g.a + static_cast<size_t>(i) * g.a_row_step + r;
    const float* b = g.b + static_cast<size_t>(i) * g.b_row_step + c;
    for (uint32_t j = 0; j < g.cols; ++j, a += g.a_col_step, b += g.b_col_step) {
      F v[kVectors];
      LATHE_UNROLL
      for (int z = 0; z < kVectors; ++z) v[z] = L::load(b + static_cast<uint32_t>(z) * L::kWidth, part);
      LATHE_UNROLL
      for (int k = 0; k < kRows * kVectors; ++k) acc[k] = L::mul_add(F(a[k / kVectors]), v[k % kVectors], acc[k]);
    }
  }
  LATHE_UNROLL
  for (int k = 0; k < kRows * kVectors; ++k)
    L::store(y + static_cast<size_t>(k / kVectors) * g.y_step + static_cast<uint32_t>(k % kVectors) * L::kWidth, acc[k], part);
}

template <class L, int kRows, int kVectors>
void gemm_tn_f32(const GemmTnF32Args& g) {
  if (g.m == 0) return;
  for_each_strip<L, kVectors>(g.n, [&](uint32_t c, auto strip, auto part) {
    uint32_t r = 0;
    for_each_tile_size<kRows>(g.m, [&]<int kTile>(uint32_t count) {
      for (; count > 0; --count, r += kTile) gemm_tn_tile<L, kTile, static_cast<int>(decltype(strip)::kVectors)>(g, r, c, part);
    });
  });
}

}  // namespace
}  // namespace lathe::kernels
