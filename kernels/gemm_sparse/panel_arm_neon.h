// What the Arm files of this folder share: a tile of some pixels x 1 panel, s8 storage. Multiply, the ISA file's, has kMaxRows
// and Accumulators<kRows>: made as zeros, add_block(a quad of every pixel repeated over a register, block) and sum(row, which
// four channels).
#pragma once
#include <arm_neon.h>

#include "kernels/gemm/tile_arm_neon.h"
#include "kernels/gemm_sparse/tiles.h"

namespace lathe::kernels {
namespace {

template <class Multiply>
struct ArmPanel {
  using A = int8_t;
  static constexpr int kMaxRows = Multiply::kMaxRows;
  FinishBytes<false> end;
  uint32_t n = 0;

  explicit ArmPanel(const GemmS8Args& g)
      : end{nullptr, nullptr, nullptr, make_requantize(g.zero_point, g.lo, g.hi, g.residual_scale, g.residual_zero)} {}
  void begin_panel(const float* scale, uint32_t channels) { end.scale = scale, n = channels; }

  template <int kRows>
  struct Sums {
    typename Multiply::template Accumulators<kRows> acc;
    const int32_t* bias;

    LATHE_INLINE explicit Sums(const int32_t* first_bias) : bias(first_bias) {}

    LATHE_INLINE void add(const int8_t* const* row, ptrdiff_t at, const uint16_t* quad, const int8_t* block, uint32_t count) {
      for (; count > 0; --count, ++quad, block += kSparseBlock) {
        int8x16_t a[kRows];
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          int32_t four;
          __builtin_memcpy(&four, row[r] + at + 4 * ptrdiff_t{*quad}, sizeof(four));
          a[r] = vreinterpretq_s8_s32(vdupq_n_s32(four));
        }
        acc.add_block(a, block);
      }
    }

    LATHE_INLINE void finish(const ArmPanel& m, const Pixels<int8_t, int8_t>& px) const {
      int32x4_t sums[kRows][4];
      LATHE_UNROLL
      for (int v = 0; v < 4; ++v) {
        LATHE_UNROLL
        for (int r = 0; r < kRows; ++r) sums[r][v] = vaddq_s32(acc.sum(r, v), vld1q_s32(bias + 4 * v));
      }
      m.end(px, 0, 0, m.n, sums);
    }
  };
};

}  // namespace
}  // namespace lathe::kernels
