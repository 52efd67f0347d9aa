#include "kernels/batch_norm/batch_norm.h"

namespace lathe::kernels {
namespace {

float through(const NormalizeClamp& k, float n, float dy) { return k.clamps == 0 || (n > k.lo && n < k.hi) ? dy : 0.0f; }

}  // namespace

void channel_sums_f32_scalar(const ChannelSumsF32Args& g) {
  for (uint32_t c = 0; c < g.c; ++c) {
    float sum = 0, squares = 0;
    for (uint32_t r = 0; r < g.rows; ++r) sum += g.x[static_cast<size_t>(r) * g.c + c];
    const float mean = sum / static_cast<float>(g.rows);
    for (uint32_t r = 0; r < g.rows; ++r) {
      const float d = g.x[static_cast<size_t>(r) * g.c + c] - mean;
      squares += d * d;
    }
    g.sum[c] = sum;
    g.squares[c] = squares;
  }
}

void normalize_f32_scalar(const NormalizeF32Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    for (uint32_t c = 0; c < g.c; ++c) {
      const size_t at = static_cast<size_t>(r) * g.c + c;
      float n = (g.x[at] - g.mean[c]) * g.factor[c] + g.bias[c];
      if (g.clamp.clamps != 0) n = n < g.clamp.lo ? g.clamp.lo : n > g.clamp.hi ? g.clamp.hi : n;
      g.y[at] = n;
    }
  }
}

void normalize_sums_f32_scalar(const NormalizeSumsF32Args& g) {
  for (uint32_t c = 0; c < g.c; ++c) {
    float sum = 0, product = 0;
    for (uint32_t r = 0; r < g.rows; ++r) {
      const size_t at = static_cast<size_t>(r) * g.c + c;
      const float d = g.x[at] - g.mean[c], dy = through(g.clamp, d * g.factor[c] + g.bias[c], g.dy[at]);
      sum += dy;
      product += dy * d;
    }
    g.sum[c] = sum;
    g.product[c] = product;
  }
}

void normalize_grad_f32_scalar(const NormalizeGradF32Args& g) {
  for (uint32_t r = 0; r < g.rows; ++r) {
    for (uint32_t c = 0; c < g.c; ++c) {
      const size_t at = static_cast<size_t>(r) * g.c + c;
      const float d = g.x[at] - g.mean[c], dy = through(g.clamp, d * g.factor[c] + g.bias[c], g.dy[at]);
      g.dx[at] = g.factor[c] * dy - g.slope[c] * d - g.offset[c];
    }
  }
}

}  // namespace lathe::kernels
