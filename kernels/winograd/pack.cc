#include "kernels/gemm/gemm.h"
#include "kernels/winograd/winograd.h"

namespace lathe::kernels {
namespace {

// Sixteen channels at a time, which a compiler makes vectors of.
constexpr uint32_t kLanes = kGemmPanel;
using Lane = float[kLanes];

// One axis of G w G^T: three values become six.
void weight_axis(const Lane& a, const Lane& b, const Lane& c, float* const out[6]) {
  for (uint32_t l = 0; l < kLanes; ++l) {
    const float even = (a[l] + c[l]) * (1.0f / 6), odd = b[l] * (1.0f / 6);
    const float even2 = a[l] * (1.0f / 24) + c[l] * (1.0f / 6), odd2 = b[l] * (1.0f / 12);
    out[0][l] = a[l] * 0.25f;
    out[1][l] = -even - odd;
    out[2][l] = odd - even;
    out[3][l] = even2 + odd2;
    out[4][l] = even2 - odd2;
    out[5][l] = c[l];
  }
}

// One axis of G^T u G: six values become three.
void gradient_axis(const float* const u[6], float* const out[3]) {
  for (uint32_t l = 0; l < kLanes; ++l) {
    const float s = u[1][l] + u[2][l], d = u[2][l] - u[1][l], s2 = u[3][l] + u[4][l], d2 = u[3][l] - u[4][l];
    out[0][l] = u[0][l] * 0.25f - s * (1.0f / 6) + s2 * (1.0f / 24);
    out[1][l] = d * (1.0f / 6) + d2 * (1.0f / 12);
    out[2][l] = (s2 - s) * (1.0f / 6) + u[5][l];
  }
}

}  // namespace

void winograd_pack_f32(const float* w, uint32_t oc, uint32_t ic, bool turned, float* packed) {
  const size_t point = static_cast<size_t>(round_up(oc, kLanes)) * ic;
  for (uint32_t first = 0; first < oc; first += kLanes) {
    for (uint32_t i = 0; i < ic; ++i) {
      Lane taps[9], rows[18];
      for (uint32_t t = 0; t < 9; ++t)
        for (uint32_t l = 0; l < kLanes; ++l)
          taps[turned ? 8 - t : t][l] = first + l < oc ? w[(static_cast<size_t>(first + l) * 9 + t) * ic + i] : 0.0f;
      for (uint32_t q = 0; q < 3; ++q) {
        float* const out[6] = {rows[q], rows[3 + q], rows[6 + q], rows[9 + q], rows[12 + q], rows[15 + q]};
        weight_axis(taps[q], taps[3 + q], taps[6 + q], out);
      }
      float* to = packed + static_cast<size_t>(first) * ic + static_cast<size_t>(i) * kLanes;
      for (uint32_t r = 0; r < 6; ++r, to += 6 * point) {
        float* const out[6] = {to, to + point, to + 2 * point, to + 3 * point, to + 4 * point, to + 5 * point};
        weight_axis(rows[3 * r], rows[3 * r + 1], rows[3 * r + 2], out);
      }
    }
  }
}

void winograd_weight_gradient(const float* u, float* w) {
  Lane rows[18];
  for (uint32_t q = 0; q < 6; ++q) {
    const float* const in[6] = {u + q * kLanes,        u + (6 + q) * kLanes,  u + (12 + q) * kLanes,
                                u + (18 + q) * kLanes, u + (24 + q) * kLanes, u + (30 + q) * kLanes};
    float* const out[3] = {rows[q], rows[6 + q], rows[12 + q]};
    gradient_axis(in, out);
  }
  for (uint32_t r = 0; r < 3; ++r) {
    const Lane* row = rows + 6 * r;
    const float* const in[6] = {row[0], row[1], row[2], row[3], row[4], row[5]};
    float* const out[3] = {w + 3 * r * kLanes, w + (3 * r + 1) * kLanes, w + (3 * r + 2) * kLanes};
    gradient_axis(in, out);
  }
}

}  // namespace lathe::kernels
