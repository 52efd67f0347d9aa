// Reference of the depthwise convolution: the contract, element by element, with any channel multiplier.
#include "kernels/dwconv/dwconv.h"
#include "lathe/arith.h"
#include "lathe/float16.h"

namespace lathe::kernels {
namespace {

// Input pixel under tap (p, q) of output (i, j), or a pixel of padding.
template <class T, class In>
const T* tap(const DwConvInput<In>& in, uint32_t i, uint32_t j, uint32_t p, uint32_t q) {
  const int64_t r = in.row0 + static_cast<int64_t>(i) * in.stride_h + static_cast<int64_t>(p) * in.dilation_h;
  const int64_t s = in.col0 + static_cast<int64_t>(j) * in.stride_w + static_cast<int64_t>(q) * in.dilation_w;
  if (r < 0 || r >= in.rows || s < 0 || s >= in.cols) return static_cast<const T*>(in.pad_row);
  return static_cast<const T*>(in.a) + static_cast<size_t>(r) * in.row_step + static_cast<size_t>(s) * in.col_step;
}

template <class T>  // uint8_t or int8_t: how activations lie in memory
int32_t accumulate(const DwConvS8Args& d, uint32_t i, uint32_t j, uint32_t c) {
  const uint32_t quads = (d.in.kh + kGemmQuad - 1) / kGemmQuad;
  const int8_t* w =
      d.w + static_cast<size_t>(c / kGemmPanel) * d.in.kw * quads * kGemmPanel * kGemmQuad + c % kGemmPanel * kGemmQuad;
  uint32_t acc = static_cast<uint32_t>(d.bias[c]);  // partial sums of a folded bias may wrap
  for (uint32_t p = 0; p < d.in.kh; ++p) {
    for (uint32_t q = 0; q < d.in.kw; ++q) {
      const int32_t weight = w[(q * quads + p / kGemmQuad) * kGemmPanel * kGemmQuad + p % kGemmQuad];
      acc += static_cast<uint32_t>(static_cast<int32_t>(tap<T>(d.in, i, j, p, q)[c / d.multiplier]) * weight);
    }
  }
  return static_cast<int32_t>(acc);
}

template <class T>
void dwconv_s8(const DwConvS8Args& d) {
  for (uint32_t i = 0; i < d.rows; ++i) {
    for (uint32_t j = 0; j < d.cols; ++j) {
      T* y = static_cast<T*>(d.y) + static_cast<size_t>(i) * d.y_row_step + static_cast<size_t>(j) * d.y_col_step;
      const size_t res_at = static_cast<size_t>(i) * d.residual_row_step + static_cast<size_t>(j) * d.residual_col_step;
      for (uint32_t c = 0; c < d.n; ++c) {
        const int32_t acc = accumulate<T>(d, i, j, c);
        const int32_t q = d.residual == nullptr
                              ? requantize(acc, d.scale[c], d.zero_point, d.lo, d.hi)
                              : requantize_residual(acc, d.scale[c], static_cast<const T*>(d.residual)[res_at + c],
                                                    d.residual_zero, d.residual_scale, d.zero_point, d.lo, d.hi);
        y[c] = static_cast<T>(q);
      }
    }
  }
}

float to_f32(float v) { return v; }
float to_f32(uint16_t v) { return half_to_float(v); }
void store(float* y, float v) { *y = v; }
void store(uint16_t* y, float v) { *y = float_to_half(v); }

template <class T>
void dwconv_real(const DwConvRealArgs<T>& d) {
  const uint32_t taps = d.in.kh * d.in.kw;
  for (uint32_t i = 0; i < d.rows; ++i) {
    for (uint32_t j = 0; j < d.cols; ++j) {
      T* y = d.y + static_cast<size_t>(i) * d.y_row_step + static_cast<size_t>(j) * d.y_col_step;
      const size_t res_at = static_cast<size_t>(i) * d.residual_row_step + static_cast<size_t>(j) * d.residual_col_step;
      for (uint32_t c = 0; c < d.n; ++c) {
        const T* w = d.w + static_cast<size_t>(c / kGemmPanel) * taps * kGemmPanel + c % kGemmPanel;
        float acc = d.bias == nullptr ? 0.0f : d.bias[c];
        for (uint32_t p = 0; p < d.in.kh; ++p) {
          for (uint32_t q = 0; q < d.in.kw; ++q, w += kGemmPanel)
            acc += to_f32(tap<T>(d.in, i, j, p, q)[c / d.multiplier]) * to_f32(*w);
        }
        store(y + c, clamp_f32(d.residual == nullptr ? acc : acc + to_f32(d.residual[res_at + c]), d.lo, d.hi));
      }
    }
  }
}

}  // namespace

void dwconv_u8s8s32_scalar(const DwConvS8Args& d) { dwconv_s8<uint8_t>(d); }
void dwconv_s8s8s32_scalar(const DwConvS8Args& d) { dwconv_s8<int8_t>(d); }
void dwconv_f32_scalar(const DwConvF32Args& d) { dwconv_real(d); }
void dwconv_f16_scalar(const DwConvF16Args& d) { dwconv_real(d); }

}  // namespace lathe::kernels
