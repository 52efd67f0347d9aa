#include "kernels/dwconv/dwconv.h"

namespace lathe::kernels {
namespace {

// Position in the packed weights of channel c, kernel row p, kernel column q.
size_t s8_index(uint32_t c, uint32_t p, uint32_t q, uint32_t kh, uint32_t kw) {
  const size_t quads = (kh + kGemmQuad - 1) / kGemmQuad;
  const size_t quad = (c / kGemmPanel * static_cast<size_t>(kw) + q) * quads + p / kGemmQuad;
  return (quad * kGemmPanel + c % kGemmPanel) * kGemmQuad + p % kGemmQuad;
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
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t p = 0; p < kh; ++p) {
      for (uint32_t q = 0; q < kw; ++q) packed[s8_index(c, p, q, kh, kw)] = *w++;
    }
  }
}

void dwconv_s8_unpack(const int8_t* packed, uint32_t n, uint32_t kh, uint32_t kw, int8_t* w) {
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t p = 0; p < kh; ++p) {
      for (uint32_t q = 0; q < kw; ++q) *w++ = packed[s8_index(c, p, q, kh, kw)];
    }
  }
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
