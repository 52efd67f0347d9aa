// Reference of the segment GEMM: the contract, element by element.
#include "kernels/gemm/gemm.h"
#include "lathe/arith.h"
#include "lathe/float16.h"

namespace lathe::kernels {
namespace {

// Calls fn(a's offset, w's offset, k's count) for every segment of a pixel of channel panel 0.
template <class F>
void for_each_segment(const GemmGeometry& g, const F& fn) {
  for (uint32_t i = 0; i < g.seg_rows; ++i) {
    for (uint32_t j = 0; j < g.seg_cols; ++j) {
      fn(static_cast<ptrdiff_t>(i) * g.a_seg_row_step + static_cast<ptrdiff_t>(j) * g.a_seg_col_step,
         static_cast<size_t>(i) * g.w_seg_row_step + static_cast<size_t>(j) * g.w_seg_col_step);
    }
  }
}

// Calls fn(pixel, a's offset, y's offset, residual's offset) for every pixel.
template <class F>
void for_each_pixel(const GemmGeometry& g, const F& fn) {
  for (uint32_t i = 0, pixel = 0; i < g.rows; ++i) {
    for (uint32_t j = 0; j < g.cols; ++j, ++pixel) {
      fn(pixel, static_cast<size_t>(i) * g.a_row_step + static_cast<size_t>(j) * g.a_col_step,
         static_cast<size_t>(i) * g.y_row_step + static_cast<size_t>(j) * g.y_col_step,
         static_cast<size_t>(i) * g.residual_row_step + static_cast<size_t>(j) * g.residual_col_step);
    }
  }
}

// bias + sum a w of channel c for the pixel at `a`, and sum a if `row_sum` is not null. Partial sums of a folded bias may wrap;
// the full sum does not.
template <class T>
int32_t sum_of(const GemmGeometry& g, const T* a, const int8_t* w, const int32_t* bias, uint32_t c, int32_t* row_sum) {
  const int8_t* panel = w + static_cast<size_t>(c / kGemmPanel) * g.w_panel_step + c % kGemmPanel * kGemmQuad;
  uint32_t acc = static_cast<uint32_t>(bias[c]), sum = 0;
  for_each_segment(g, [&](ptrdiff_t a_at, size_t w_at) {
    for (uint32_t k = 0; k < g.seg_k; ++k) {
      const int32_t weight = panel[w_at + k / kGemmQuad * kGemmPanel * kGemmQuad + k % kGemmQuad], value = a[a_at + k];
      acc += static_cast<uint32_t>(value * weight);
      sum += static_cast<uint32_t>(value);
    }
  });
  if (row_sum != nullptr) *row_sum = static_cast<int32_t>(sum);
  return static_cast<int32_t>(acc);
}

template <class T>  // uint8_t or int8_t: how activations lie in memory
void gemm_s8(const GemmS8Args& g, const int32_t* w_zero) {
  for_each_pixel(g.geo, [&](uint32_t, size_t a_at, size_t y_at, size_t residual_at) {
    const T* a = static_cast<const T*>(g.a) + a_at;
    const T* res = g.residual == nullptr ? nullptr : static_cast<const T*>(g.residual) + residual_at;
    T* y = static_cast<T*>(g.y) + y_at;
    for (uint32_t c = 0; c < g.geo.n; ++c) {
      int32_t row_sum = 0;
      int32_t sum = sum_of(g.geo, a, g.w, g.bias, c, w_zero == nullptr ? nullptr : &row_sum);
      if (w_zero != nullptr) {
        const uint32_t zeros = static_cast<uint32_t>(w_zero[c]) * static_cast<uint32_t>(row_sum);
        sum = static_cast<int32_t>(static_cast<uint32_t>(sum) - zeros);
      }
      const int32_t q = res == nullptr ? requantize(sum, g.scale[c], g.zero_point, g.lo, g.hi)
                                       : requantize_residual(sum, g.scale[c], res[c], g.residual_zero, g.residual_scale,
                                                             g.zero_point, g.lo, g.hi);
      y[c] = static_cast<T>(q);
    }
  });
}

template <class T>
void gemm_s8_f32(const GemmS8F32Args& g) {
  for_each_pixel(g.geo, [&](uint32_t pixel, size_t a_at, size_t y_at, size_t residual_at) {
    const T* a = static_cast<const T*>(g.a) + a_at;
    const float row_scale = g.row_scale[static_cast<size_t>(pixel) * g.row_scale_step];
    for (uint32_t c = 0; c < g.geo.n; ++c) {
      float v = dequantize_sum(sum_of(g.geo, a, g.w, g.bias, c, nullptr), row_scale, g.scale[c]);
      if (g.bias_f32 != nullptr) v += g.bias_f32[c];
      if (g.residual != nullptr) v += g.residual[residual_at + c];
      g.y[y_at + c] = clamp_f32(v, g.lo, g.hi);
    }
  });
}

float to_f32(float v) { return v; }
float to_f32(uint16_t v) { return half_to_float(v); }
void store(float* y, float v) { *y = v; }
void store(uint16_t* y, float v) { *y = float_to_half(v); }

template <class T>
void gemm_real(const GemmRealArgs<T>& g) {
  for_each_pixel(g.geo, [&](uint32_t, size_t a_at, size_t y_at, size_t residual_at) {
    for (uint32_t c = 0; c < g.geo.n; ++c) {
      const T* panel = g.w + static_cast<size_t>(c / kGemmPanel) * g.geo.w_panel_step + c % kGemmPanel;
      float acc = g.bias == nullptr ? 0.0f : g.bias[c];
      for_each_segment(g.geo, [&](ptrdiff_t seg_a, size_t seg_w) {
        const T *a = g.a + a_at + seg_a, *w = panel + seg_w;
        for (uint32_t k = 0; k < g.geo.seg_k; ++k, w += kGemmPanel) acc += to_f32(a[k]) * to_f32(*w);
      });
      if (g.residual != nullptr) acc += to_f32(g.residual[residual_at + c]);
      store(g.y + y_at + c, clamp_f32(acc, g.lo, g.hi));
    }
  });
}

}  // namespace

void gemm_u8s8s32_scalar(const GemmS8Args& g) { gemm_s8<uint8_t>(g, nullptr); }
void gemm_s8s8s32_scalar(const GemmS8Args& g) { gemm_s8<int8_t>(g, nullptr); }
void gemm_u8s8zws32_scalar(const GemmS8ZwArgs& g) { gemm_s8<uint8_t>(g.s8, g.w_zero); }
void gemm_s8s8zws32_scalar(const GemmS8ZwArgs& g) { gemm_s8<int8_t>(g.s8, g.w_zero); }
void gemm_u8s8f32_scalar(const GemmS8F32Args& g) { gemm_s8_f32<uint8_t>(g); }
void gemm_s8s8f32_scalar(const GemmS8F32Args& g) { gemm_s8_f32<int8_t>(g); }

void gemm_f32_scalar(const GemmF32Args& g) { gemm_real(g); }
void gemm_f16_scalar(const GemmF16Args& g) { gemm_real(g); }

}  // namespace lathe::kernels
