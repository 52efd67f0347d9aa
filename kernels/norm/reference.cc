// Scalar layer normalization.
#include "kernels/norm/norm.h"
#include "lathe/arith.h"

namespace lathe::kernels {
namespace {

template <class T> void layer_norm_8(const LayerNormS8Args& a) {
  for (uint32_t r = 0; r < a.rows; ++r) {
    const T* x = static_cast<const T*>(a.x) + r * a.n;
    T* y = static_cast<T*>(a.y) + r * a.n;
    int32_t sum = 0;
    uint32_t squares = 0;
    for (uint32_t i = 0; i < a.n; ++i) {
      const int32_t q = x[i];
      sum += q;
      squares += static_cast<uint32_t>(q * q);
    }
    const int32_t n = static_cast<int32_t>(a.n);
    const int64_t variance = int64_t{n} * squares - int64_t{sum} * sum;
    const float inverse = layer_norm_inverse(variance, a.c.c);
    for (uint32_t i = 0; i < a.n; ++i)
      y[i] = static_cast<T>(
          layer_norm_quantized(n * x[i] - sum, inverse, a.g[i], a.b[i], a.c.zero_point, a.c.lo, a.c.hi));
  }
}

}  // namespace

void layer_norm_f32_scalar(const LayerNormF32Args& a) {
  const float n = static_cast<float>(a.n);
  for (uint32_t r = 0; r < a.rows; ++r) {
    const float* x = a.x + r * a.n;
    float* y = a.y + r * a.n;
    float sum = 0, squares = 0;
    for (uint32_t i = 0; i < a.n; ++i) sum += x[i];
    const float mean = sum / n;
    for (uint32_t i = 0; i < a.n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.0f / sqrt_f32(squares / n + a.epsilon);
    for (uint32_t i = 0; i < a.n; ++i)
      y[i] = (x[i] - mean) * inverse * a.scale[i] + (a.bias != nullptr ? a.bias[i] : 0.0f);
  }
}

void layer_norm_s8_scalar(const LayerNormS8Args& a) { layer_norm_8<int8_t>(a); }
void layer_norm_u8_scalar(const LayerNormS8Args& a) { layer_norm_8<uint8_t>(a); }

}  // namespace lathe::kernels
