// Block-sparse segment GEMM for NEON, s8 storage: tiles of up to 2 pixels x 1 panel in 16 accumulators, products as in the dense
// kernel: SMULL and SMULL2 multiply a quad with the quads of four channels, SADALP adds pairs in 32 bits.
#include "kernels/gemm_sparse/panel_arm_neon.h"

namespace lathe::kernels {
namespace {

struct Multiply {
  static constexpr int kMaxRows = 2;

  template <int kRows>
  struct Accumulators {
    int32x4_t acc[kRows][8];

    LATHE_INLINE Accumulators() {
      LATHE_UNROLL
      for (int i = 0; i < 8 * kRows; ++i) acc[i / 8][i % 8] = vdupq_n_s32(0);
    }
    LATHE_INLINE int32x4_t sum(int r, int v) const { return vpaddq_s32(acc[r][2 * v], acc[r][2 * v + 1]); }

    LATHE_INLINE void add_block(const int8x16_t (&a)[kRows], const int8_t* block) {
      LATHE_UNROLL
      for (int v = 0; v < 4; ++v) {
        const int8x16_t weights = vld1q_s8(block + 16 * v);
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          acc[r][2 * v] = vpadalq_s16(acc[r][2 * v], vmull_s8(vget_low_s8(weights), vget_low_s8(a[r])));
          acc[r][2 * v + 1] = vpadalq_s16(acc[r][2 * v + 1], vmull_high_s8(weights, a[r]));
        }
      }
    }
  };
};

}  // namespace

void gemm_sparse_s8s8s32_2x16x4_arm_neon(const GemmSparseS8Args& g) { gemm_sparse_s8<ArmPanel<Multiply>>(g); }

}  // namespace lathe::kernels
