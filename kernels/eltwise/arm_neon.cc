// Elementwise kernels for NEON.
#include "kernels/math/arm_neon_lanes.h"
#include "kernels/math/arm_neon_storage.h"

#include "kernels/eltwise/simd_loops.h"

namespace lathe::kernels {

void unary_f32_arm_neon(const UnaryF32Args& g) { unary_f32<Lanes>(g); }
void binary_f32_arm_neon(const BinaryF32Args& g) { binary_f32<Lanes>(g); }
void binary_s8_arm_neon(const BinaryS8Args& g) { binary_8<Lanes, false>(g); }
void regrid_s8_arm_neon(const RegridS8Args& g) { regrid_8<Lanes, false>(g); }
void quantize_f32_s8_arm_neon(const QuantizeF32Args& g) { quantize_8<Lanes, false>(g); }
void dequantize_s8_f32_arm_neon(const DequantizeF32Args& g) { dequantize_8<Lanes, false>(g); }

void widen_f16_arm_neon(const WidenF16Args& g) {
  uint32_t i = 0;
  for (; i + 4 <= g.n; i += 4) vst1q_f32(g.y + i, load4(g.x + i));
  if (i == g.n) return;
  uint16_t rest[4] = {};
  for (uint32_t k = 0; k < g.n - i; ++k) rest[k] = g.x[i + k];
  store4(g.y + i, load4(rest), g.n - i);
}

void narrow_f16_arm_neon(const NarrowF16Args& g) {
  uint32_t i = 0;
  for (; i + 4 <= g.n; i += 4) store4(g.y + i, load4(g.x + i), 4);
  if (i == g.n) return;
  float rest[4] = {};
  for (uint32_t k = 0; k < g.n - i; ++k) rest[k] = g.x[i + k];
  store4(g.y + i, load4(rest), g.n - i);
}

// The table fills sixteen registers. TBL gives 0 for an index past its 64 bytes, TBX keeps what is there: four look-ups, each 64
// further down, leave the one that was in range.
void lut_s8_arm_neon(const Lut8Args& g) {
  const uint8_t* x = static_cast<const uint8_t*>(g.x);
  int8_t* y = static_cast<int8_t*>(g.y);
  uint32_t i = 0;
  if (g.n >= 16) {
    const int8x16x4_t t0 = vld1q_s8_x4(g.table), t1 = vld1q_s8_x4(g.table + 64), t2 = vld1q_s8_x4(g.table + 128),
                      t3 = vld1q_s8_x4(g.table + 192);
    const uint8x16_t row = vdupq_n_u8(64), flip = vdupq_n_u8(0x80);
    for (; i + 16 <= g.n; i += 16) {
      uint8x16_t index = veorq_u8(vld1q_u8(x + i), flip);
      int8x16_t found = vqtbl4q_s8(t0, index);
      found = vqtbx4q_s8(found, t1, index = vsubq_u8(index, row));
      found = vqtbx4q_s8(found, t2, index = vsubq_u8(index, row));
      found = vqtbx4q_s8(found, t3, vsubq_u8(index, row));
      vst1q_s8(y + i, found);
    }
  }
  for (; i < g.n; ++i) y[i] = g.table[static_cast<uint8_t>(x[i] ^ 0x80)];
}

}  // namespace lathe::kernels
