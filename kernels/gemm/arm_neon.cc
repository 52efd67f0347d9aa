// Segment GEMM for NEON, s8 storage.
//
// Tiles of 4 pixels x 8 channels or 2 x 16 (arm_gemm_s8.h). A quad of k of a pixel is repeated over a register; SMULL and SMULL2
// multiply it with the quads of four channels, and SADALP adds pairs of the 16-bit products in 32 bits, so that nothing can
// overflow, -128 x -128 included. Pairs of sums are added when the tile ends. A quad of a tile of 4 x 8 is 6 loads, 4 DUP, 16 SMULL
// and 16 SADALP: with the loop's own three, 0.35 instructions per product.
#include "kernels/gemm/arm_gemm_s8.h"

namespace lathe::kernels {
namespace {

struct Multiply {
  static constexpr int kPixels = 4;

  template <int kRows, int kFours>
  struct Accumulators {
    int32x4_t acc[kRows][2 * kFours];

    LATHE_INLINE Accumulators() {
      LATHE_UNROLL
      for (int i = 0; i < kRows * 2 * kFours; ++i) acc[i / (2 * kFours)][i % (2 * kFours)] = vdupq_n_s32(0);
    }
    LATHE_INLINE int32x4_t sum(int r, int v) const { return vpaddq_s32(acc[r][2 * v], acc[r][2 * v + 1]); }

    LATHE_INLINE void add_segment(const int8_t* const* row, ptrdiff_t at, const int8_t* w, uint32_t quads) {
      const int8_t* from[kRows];
      LATHE_UNROLL
      for (int r = 0; r < kRows; ++r) from[r] = row[r] + at;
      for (; quads > 0; --quads, w += 64) {
        int8x16_t a[kRows];
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r, from[r - 1] += 4) {
          int32_t quad;
          __builtin_memcpy(&quad, from[r], sizeof(quad));
          a[r] = vreinterpretq_s8_s32(vdupq_n_s32(quad));
        }
        LATHE_UNROLL
        for (int v = 0; v < kFours; ++v) {
          const int8x16_t weights = vld1q_s8(w + 16 * v);
          LATHE_UNROLL
          for (int r = 0; r < kRows; ++r) {
            acc[r][2 * v] = vpadalq_s16(acc[r][2 * v], vmull_s8(vget_low_s8(weights), vget_low_s8(a[r])));
            acc[r][2 * v + 1] = vpadalq_s16(acc[r][2 * v + 1], vmull_high_s8(weights, a[r]));
          }
        }
      }
    }
  };
};

}  // namespace

void gemm_s8s8s32_4x8x4_arm_neon(const GemmS8Args& g) { gemm_s8<Multiply>(g); }
void gemm_s8s8zws32_4x8x4_arm_neon(const GemmS8ZwArgs& g) { gemm_s8_zw<Multiply>(g); }
void gemm_s8s8f32_4x8x4_arm_neon(const GemmS8F32Args& g) { gemm_s8_f32<Multiply>(g); }

}  // namespace lathe::kernels
