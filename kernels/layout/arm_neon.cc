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

  // 16 bytes of every row at a time.
  template <uint32_t kBytes> static uint32_t interleave_planes(const uint8_t* x, ptrdiff_t x_row, uint32_t cols, uint8_t* y) {
    constexpr uint32_t kN = 16 / kBytes;
    uint32_t c = 0;
    for (; c + kN <= cols; c += kN, x += 16, y += 48) {
      const uint8x16_t r0 = vld1q_u8(x), r1 = vld1q_u8(x + x_row), r2 = vld1q_u8(x + 2 * x_row);
      if constexpr (kBytes == 1) {
        vst3q_u8(y, {{r0, r1, r2}});
      } else if constexpr (kBytes == 2) {
        vst3q_u16(reinterpret_cast<uint16_t*>(y),
                  {{vreinterpretq_u16_u8(r0), vreinterpretq_u16_u8(r1), vreinterpretq_u16_u8(r2)}});
      } else {
        vst3q_u32(reinterpret_cast<uint32_t*>(y),
                  {{vreinterpretq_u32_u8(r0), vreinterpretq_u32_u8(r1), vreinterpretq_u32_u8(r2)}});
      }
    }
    return c;
  }
};

}  // namespace

void transpose_arm_neon(const TransposeArgs& g) { transpose_any<Vectors>(g); }

}  // namespace lathe::kernels
