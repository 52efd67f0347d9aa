// Concrete shapes (all dims known), as bind and run see them. Symbolic dims live in graph/dim.h.
#pragma once
#include <stdint.h>

namespace lathe {

inline constexpr uint32_t kMaxRank = 8;

// Row-major dims, outermost first. Entries at and past `rank` are 0. A dim of 0 is an empty tensor.
struct Shape {
  int32_t dims[kMaxRank] = {};
  uint32_t rank = 0;

  constexpr bool operator==(const Shape&) const = default;
  constexpr int32_t operator[](uint32_t i) const { return dims[i]; }

  // Number of elements; 1 for rank 0. Requires: checked_elems() accepted this shape.
  constexpr uint32_t elems() const { return elems(0, rank); }
  // Product of dims[begin, end).
  constexpr uint32_t elems(uint32_t begin, uint32_t end) const {
    uint32_t n = 1;
    for (uint32_t i = begin; i < end; ++i) n *= static_cast<uint32_t>(dims[i]);
    return n;
  }
};

// The number of elements, or false if a dim is negative, the rank is over kMaxRank, or elements times
// `elem_bytes` does not fit 31 bits. No 64-bit division, so that the core can use it.
constexpr bool checked_elems(const Shape& s, uint32_t elem_bytes, uint32_t* elems) {
  if (s.rank > kMaxRank) return false;
  uint64_t n = 1;
  bool empty = false;
  for (uint32_t i = 0; i < s.rank; ++i) {
    if (s.dims[i] < 0) return false;
    if (s.dims[i] == 0) empty = true;
    n *= s.dims[i] == 0 ? 1u : static_cast<uint32_t>(s.dims[i]);
    if (n > 0x7fffffffu) return false;
  }
  if (n * (elem_bytes == 0 ? 1 : elem_bytes) > 0x7fffffffu) return false;
  *elems = empty ? 0 : static_cast<uint32_t>(n);
  return true;
}

}  // namespace lathe
