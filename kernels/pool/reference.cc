// Scalar pooling and means.
#include "kernels/math/math.h"
#include "kernels/pool/window.h"
#include "lathe/arith.h"

namespace lathe::kernels {
namespace {

// Max over taps and `lowest`.
template <class T> void max_pool(const PoolGeometry& g, const T* x, T* y, uint32_t begin, uint32_t end, T lowest) {
  for (uint32_t oh = begin; oh < end; ++oh) {
    for (uint32_t ow = 0; ow < g.out_w; ++ow) {
      const Window p = window_at(g, oh, ow);
      T* out = y + (oh * g.out_w + ow) * g.c;
      for (uint32_t c = 0; c < g.c; ++c) {
        T best = lowest;
        each_tap(g, p, [&](uint32_t at) { best = x[at + c] > best ? x[at + c] : best; });
        out[c] = best;
      }
    }
  }
}

template <class T> void avg_pool_8(const AvgPoolS8Args& a) {
  const PoolGeometry& g = a.g;
  const T* x = static_cast<const T*>(a.x);
  for (uint32_t oh = a.row_begin; oh < a.row_end; ++oh) {
    for (uint32_t ow = 0; ow < g.out_w; ++ow) {
      const Window p = window_at(g, oh, ow);
      const float m = multiplier_for(*a.c, counted_rows(g, a.rule, oh) * counted_columns(g, a.rule, ow));
      // Padding taps are worth z_x, so that sum - n z_x needs only the taps inside x.
      const int32_t inside = static_cast<int32_t>(p.inside());
      T* out = static_cast<T*>(a.y) + (oh * g.out_w + ow) * g.c;
      for (uint32_t c = 0; c < g.c; ++c) {
        int32_t sum = 0;
        each_tap(g, p, [&](uint32_t at) { sum += x[at + c]; });
        out[c] = static_cast<T>(mean_quantized(sum, inside, a.c->x_zero, m, a.c->zero_point, a.c->lo, a.c->hi));
      }
    }
  }
}

template <class T> void mean_8(const MeanS8Args& g) {
  const T* x = static_cast<const T*>(g.x);
  T* y = static_cast<T*>(g.y);
  for (uint32_t i = 0; i < g.n; ++i) {
    int32_t sum = 0;
    for (uint32_t j = 0; j < g.k; ++j) sum += x[i * g.step + j * g.k_step];
    y[i] = static_cast<T>(mean_quantized(sum, static_cast<int32_t>(g.k), g.c.x_zero, g.c.m, g.c.zero_point, g.c.lo, g.c.hi));
  }
}

// Contiguous values: kMeanBlock interleaved sums, then a tree.
float sum_row(const float* x, uint32_t k) {
  float lanes[kMeanBlock] = {};
  for (uint32_t j = 0; j < k; ++j) lanes[j % kMeanBlock] += x[j];
  for (uint32_t half = kMeanBlock / 2; half > 0; half /= 2) {
    for (uint32_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

// Values apart: sums of blocks, added in turn, so that the error grows with k / kMeanBlock rather than k.
float sum_column(const float* x, uint32_t k, uint32_t k_step) {
  float total = 0;
  for (uint32_t begin = 0; begin < k; begin += kMeanBlock) {
    const uint32_t end = k - begin < kMeanBlock ? k : begin + kMeanBlock;
    float block = 0;
    for (uint32_t j = begin; j < end; ++j) block += x[j * k_step];
    total += block;
  }
  return total;
}

}  // namespace

void max_pool_s8_scalar(const MaxPoolS8Args& a) {
  max_pool(a.g, static_cast<const int8_t*>(a.x), static_cast<int8_t*>(a.y), a.row_begin, a.row_end,
           static_cast<int8_t>(a.lowest));
}
void max_pool_u8_scalar(const MaxPoolS8Args& a) {
  max_pool(a.g, static_cast<const uint8_t*>(a.x), static_cast<uint8_t*>(a.y), a.row_begin, a.row_end,
           static_cast<uint8_t>(a.lowest));
}
void max_pool_f32_scalar(const MaxPoolF32Args& a) { max_pool(a.g, a.x, a.y, a.row_begin, a.row_end, -kFloatInfinity); }

void avg_pool_s8_scalar(const AvgPoolS8Args& a) { avg_pool_8<int8_t>(a); }
void avg_pool_u8_scalar(const AvgPoolS8Args& a) { avg_pool_8<uint8_t>(a); }

void avg_pool_f32_scalar(const AvgPoolF32Args& a) {
  const PoolGeometry& g = a.g;
  for (uint32_t oh = a.row_begin; oh < a.row_end; ++oh) {
    for (uint32_t ow = 0; ow < g.out_w; ++ow) {
      const Window p = window_at(g, oh, ow);
      const uint32_t count = counted_rows(g, a.rule, oh) * counted_columns(g, a.rule, ow);
      const float n = static_cast<float>(count == 0 ? 1 : count);
      float* out = a.y + (oh * g.out_w + ow) * g.c;
      for (uint32_t c = 0; c < g.c; ++c) {
        float sum = 0;
        each_tap(g, p, [&](uint32_t at) { sum += a.x[at + c]; });
        out[c] = sum / n;
      }
    }
  }
}

void mean_s8_scalar(const MeanS8Args& g) { mean_8<int8_t>(g); }
void mean_u8_scalar(const MeanS8Args& g) { mean_8<uint8_t>(g); }

void mean_f32_scalar(const MeanF32Args& g) {
  for (uint32_t i = 0; i < g.n; ++i) {
    const float* x = g.x + i * g.step;
    g.y[i] = (g.k_step == 1 ? sum_row(x, g.k) : sum_column(x, g.k, g.k_step)) / static_cast<float>(g.k);
  }
}

}  // namespace lathe::kernels
