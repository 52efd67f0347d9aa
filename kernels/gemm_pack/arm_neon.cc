// Run-time packing with NEON. Where a row of b holds columns of the product, four rows are interleaved to quads of k; where it
// holds k (a transposed right-hand matrix), sixteen rows are transposed in squares of four 32-bit elements, a quad of k each.
#include <arm_neon.h>

#include "kernels/gemm_pack/gemm_pack.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

struct Bytes16 {
  const uint8_t* b;
  uint8x16_t flip;
};

// `count` bytes at p, the others zero; nothing at all for count 0.
LATHE_INLINE int8x16_t load_bytes(const Bytes16& s, const uint8_t* p, uint32_t count) {
  if (count == 0) return vdupq_n_s8(0);
  const uint8x16_t v = veorq_u8(vld1q_u8(p), s.flip);
  if (count >= 16) return vreinterpretq_s8_u8(v);
  const uint8x16_t index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return vreinterpretq_s8_u8(vandq_u8(v, vcltq_u8(index, vdupq_n_u8(static_cast<uint8_t>(count)))));
}

// One panel and its column sums.
struct PanelOut {
  int8_t* packed;
  int32x4_t sums[4];
};

// Quads of channels 4 j .. 4 j + 3 in c[j].
LATHE_INLINE void put_quad(PanelOut* out, const int8x16_t (&c)[4]) {
  LATHE_UNROLL
  for (int j = 0; j < 4; ++j) {
    vst1q_s8(out->packed + 16 * j, c[j]);
    out->sums[j] = vpadalq_s16(out->sums[j], vpaddlq_s8(c[j]));
  }
  out->packed += 64;
}

LATHE_INLINE int8x16_t zip16(int8x16_t a, int8x16_t b, bool high) {
  const int16x8_t x = vreinterpretq_s16_s8(a), y = vreinterpretq_s16_s8(b);
  return vreinterpretq_s8_s16(high ? vzip2q_s16(x, y) : vzip1q_s16(x, y));
}

// Rows of b run along the columns of the product.
void pack_rows(const GemmPackS8Args& g, const Bytes16& s, uint32_t columns, PanelOut* out) {
  for (uint32_t k = 0; k < g.k; k += kGemmQuad) {
    int8x16_t r[4];
    LATHE_UNROLL
    for (uint32_t i = 0; i < 4; ++i)
      r[i] = load_bytes(s, s.b + static_cast<size_t>(k + i) * g.k_stride, k + i < g.k ? columns : 0);
    const int8x16_t ab_low = vzip1q_s8(r[0], r[1]), ab_high = vzip2q_s8(r[0], r[1]);
    const int8x16_t cd_low = vzip1q_s8(r[2], r[3]), cd_high = vzip2q_s8(r[2], r[3]);
    put_quad(out, {zip16(ab_low, cd_low, false), zip16(ab_low, cd_low, true), zip16(ab_high, cd_high, false),
                   zip16(ab_high, cd_high, true)});
  }
}

// Turns a square of 32-bit elements.
LATHE_INLINE void transpose4(float32x4_t* r) {
  const float32x4_t a = vzip1q_f32(r[0], r[2]), b = vzip2q_f32(r[0], r[2]);
  const float32x4_t c = vzip1q_f32(r[1], r[3]), d = vzip2q_f32(r[1], r[3]);
  r[0] = vzip1q_f32(a, c);
  r[1] = vzip2q_f32(a, c);
  r[2] = vzip1q_f32(b, d);
  r[3] = vzip2q_f32(b, d);
}

// Rows of b run along k: 16 columns of the product by 16 k at a time.
void pack_columns(const GemmPackS8Args& g, const Bytes16& s, uint32_t columns, PanelOut* out) {
  for (uint32_t k = 0; k < g.k; k += 16) {
    const uint32_t count = g.k - k < 16 ? g.k - k : 16;
    float32x4_t r[16];
    LATHE_UNROLL
    for (uint32_t c = 0; c < 16; ++c)
      r[c] = vreinterpretq_f32_s8(load_bytes(s, s.b + static_cast<size_t>(c) * g.n_stride + k, c < columns ? count : 0));
    LATHE_UNROLL
    for (uint32_t c = 0; c < 16; c += 4) transpose4(r + c);
    LATHE_UNROLL
    for (uint32_t q = 0; q < 4; ++q) {
      if (q * kGemmQuad < count)
        put_quad(out, {vreinterpretq_s8_f32(r[q]), vreinterpretq_s8_f32(r[4 + q]), vreinterpretq_s8_f32(r[8 + q]),
                       vreinterpretq_s8_f32(r[12 + q])});
    }
  }
}

// The first `count` floats at p, scaled; zeros behind them.
LATHE_INLINE float32x4_t load_floats(const float* p, uint32_t count, float scale) {
  if (count == 0) return vdupq_n_f32(0);
  const float32x4_t v = vmulq_n_f32(vld1q_f32(p), scale);
  const uint32x4_t index = {0, 1, 2, 3};
  return count >= 4 ? v : vbslq_f32(vcltq_u32(index, vdupq_n_u32(count)), v, vdupq_n_f32(0));
}

void pack_float_rows(const GemmPackF32Args& g, const float* b, uint32_t columns, float* packed) {
  for (uint32_t k = 0; k < g.k; ++k, b += g.k_stride, packed += kGemmPanel) {
    for (uint32_t c = 0; c < kGemmPanel; c += 4)
      vst1q_f32(packed + c, load_floats(b + c, columns > c ? columns - c : 0, g.scale));
  }
}

void pack_float_columns(const GemmPackF32Args& g, const float* b, uint32_t columns, float* packed) {
  for (uint32_t first = 0; first < kGemmPanel; first += 4) {
    for (uint32_t k = 0; k < g.k; k += 4) {
      const uint32_t count = g.k - k < 4 ? g.k - k : 4;
      float32x4_t r[4];
      LATHE_UNROLL
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t c = first + i;
        r[i] = load_floats(b + static_cast<size_t>(c) * g.n_stride + k, c < columns ? count : 0, g.scale);
      }
      transpose4(r);
      for (uint32_t i = 0; i < count; ++i) vst1q_f32(packed + static_cast<size_t>(k + i) * kGemmPanel + first, r[i]);
    }
  }
}

}  // namespace

void gemm_pack_s8_arm_neon(const GemmPackS8Args& g) {
  const size_t panel_bytes = gemm_s8_panel_bytes(1, g.k);
  for (uint32_t c = 0; c < g.n; c += kGemmPanel) {
    const uint32_t columns = g.n - c < kGemmPanel ? g.n - c : kGemmPanel;
    const Bytes16 s{static_cast<const uint8_t*>(g.b) + static_cast<size_t>(c) * g.n_stride,
                    vdupq_n_u8(static_cast<uint8_t>(g.flip))};
    PanelOut out{g.packed + c / kGemmPanel * panel_bytes, {}};
    for (int32x4_t& sum : out.sums) sum = vdupq_n_s32(0);
    if (g.k_stride == 1) {
      pack_columns(g, s, columns, &out);
    } else {
      pack_rows(g, s, columns, &out);
    }
    for (uint32_t j = 0; j < 4; ++j) vst1q_s32(g.bias + c + 4 * j, vmulq_n_s32(out.sums[j], g.bias_factor));
  }
}

void gemm_pack_f32_arm_neon(const GemmPackF32Args& g) {
  for (uint32_t c = 0; c < g.n; c += kGemmPanel) {
    const uint32_t columns = g.n - c < kGemmPanel ? g.n - c : kGemmPanel;
    const float* b = g.b + static_cast<size_t>(c) * g.n_stride;
    float* packed = g.packed + static_cast<size_t>(c / kGemmPanel) * g.k * kGemmPanel;
    if (g.k_stride == 1) {
      pack_float_columns(g, b, columns, packed);
    } else {
      pack_float_rows(g, b, columns, packed);
    }
  }
}

}  // namespace lathe::kernels
