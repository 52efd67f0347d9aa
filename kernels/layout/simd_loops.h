// Transposes in registers, 16 bytes by 16 bytes, over a set V of vector operations. Included by this family's ISA files only.
//
// V has: Bytes, a vector of 16; load, store; interleave_low and interleave_high<element bytes>, the elements of the lower or the
// upper halves of two vectors in turn; interleave_planes<element bytes> for 1, 2 and 4, which turns three rows into dense pixels of
// three elements (an image's planes to NHWC) and returns the columns done.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "kernels/layout/layout.h"

namespace lathe::kernels {
namespace {

// A square of kN x kN elements, kN = 16 / kBytes. Interleaving rows i and i + kN / 2 into rows 2 i and 2 i + 1 rotates the
// bits of the flattened index (row, column) by one; after log2(kN) rounds row and column have changed places.
template <class V, uint32_t kBytes>
void transpose_square(const uint8_t* x, ptrdiff_t x_row, uint8_t* y, ptrdiff_t y_row) {
  constexpr uint32_t kN = 16 / kBytes;
  typename V::Bytes v[kN], w[kN];
  for (uint32_t i = 0; i < kN; ++i) v[i] = V::load(x + static_cast<ptrdiff_t>(i) * x_row);
  for (uint32_t round = 1; round < kN; round *= 2) {
    for (uint32_t i = 0; i < kN / 2; ++i) {
      w[2 * i] = V::template interleave_low<kBytes>(v[i], v[i + kN / 2]);
      w[2 * i + 1] = V::template interleave_high<kBytes>(v[i], v[i + kN / 2]);
    }
    for (uint32_t i = 0; i < kN; ++i) v[i] = w[i];
  }
  for (uint32_t i = 0; i < kN; ++i) V::store(y + static_cast<ptrdiff_t>(i) * y_row, v[i]);
}

template <uint32_t kBytes> void transpose_edge(const TransposeArgs& g, uint32_t r0, uint32_t r1, uint32_t c0, uint32_t c1) {
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  for (uint32_t c = c0; c < c1; ++c) {
    for (uint32_t r = r0; r < r1; ++r) {
      __builtin_memcpy(y + static_cast<ptrdiff_t>(c) * g.y_row + r * kBytes, x + static_cast<ptrdiff_t>(r) * g.x_row + c * kBytes,
                       kBytes);
    }
  }
}

// Strips of columns that fill a cache line of x; within a strip y is written row by row.
template <class V, uint32_t kBytes> void transpose(const TransposeArgs& g) {
  constexpr uint32_t kN = 16 / kBytes, kStrip = 64 / kBytes;
  const uint32_t rows = g.rows / kN * kN, cols = g.cols / kN * kN;
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  if constexpr (kBytes <= 4) {
    if (g.rows == 3 && g.y_row == 3 * static_cast<int32_t>(kBytes))
      return transpose_edge<kBytes>(g, 0, g.rows, V::template interleave_planes<kBytes>(x, g.x_row, g.cols, y), g.cols);
  }
  for (uint32_t strip = 0; strip < cols; strip += kStrip) {
    const uint32_t end = cols - strip < kStrip ? cols : strip + kStrip;
    for (uint32_t r = 0; r < rows; r += kN) {
      for (uint32_t c = strip; c < end; c += kN) {
        transpose_square<V, kBytes>(x + static_cast<ptrdiff_t>(r) * g.x_row + c * kBytes, g.x_row,
                                    y + static_cast<ptrdiff_t>(c) * g.y_row + r * kBytes, g.y_row);
      }
    }
  }
  if (rows < g.rows) transpose_edge<kBytes>(g, rows, g.rows, 0, g.cols);
  if (cols < g.cols) transpose_edge<kBytes>(g, 0, rows, cols, g.cols);
}

template <class V> void transpose_any(const TransposeArgs& g) {
  switch (g.elem_bytes) {
    case 1: return transpose<V, 1>(g);
    case 2: return transpose<V, 2>(g);
    case 4: return transpose<V, 4>(g);
    default: return transpose<V, 8>(g);
  }
}

}  // namespace
}  // namespace lathe::kernels
