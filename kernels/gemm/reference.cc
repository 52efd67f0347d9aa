// Reference of the segment GEMM: the contract, element by element.
#include "kernels/gemm/gemm.h"
#include "lathe/arith.h"

namespace lathe::kernels {
namespace {

template <class T>  // uint8_t or int8_t: how activations lie in memory
void gemm_s8(const GemmS8Args& g) {
  const uint32_t quads = (g.seg_k + kGemmQuad - 1) / kGemmQuad;
  const uint32_t panel_bytes = gemm_s8_panel_bytes(g.segs, g.seg_k);
  for (uint32_t r = 0; r < g.m; ++r) {
    const T* a = static_cast<const T*>(g.a) + static_cast<size_t>(r) * g.a_stride;
    const T* res =
        g.residual == nullptr ? nullptr : static_cast<const T*>(g.residual) + static_cast<size_t>(r) * g.residual_stride;
    T* y = static_cast<T*>(g.y) + static_cast<size_t>(r) * g.y_stride;
    for (uint32_t c = 0; c < g.n; ++c) {
      const int8_t* w = g.w + static_cast<size_t>(c / kGemmPanel) * panel_bytes + c % kGemmPanel * kGemmQuad;
      // Partial sums of a folded bias may wrap; the full sum does not.
      uint32_t acc = static_cast<uint32_t>(g.bias[c]);
      for (uint32_t s = 0; s < g.segs; ++s) {
        for (uint32_t k = 0; k < g.seg_k; ++k) {
          const int32_t weight = w[(s * quads + k / kGemmQuad) * kGemmPanel * kGemmQuad + k % kGemmQuad];
          acc += static_cast<uint32_t>(static_cast<int32_t>(a[g.seg_offset[s] + static_cast<ptrdiff_t>(k)]) * weight);
        }
      }
      const int32_t sum = static_cast<int32_t>(acc);
      const int32_t q = res == nullptr ? requantize(sum, g.scale[c], g.zero_point, g.lo, g.hi)
                                       : requantize_residual(sum, g.scale[c], res[c], g.residual_zero, g.residual_scale,
                                                             g.zero_point, g.lo, g.hi);
      y[c] = static_cast<T>(q);
    }
  }
}

}  // namespace

void gemm_u8s8s32_scalar(const GemmS8Args& g) { gemm_s8<uint8_t>(g); }
void gemm_s8s8s32_scalar(const GemmS8Args& g) { gemm_s8<int8_t>(g); }

void gemm_f32_scalar(const GemmF32Args& g) {
  const uint32_t panel_elems = g.segs * g.seg_k * kGemmPanel;
  for (uint32_t r = 0; r < g.m; ++r) {
    const float* a = g.a + static_cast<size_t>(r) * g.a_stride;
    const float* res = g.residual == nullptr ? nullptr : g.residual + static_cast<size_t>(r) * g.residual_stride;
    float* y = g.y + static_cast<size_t>(r) * g.y_stride;
    for (uint32_t c = 0; c < g.n; ++c) {
      const float* w = g.w + static_cast<size_t>(c / kGemmPanel) * panel_elems + c % kGemmPanel;
      float acc = g.bias == nullptr ? 0.0f : g.bias[c];
      for (uint32_t s = 0; s < g.segs; ++s) {
        for (uint32_t k = 0; k < g.seg_k; ++k, w += kGemmPanel) acc += a[g.seg_offset[s] + static_cast<ptrdiff_t>(k)] * *w;
      }
      y[c] = clamp_f32(res == nullptr ? acc : acc + res[c], g.lo, g.hi);
    }
  }
}

}  // namespace lathe::kernels
