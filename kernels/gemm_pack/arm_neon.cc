// Run-time packing with NEON.
#include <arm_neon.h>

#include "kernels/gemm_pack/simd_loops.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

// Turns a square of 32-bit elements.
LATHE_INLINE void turn_square(float32x4_t* r) {
  const float32x4_t a = vzip1q_f32(r[0], r[2]), b = vzip2q_f32(r[0], r[2]);
  const float32x4_t c = vzip1q_f32(r[1], r[3]), d = vzip2q_f32(r[1], r[3]);
  r[0] = vzip1q_f32(a, c);
  r[1] = vzip2q_f32(a, c);
  r[2] = vzip1q_f32(b, d);
  r[3] = vzip2q_f32(b, d);
}

struct Bytes {
  using V = int8x16_t;
  const uint8_t* b;
  uint8x16_t flip;

  Bytes(const uint8_t* from, uint32_t bits) : b(from), flip(vdupq_n_u8(static_cast<uint8_t>(bits))) {}

  LATHE_INLINE int8x16_t load(const uint8_t* p, uint32_t count) const {
    if (count == 0) return vdupq_n_s8(0);
    const uint8x16_t v = veorq_u8(vld1q_u8(p), flip);
    if (count >= 16) return vreinterpretq_s8_u8(v);
    const uint8x16_t index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return vreinterpretq_s8_u8(vandq_u8(v, vcltq_u8(index, vdupq_n_u8(static_cast<uint8_t>(count)))));
  }
  static LATHE_INLINE void interleave(const int8x16_t* r, int8x16_t* c) {
    const int16x8_t ab[2] = {vreinterpretq_s16_s8(vzip1q_s8(r[0], r[1])), vreinterpretq_s16_s8(vzip2q_s8(r[0], r[1]))};
    const int16x8_t cd[2] = {vreinterpretq_s16_s8(vzip1q_s8(r[2], r[3])), vreinterpretq_s16_s8(vzip2q_s8(r[2], r[3]))};
    LATHE_UNROLL
    for (int half = 0; half < 2; ++half) {
      c[2 * half] = vreinterpretq_s8_s16(vzip1q_s16(ab[half], cd[half]));
      c[2 * half + 1] = vreinterpretq_s8_s16(vzip2q_s16(ab[half], cd[half]));
    }
  }
  static LATHE_INLINE void transpose4(int8x16_t* r) {
    float32x4_t f[4];
    LATHE_UNROLL
    for (int i = 0; i < 4; ++i) f[i] = vreinterpretq_f32_s8(r[i]);
    turn_square(f);
    LATHE_UNROLL
    for (int i = 0; i < 4; ++i) r[i] = vreinterpretq_s8_f32(f[i]);
  }
};

class Panel {
 public:
  explicit Panel(int8_t* packed) : packed_(packed) {
    for (int32x4_t& sum : sums_) sum = vdupq_n_s32(0);
  }

  LATHE_INLINE void put(int8x16_t c0, int8x16_t c1, int8x16_t c2, int8x16_t c3) {
    const int8x16_t c[4] = {c0, c1, c2, c3};
    LATHE_UNROLL
    for (int j = 0; j < 4; ++j) {
      vst1q_s8(packed_ + 16 * j, c[j]);
      sums_[j] = vpadalq_s16(sums_[j], vpaddlq_s8(c[j]));
    }
    packed_ += 64;
  }
  void store_bias(int32_t* bias, int32_t factor) const {
    for (uint32_t j = 0; j < 4; ++j) vst1q_s32(bias + 4 * j, vmulq_n_s32(sums_[j], factor));
  }

 private:
  int8_t* packed_;
  int32x4_t sums_[4];
};

struct Floats {
  using V = float32x4_t;
  static constexpr uint32_t kWidth = 4;

  static LATHE_INLINE float32x4_t load(const float* p, uint32_t count, float scale) {
    if (count == 0) return vdupq_n_f32(0);
    const float32x4_t v = vmulq_n_f32(vld1q_f32(p), scale);
    const uint32x4_t index = {0, 1, 2, 3};
    return count >= 4 ? v : vbslq_f32(vcltq_u32(index, vdupq_n_u32(count)), v, vdupq_n_f32(0));
  }
  static LATHE_INLINE void store(float* p, float32x4_t v) { vst1q_f32(p, v); }
  static LATHE_INLINE void transpose(float32x4_t* r) { turn_square(r); }
};

}  // namespace

void gemm_pack_s8_arm_neon(const GemmPackS8Args& g) { gemm_pack_s8<Bytes, Panel>(g); }
void gemm_pack_f32_arm_neon(const GemmPackF32Args& g) { gemm_pack_f32<Floats>(g); }

}  // namespace lathe::kernels
