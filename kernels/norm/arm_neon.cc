// Layer normalization for NEON.
#include "kernels/math/arm_neon_lanes.h"

#include "kernels/norm/simd_loops.h"

namespace lathe::kernels {
namespace {

// UADALP adds pairs of bytes, then of 16-bit sums and squares, in 32 bits.
RowSums row_sums(const uint8_t* x, uint32_t n) {
  uint32x4_t sums = vdupq_n_u32(0), squares = vdupq_n_u32(0);
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const uint8x16_t v = veorq_u8(vld1q_u8(x + i), vdupq_n_u8(0x80));
    sums = vpadalq_u16(sums, vpaddlq_u8(v));
    squares = vpadalq_u16(squares, vmull_u8(vget_low_u8(v), vget_low_u8(v)));
    squares = vpadalq_u16(squares, vmull_high_u8(v, v));
  }
  RowSums s{vaddvq_u32(sums), vaddvq_u32(squares)};
  for (; i < n; ++i) {
    const uint32_t q = x[i] ^ 0x80u;
    s.sum += q;
    s.squares += q * q;
  }
  return s;
}

}  // namespace

void layer_norm_f32_arm_neon(const LayerNormF32Args& a) { layer_norm_f32<Lanes>(a); }
void layer_norm_s8_arm_neon(const LayerNormS8Args& a) { layer_norm_8<Lanes, false>(a, row_sums); }

}  // namespace lathe::kernels
