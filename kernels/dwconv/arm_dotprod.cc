// 8-bit depthwise convolution for NEON with dot products, s8 storage.
//
// For kernels of 3 columns and up to 3 rows the rows of an input column are interleaved byte by byte into quads, which SDOT
// multiplies with the weights of that column, four channels an instruction. Columns stay in registers while the window slides:
// a 3x3 window at stride 1 takes 3 loads, 4 ZIP and 6 SDOT per pixel of 8 channels, with requantization and all else 37
// instructions for 72 products. Other kernels go through the products of arm_neon_rows.h, which need no quads.
#include "kernels/dwconv/arm_neon_rows.h"

namespace lathe::kernels {
namespace {

struct Dot {
  // Quads of channels 0 .. 3 and 4 .. 7. The fourth row is the third again and weighs nothing, as do rows past the kernel.
  struct Column {
    int8x16_t v[2];
  };
  LATHE_INLINE static Column column(int8x16_t r0, int8x16_t r1, int8x16_t r2) {
    const int16x8_t a = vreinterpretq_s16_s8(vzip1q_s8(r0, r1)), b = vreinterpretq_s16_s8(vzip1q_s8(r2, r2));
    return {{vreinterpretq_s8_s16(vzip1q_s16(a, b)), vreinterpretq_s8_s16(vzip2q_s16(a, b))}};
  }

  struct Weights {
    int8x16_t v[3][2];
    LATHE_INLINE explicit Weights(const Block& b) {
      LATHE_UNROLL
      for (uint32_t i = 0; i < 6; ++i) v[i / 2][i % 2] = vld1q_s8(b.w + i / 2 * 64 + i % 2 * 16);
    }
  };

  LATHE_INLINE static void dot(const Weights& w, const Column& left, const Column& middle, const Column& right, int32x4_t& acc0,
                               int32x4_t& acc1) {
    acc0 = vdotq_s32(vdotq_s32(vdotq_s32(acc0, left.v[0], w.v[0][0]), middle.v[0], w.v[1][0]), right.v[0], w.v[2][0]);
    acc1 = vdotq_s32(vdotq_s32(vdotq_s32(acc1, left.v[1], w.v[0][1]), middle.v[1], w.v[1][1]), right.v[1], w.v[2][1]);
  }
};

}  // namespace

void dwconv_s8s8s32_8_arm_dotprod(const DwConvS8Args& d) { dwconv_s8<Dot>(d); }

}  // namespace lathe::kernels
