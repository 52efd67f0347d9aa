// Scalar softmax.
#include "kernels/math/math.h"
#include "kernels/softmax/softmax.h"
#include "lathe/arith.h"

namespace lathe::kernels {
namespace {

template <class T> void softmax_row(const T* x, T* y, uint32_t n, const uint16_t* table, int32_t shift) {
  int32_t highest = x[0];
  for (uint32_t i = 1; i < n; ++i) highest = x[i] > highest ? x[i] : highest;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += table[highest - x[i]];
  for (uint32_t i = 0; i < n; ++i) y[i] = static_cast<T>(softmax_quantized(table[highest - x[i]], sum) + shift);
}

template <class T> void softmax_8(const SoftmaxS8Args& g, Storage storage) {
  if (g.n == 0) return;
  for (uint32_t r = 0; r < g.rows; ++r) {
    softmax_row(static_cast<const T*>(g.x) + r * g.n, static_cast<T*>(g.y) + r * g.n, g.n, g.table, storage_shift(storage));
  }
}

}  // namespace

void softmax_f32_scalar(const SoftmaxF32Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    const float* x = g.x + r * g.n;
    float* y = g.y + r * g.n;
    float highest = -kFloatInfinity;
    for (uint32_t i = 0; i < g.n; ++i) highest = x[i] > highest ? x[i] : highest;
    float sum = 0;
    for (uint32_t i = 0; i < g.n; ++i) {
      y[i] = exp_f32(x[i] - highest);
      sum += y[i];
    }
    const float inverse = 1.0f / sum;
    for (uint32_t i = 0; i < g.n; ++i) y[i] *= inverse;
  }
}

void softmax_s8_scalar(const SoftmaxS8Args& g) { softmax_8<int8_t>(g, Storage::kS8); }
void softmax_u8_scalar(const SoftmaxS8Args& g) { softmax_8<uint8_t>(g, Storage::kU8); }

}  // namespace lathe::kernels
