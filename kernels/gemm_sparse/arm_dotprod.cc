// Block-sparse segment GEMM for NEON with dot products, s8 storage: tiles of up to 6 pixels x 1 panel in 24 accumulators. A block
// of a full tile is 4 loads of weights, 6 of a quad, and 24 SDOT.
#include "kernels/gemm_sparse/panel_arm_neon.h"

namespace lathe::kernels {
namespace {

struct Dot {
  static constexpr int kMaxRows = 6;

  template <int kRows>
  struct Accumulators {
    int32x4_t acc[kRows][4];

    LATHE_INLINE Accumulators() {
      LATHE_UNROLL
      for (int i = 0; i < 4 * kRows; ++i) acc[i / 4][i % 4] = vdupq_n_s32(0);
    }
    LATHE_INLINE int32x4_t sum(int r, int v) const { return acc[r][v]; }

    LATHE_INLINE void add_block(const int8x16_t (&a)[kRows], const int8_t* block) {
      LATHE_UNROLL
      for (int v = 0; v < 4; ++v) {
        const int8x16_t weights = vld1q_s8(block + 16 * v);
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) acc[r][v] = vdotq_s32(acc[r][v], weights, a[r]);
      }
    }
  };
};

}  // namespace

void gemm_sparse_s8s8s32_6x16x4_arm_dotprod(const GemmSparseS8Args& g) { gemm_sparse_s8<ArmPanel<Dot>>(g); }

}  // namespace lathe::kernels
