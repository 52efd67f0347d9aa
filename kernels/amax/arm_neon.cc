// The largest magnitude of rows with NEON.
#include <arm_neon.h>
#include <stddef.h>

#include "kernels/amax/amax.h"

namespace lathe::kernels {
namespace {

// A comparison and not FMAXNM, which lets a signalling NaN through.
inline __attribute__((always_inline)) float32x4_t larger(float32x4_t v, float32x4_t most) {
  return vbslq_f32(vcgtq_f32(v, most), v, most);
}

float row_amax(const float* x, uint32_t n) {
  float32x4_t most[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (uint32_t k = 0; k < 4; ++k) most[k] = larger(vabsq_f32(vld1q_f32(x + i + 4 * k)), most[k]);
  }
  float result = vmaxvq_f32(vmaxq_f32(vmaxq_f32(most[0], most[1]), vmaxq_f32(most[2], most[3])));
  for (; i < n; ++i) {
    const float v = __builtin_fabsf(x[i]);
    result = v > result ? v : result;
  }
  return result;
}

}  // namespace

void amax_f32_arm_neon(const AmaxF32Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) g.y[r] = row_amax(g.x + static_cast<size_t>(r) * g.x_row, g.n);
}

}  // namespace lathe::kernels
