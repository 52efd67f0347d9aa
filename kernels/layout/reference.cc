// Portable copies and transposes.
#include "kernels/layout/layout.h"

#include <stddef.h>

namespace lathe::kernels {
namespace {

// Elements are moved with memcpy of a constant size, which compiles to one load and store and allows any alignment.
template <uint32_t kBytes> void move(uint8_t* to, const uint8_t* from) { __builtin_memcpy(to, from, kBytes); }

template <uint32_t kBytes> void transpose(const TransposeArgs& g) {
  // Blocks of 8 x 8 elements, so that both sides stay within a few cache lines.
  constexpr uint32_t kBlock = 8;
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  uint8_t* y = static_cast<uint8_t*>(g.y);
  for (uint32_t r0 = 0; r0 < g.rows; r0 += kBlock) {
    const uint32_t r1 = g.rows - r0 < kBlock ? g.rows : r0 + kBlock;
    for (uint32_t c0 = 0; c0 < g.cols; c0 += kBlock) {
      const uint32_t c1 = g.cols - c0 < kBlock ? g.cols : c0 + kBlock;
      for (uint32_t r = r0; r < r1; ++r) {
        const uint8_t* from = x + static_cast<ptrdiff_t>(r) * g.x_row;
        for (uint32_t c = c0; c < c1; ++c) move<kBytes>(y + static_cast<ptrdiff_t>(c) * g.y_row + r * kBytes, from + c * kBytes);
      }
    }
  }
}

// Rows of a constant number of bytes, without a call each.
template <uint32_t kBytes> void copy_rows(const CopyArgs& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    move<kBytes>(static_cast<uint8_t*>(g.y) + static_cast<ptrdiff_t>(r) * g.y_row,
                 static_cast<const uint8_t*>(g.x) + static_cast<ptrdiff_t>(r) * g.x_row);
  }
}

void copy_dense(const CopyArgs& g) {
  const size_t bytes = static_cast<size_t>(g.n) * g.elem_bytes;
  switch (bytes) {
    case 4: return copy_rows<4>(g);
    case 8: return copy_rows<8>(g);
    case 16: return copy_rows<16>(g);
    case 32: return copy_rows<32>(g);
    case 64: return copy_rows<64>(g);
    default: break;
  }
  for (uint32_t r = 0; r < g.rows; ++r) {
    __builtin_memcpy(static_cast<uint8_t*>(g.y) + static_cast<ptrdiff_t>(r) * g.y_row,
                     static_cast<const uint8_t*>(g.x) + static_cast<ptrdiff_t>(r) * g.x_row, bytes);
  }
}

template <uint32_t kBytes> void copy_steps(const CopyArgs& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    const uint8_t* x = static_cast<const uint8_t*>(g.x) + static_cast<ptrdiff_t>(r) * g.x_row;
    uint8_t* y = static_cast<uint8_t*>(g.y) + static_cast<ptrdiff_t>(r) * g.y_row;
    for (uint32_t i = 0; i < g.n; ++i) move<kBytes>(y + i * kBytes, x + static_cast<ptrdiff_t>(i) * g.x_step);
  }
}

template <uint32_t kBytes> void fill_as(uint8_t* y, uint32_t n, uint64_t value) {
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t b = 0; b < kBytes; ++b) y[i * kBytes + b] = static_cast<uint8_t>(value >> (8 * b));
  }
}

}  // namespace

void transpose_scalar(const TransposeArgs& g) {
  switch (g.elem_bytes) {
    case 1: return transpose<1>(g);
    case 2: return transpose<2>(g);
    case 4: return transpose<4>(g);
    default: return transpose<8>(g);
  }
}

void copy_scalar(const CopyArgs& g) {
  if (g.n == 0) return;  // an empty tensor may have no address
  if (g.x_step == static_cast<int32_t>(g.elem_bytes)) return copy_dense(g);
  switch (g.elem_bytes) {
    case 1: return copy_steps<1>(g);
    case 2: return copy_steps<2>(g);
    case 4: return copy_steps<4>(g);
    default: return copy_steps<8>(g);
  }
}

void fill(void* y, uint32_t n, uint32_t elem_bytes, uint64_t value) {
  if (n == 0) return;
  uint8_t* to = static_cast<uint8_t*>(y);
  switch (elem_bytes) {
    case 1: __builtin_memset(to, static_cast<int>(value & 0xff), n); return;
    case 2: return fill_as<2>(to, n, value);
    case 4: return fill_as<4>(to, n, value);
    default: return fill_as<8>(to, n, value);
  }
}

}  // namespace lathe::kernels
