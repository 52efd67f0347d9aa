// 8-bit segment GEMM for NEON with dot products, s8 storage: tiles of 8 pixels x 8 channels or 4 x 16 (tile_arm_neon.h).
//
// Sixteen k of a pixel are one register, of which SDOT multiplies a quad with a quad of four channels: 16 k of a tile of 8 x 8
// are 16 loads and 64 SDOT, nothing else, without a spill: 0.08 instructions per product.
#include "kernels/gemm/tile_arm_neon.h"

namespace lathe::kernels {
namespace {

struct Dot {
  static constexpr int kPixels = 8;

  template <int kRows, int kFours>
  struct Accumulators {
    int32x4_t acc[kRows][kFours];

    LATHE_INLINE Accumulators() {
      LATHE_UNROLL
      for (int i = 0; i < kRows * kFours; ++i) acc[i / kFours][i % kFours] = vdupq_n_s32(0);
    }
    LATHE_INLINE int32x4_t sum(int r, int v) const { return acc[r][v]; }

    // Quad kQuad of the registers in a.
    template <int kQuad>
    LATHE_INLINE void add_quad(const int8x16_t (&a)[kRows], const int8_t* w) {
      LATHE_UNROLL
      for (int v = 0; v < kFours; ++v) {
        const int8x16_t weights = vld1q_s8(w + 64 * kQuad + 16 * v);
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) acc[r][v] = vdotq_laneq_s32(acc[r][v], weights, a[r], kQuad);
      }
    }

    LATHE_INLINE void add_segment(const int8_t* const* row, ptrdiff_t at, const int8_t* w, uint32_t quads) {
      int8x16_t a[kRows];
      const auto load = [&]() __attribute__((always_inline)) {
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) a[r] = vld1q_s8(row[r] + at);
      };
      for (; quads >= 4; quads -= 4, at += 16, w += 256) {
        load();
        add_quad<0>(a, w);
        add_quad<1>(a, w);
        add_quad<2>(a, w);
        add_quad<3>(a, w);
      }
      if (quads == 0) return;
      load();
      add_quad<0>(a, w);
      if (quads > 1) add_quad<1>(a, w);
      if (quads > 2) add_quad<2>(a, w);
    }
  };
};

}  // namespace

void gemm_s8s8s32_8x8x4_arm_dotprod(const GemmS8Args& g) { gemm_s8<Dot>(g); }
void gemm_s8s8zws32_8x8x4_arm_dotprod(const GemmS8ZwArgs& g) { gemm_s8_zw<Dot>(g); }
void gemm_s8s8f32_8x8x4_arm_dotprod(const GemmS8F32Args& g) { gemm_s8_f32<Dot>(g); }

}  // namespace lathe::kernels
