#include "kernels/dwconv/dwconv.h"

namespace lathe::kernels {
namespace {

// Calls fn(position in packed weights) for every weight in the order of w[n][kh][kw].
template <class F>
void for_each_s8(uint32_t n, uint32_t kh, uint32_t kw, const F& fn) {
  const size_t quads = (kh + kGemmQuad - 1) / kGemmQuad;
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t p = 0; p < kh; ++p) {
      for (uint32_t q = 0; q < kw; ++q) {
        const size_t quad = (c / kGemmPanel * static_cast<size_t>(kw) + q) * quads + p / kGemmQuad;
        fn((quad * kGemmPanel + c % kGemmPanel) * kGemmQuad + p % kGemmQuad);
      }
    }
  }
}

size_t tap_index(uint32_t c, uint32_t tap, uint32_t taps) {
  return (c / kGemmPanel * static_cast<size_t>(taps) + tap) * kGemmPanel + c % kGemmPanel;
}

template <class T>
void pack_taps(const T* w, uint32_t n, uint32_t taps, T* packed) {
  for (uint32_t c = 0; c < round_up(n, kGemmPanel); ++c) {
    for (uint32_t t = 0; t < taps; ++t) packed[tap_index(c, t, taps)] = c < n ? w[static_cast<size_t>(c) * taps + t] : T{};
  }
}

template <class T>
void unpack_taps(const T* packed, uint32_t n, uint32_t taps, T* w) {
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t t = 0; t < taps; ++t) w[static_cast<size_t>(c) * taps + t] = packed[tap_index(c, t, taps)];
  }
}

}  // namespace

void dwconv_s8_pack(const int8_t* w, uint32_t n, uint32_t kh, uint32_t kw, int8_t* packed) {
  __builtin_memset(packed, 0, dwconv_s8_packed_bytes(n, kh, kw));
  for_each_s8(n, kh, kw, [&](size_t at) { packed[at] = *w++; });
}

void dwconv_s8_unpack(const int8_t* packed, uint32_t n, uint32_t kh, uint32_t kw, int8_t* w) {
  for_each_s8(n, kh, kw, [&](size_t at) { *w++ = packed[at]; });
}

void dwconv_f32_pack(const float* w, uint32_t n, uint32_t kh, uint32_t kw, float* packed) { pack_taps(w, n, kh * kw, packed); }
void dwconv_f32_unpack(const float* packed, uint32_t n, uint32_t kh, uint32_t kw, float* w) {
  unpack_taps(packed, n, kh * kw, w);
}
void dwconv_f16_pack(const uint16_t* w, uint32_t n, uint32_t kh, uint32_t kw, uint16_t* packed) {
  pack_taps(w, n, kh * kw, packed);
}
void dwconv_f16_unpack(const uint16_t* packed, uint32_t n, uint32_t kh, uint32_t kw, uint16_t* w) {
  unpack_taps(packed, n, kh * kw, w);
}

}  // namespace lathe::kernels
