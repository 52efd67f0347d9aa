// Transposes for NEON.
#include <arm_neon.h>

#include "kernels/layout/simd_loops.h"

namespace lathe::kernels {
namespace {

struct Vectors {
  using Bytes = uint8x16_t;
  static Bytes load(const uint8_t* p) { return vld1q_u8(p); }
  static void store(uint8_t* p, Bytes v) { vst1q_u8(p, v); }
  template <uint32_t kBytes> static Bytes interleave_low(Bytes a, Bytes b) {
    if constexpr (kBytes == 1) return vzip1q_u8(a, b);
    if constexpr (kBytes == 2) return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
    if constexpr (kBytes == 4) return vreinterpretq_u8_u32(vzip1q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
    return vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
  }
  template <uint32_t kBytes> static Bytes interleave_high(Bytes a, Bytes b) {
    if constexpr (kBytes == 1) return vzip2q_u8(a, b);
    if constexpr (kBytes == 2) return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
    if constexpr (kBytes == 4) return vreinterpretq_u8_u32(vzip2q_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b)));
    return vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(a), vreinterpretq_u64_u8(b)));
  }

  static uint32_t interleave_planes_4(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
    uint32_t c = 0;
    for (; c + 4 <= cols; c += 4, x += 16, y += 48) {
      const auto row = [&](ptrdiff_t r) __attribute__((always_inline)) { return vreinterpretq_u32_u8(vld1q_u8(x + r * x_row)); };
      vst3q_u32(reinterpret_cast<uint32_t*>(y), {{row(0), row(1), row(2)}});
    }
    return c;
  }

  static uint32_t interleave_planes_1(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
    uint32_t c = 0;
    for (; c + 16 <= cols; c += 16, x += 16, y += 48) {
      vst3q_u8(y, {{vld1q_u8(x), vld1q_u8(x + x_row), vld1q_u8(x + 2 * x_row)}});
    }
    return c;
  }
};

}  // namespace

void transpose_arm_neon(const TransposeArgs& g) { transpose_any<Vectors>(g); }

}  // namespace lathe::kernels
