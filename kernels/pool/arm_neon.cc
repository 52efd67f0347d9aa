// Pooling and means for NEON.
#include "kernels/math/arm_neon_lanes.h"

#include "kernels/pool/simd_loops.h"

namespace lathe::kernels {
namespace {

// Channels [c, c + 16 kVectors) of one pixel.
template <uint32_t kVectors>
[[gnu::always_inline]] inline void max_strip(const MaxPoolS8Args& a, const Window& p, const int8_t* x, int8x16_t lowest,
                                             int8_t* y) {
  int8x16_t best[kVectors];
  for (int8x16_t& v : best) v = lowest;
  each_tap(a.g, p, [&](uint32_t at) __attribute__((always_inline)) {
    for (uint32_t v = 0; v < kVectors; ++v) best[v] = vmaxq_s8(best[v], vld1q_s8(x + at + 16 * v));
  });
  for (uint32_t v = 0; v < kVectors; ++v) vst1q_s8(y + 16 * v, best[v]);
}

// The last channels, fewer than 16: in steps of 8, without touching any byte past them.
void max_rest(const MaxPoolS8Args& a, const Window& p, const int8_t* x, uint32_t channels, int8_t* y) {
  for (uint32_t c = 0; c < channels; c += 8) {
    const uint32_t n = channels - c < 8 ? channels - c : 8;
    int8x8_t best = vdup_n_s8(static_cast<int8_t>(a.lowest));
    each_tap(a.g, p, [&](uint32_t at) __attribute__((always_inline)) {
      if (n == 8) {
        best = vmax_s8(best, vld1_s8(x + at + c));
        return;
      }
      uint64_t bytes = 0;
      for (uint32_t i = 0; i < n; ++i) bytes |= static_cast<uint64_t>(static_cast<uint8_t>(x[at + c + i])) << (8 * i);
      best = vmax_s8(best, vcreate_s8(bytes));
    });
    int8_t lanes[8];
    vst1_s8(lanes, best);
    for (uint32_t i = 0; i < n; ++i) y[c + i] = lanes[i];
  }
}

// Contiguous values, pairs added into 16 bits and those into 32.
int32_t sum_row_8(const int8_t* x, uint32_t k) {
  int32x4_t sums = vdupq_n_s32(0);
  uint32_t j = 0;
  for (; j + 16 <= k; j += 16) sums = vpadalq_s16(sums, vpaddlq_s8(vld1q_s8(x + j)));
  int32_t total = vaddvq_s32(sums);
  for (; j < k; ++j) total += x[j];
  return total;
}

}  // namespace

// 64 channels at a time, then 16, then what is left.
void max_pool_s8_arm_neon(const MaxPoolS8Args& a) {
  const int8_t* x = static_cast<const int8_t*>(a.x);
  const int8x16_t lowest = vdupq_n_s8(static_cast<int8_t>(a.lowest));
  each_pixel(a.g, a.row_begin, a.row_end, [&](const Window& p, uint32_t out, uint32_t, uint32_t) __attribute__((always_inline)) {
    int8_t* y = static_cast<int8_t*>(a.y) + out;
    uint32_t c = 0;
    for (; c + 64 <= a.g.c; c += 64) max_strip<4>(a, p, x + c, lowest, y + c);
    for (; c + 16 <= a.g.c; c += 16) max_strip<1>(a, p, x + c, lowest, y + c);
    max_rest(a, p, x + c, a.g.c - c, y + c);
  });
}

void max_pool_f32_arm_neon(const MaxPoolF32Args& a) { max_pool_f32<Lanes>(a); }
void avg_pool_s8_arm_neon(const AvgPoolS8Args& a) { avg_pool_8<Lanes, false>(a); }
void avg_pool_f32_arm_neon(const AvgPoolF32Args& a) { avg_pool_f32<Lanes>(a); }

void mean_s8_arm_neon(const MeanS8Args& g) {
  if (g.k_step != 1) return mean_columns_8<Lanes, false>(g);
  const int8_t* x = static_cast<const int8_t*>(g.x);
  int8_t* y = static_cast<int8_t*>(g.y);
  for (uint32_t i = 0; i < g.n; ++i) {
    const int32_t sum = sum_row_8(x + i * g.step, g.k);
    y[i] = static_cast<int8_t>(mean_quantized(sum, static_cast<int32_t>(g.k), g.c.x_zero, g.c.m, g.c.zero_point, g.c.lo, g.c.hi));
  }
}

void mean_f32_arm_neon(const MeanF32Args& g) { mean_f32<Lanes>(g); }

}  // namespace lathe::kernels
