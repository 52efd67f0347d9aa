#include "kernels/gemm/gemm.h"

namespace lathe::kernels {
namespace {

// Calls fn(position in packed weights) for every weight in the order of w[n][segs * seg_k]: channel, segment, k.
template <class F>
void for_each_s8(uint32_t n, uint32_t segs, uint32_t seg_k, const F& fn) {
  const size_t quads = (seg_k + kGemmQuad - 1) / kGemmQuad;
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t s = 0; s < segs; ++s) {
      for (uint32_t k = 0; k < seg_k; ++k) {
        const size_t quad = (c / kGemmPanel * segs + s) * quads + k / kGemmQuad;
        fn((quad * kGemmPanel + c % kGemmPanel) * kGemmQuad + k % kGemmQuad);
      }
    }
  }
}

template <class F>
void for_each_f32(uint32_t n, uint32_t k_all, const F& fn) {
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t k = 0; k < k_all; ++k) fn((c / kGemmPanel * static_cast<size_t>(k_all) + k) * kGemmPanel + c % kGemmPanel);
  }
}

template <class T>
void pack_real(const T* w, uint32_t n, uint32_t k_all, T* packed) {
  for (uint32_t c = 0; c < round_up(n, kGemmPanel); ++c) {
    T* panel = packed + static_cast<size_t>(c / kGemmPanel) * k_all * kGemmPanel + c % kGemmPanel;
    for (uint32_t k = 0; k < k_all; ++k)
      panel[static_cast<size_t>(k) * kGemmPanel] = c < n ? w[static_cast<size_t>(c) * k_all + k] : T{};
  }
}

template <class T>
void unpack_real(const T* packed, uint32_t n, uint32_t k_all, T* w) {
  for (uint32_t c = 0; c < n; ++c) {
    const T* panel = packed + static_cast<size_t>(c / kGemmPanel) * k_all * kGemmPanel + c % kGemmPanel;
    for (uint32_t k = 0; k < k_all; ++k) w[static_cast<size_t>(c) * k_all + k] = panel[static_cast<size_t>(k) * kGemmPanel];
  }
}

}  // namespace

void gemm_s8_pack(const int8_t* w, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* packed) {
  __builtin_memset(packed, 0, gemm_s8_packed_bytes(n, segs, seg_k));
  for_each_s8(n, segs, seg_k, [&](size_t at) { packed[at] = *w++; });
}

void gemm_s8_unpack(const int8_t* packed, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* w) {
  for_each_s8(n, segs, seg_k, [&](size_t at) { *w++ = packed[at]; });
}

void gemm_f32_pack(const float* w, uint32_t n, uint32_t segs, uint32_t seg_k, float* packed) {
  pack_real(w, n, segs * seg_k, packed);
}
void gemm_f32_unpack(const float* packed, uint32_t n, uint32_t segs, uint32_t seg_k, float* w) {
  unpack_real(packed, n, segs * seg_k, w);
}
void gemm_f16_pack(const uint16_t* w, uint32_t n, uint32_t segs, uint32_t seg_k, uint16_t* packed) {
  pack_real(w, n, segs * seg_k, packed);
}
void gemm_f16_unpack(const uint16_t* packed, uint32_t n, uint32_t segs, uint32_t seg_k, uint16_t* w) {
  unpack_real(packed, n, segs * seg_k, w);
}

}  // namespace lathe::kernels
