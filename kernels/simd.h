// What the ISA files share that is no instruction set's own.
#pragma once
#include <stdint.h>

// Unrolls the next loop whole: register tiles are arrays that must dissolve into registers.
#if defined(__clang__)
#define LATHE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LATHE_UNROLL _Pragma("GCC unroll 32")
#endif

namespace lathe::kernels {
namespace {

// Calls fn.operator()<rows>() with rows in [1, kMax] as a constant.
template <int kMax, class F>
inline __attribute__((always_inline)) void with_rows(uint32_t rows, const F& fn) {
  if constexpr (kMax > 1) {
    if (rows != kMax) return with_rows<kMax - 1>(rows, fn);
  }
  fn.template operator()<kMax>();
}

// Cuts m pixels or rows into tiles of at most kMax and of even size: 14 are 7 + 7, not 12 + 2. Calls fn.operator()<rows>(tiles),
// once or twice, in order.
template <int kMax, class F>
inline __attribute__((always_inline)) void for_each_tile_size(uint32_t m, const F& fn) {
  const uint32_t tiles = (m + kMax - 1) / kMax, base = m / tiles, larger = m % tiles;
  if (larger != 0) with_rows<kMax>(base + 1, [&]<int kRows>() { fn.template operator()<kRows>(larger); });
  with_rows<kMax>(base, [&]<int kRows>() { fn.template operator()<kRows>(tiles - larger); });
}

}  // namespace
}  // namespace lathe::kernels
