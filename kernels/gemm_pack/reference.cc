// Reference of run-time packing: the contract, element by element, any strides.
#include "kernels/gemm_pack/gemm_pack.h"

namespace lathe::kernels {

void gemm_pack_s8_scalar(const GemmPackS8Args& g) {
  const uint32_t quads = (g.k + kGemmQuad - 1) / kGemmQuad, padded_n = round_up(g.n, kGemmPanel);
  __builtin_memset(g.packed, 0, gemm_s8_packed_bytes(g.n, 1, g.k));
  for (uint32_t c = 0; c < padded_n; ++c) {
    const uint8_t* column = static_cast<const uint8_t*>(g.b) + static_cast<size_t>(c) * g.n_stride;
    int8_t* to = g.packed + (static_cast<size_t>(c / kGemmPanel) * quads * kGemmPanel + c % kGemmPanel) * kGemmQuad;
    int32_t sum = 0;
    for (uint32_t k = 0; k < g.k && c < g.n; ++k) {
      const auto v = static_cast<int8_t>(column[static_cast<size_t>(k) * g.k_stride] ^ g.flip);
      to[static_cast<size_t>(k / kGemmQuad) * kGemmPanel * kGemmQuad + k % kGemmQuad] = v;
      sum += v;
    }
    g.bias[c] = g.bias_factor * sum;
  }
}

void gemm_pack_f32_scalar(const GemmPackF32Args& g) {
  for (uint32_t c = 0; c < round_up(g.n, kGemmPanel); ++c) {
    const float* column = g.b + static_cast<size_t>(c) * g.n_stride;
    float* to = g.packed + static_cast<size_t>(c / kGemmPanel) * g.k * kGemmPanel + c % kGemmPanel;
    for (uint32_t k = 0; k < g.k; ++k, to += kGemmPanel)
      *to = c < g.n ? column[static_cast<size_t>(k) * g.k_stride] * g.scale : 0.0f;
  }
}

}  // namespace lathe::kernels
