#include "kernels/gemm/gemm.h"

namespace lathe::kernels {
namespace {

// Position in the packed weights of channel c, segment s, element k.
size_t packed_index(uint32_t c, uint32_t s, uint32_t k, uint32_t segs, uint32_t seg_k) {
  const size_t quads = (seg_k + kGemmQuad - 1) / kGemmQuad;
  const size_t quad = (c / kGemmPanel * segs + s) * quads + k / kGemmQuad;
  return (quad * kGemmPanel + c % kGemmPanel) * kGemmQuad + k % kGemmQuad;
}

}  // namespace

void gemm_s8_pack(const int8_t* w, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* packed) {
  __builtin_memset(packed, 0, gemm_s8_packed_bytes(n, segs, seg_k));
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t s = 0; s < segs; ++s) {
      for (uint32_t k = 0; k < seg_k; ++k) packed[packed_index(c, s, k, segs, seg_k)] = *w++;
    }
  }
}

void gemm_s8_unpack(const int8_t* packed, uint32_t n, uint32_t segs, uint32_t seg_k, int8_t* w) {
  for (uint32_t c = 0; c < n; ++c) {
    for (uint32_t s = 0; s < segs; ++s) {
      for (uint32_t k = 0; k < seg_k; ++k) *w++ = packed[packed_index(c, s, k, segs, seg_k)];
    }
  }
}

void gemm_f32_pack(const float* w, uint32_t n, uint32_t segs, uint32_t seg_k, float* packed) {
  const uint32_t k_all = segs * seg_k;
  for (uint32_t c = 0; c < round_up(n, kGemmPanel); ++c) {
    float* panel = packed + static_cast<size_t>(c / kGemmPanel) * k_all * kGemmPanel + c % kGemmPanel;
    for (uint32_t k = 0; k < k_all; ++k)
      panel[static_cast<size_t>(k) * kGemmPanel] = c < n ? w[static_cast<size_t>(c) * k_all + k] : 0.0f;
  }
}

void gemm_f32_unpack(const float* packed, uint32_t n, uint32_t segs, uint32_t seg_k, float* w) {
  const uint32_t k_all = segs * seg_k;
  for (uint32_t c = 0; c < n; ++c) {
    const float* panel = packed + static_cast<size_t>(c / kGemmPanel) * k_all * kGemmPanel + c % kGemmPanel;
    for (uint32_t k = 0; k < k_all; ++k) w[static_cast<size_t>(c) * k_all + k] = panel[static_cast<size_t>(k) * kGemmPanel];
  }
}

}  // namespace lathe::kernels
