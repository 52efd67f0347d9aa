// Pooling over windows of an NHWC image, and means.
//
// Serial; a call computes rows [row_begin, row_end) of one image's output, so that callers split images and rows over
// threads. No alignment is needed; exactly the elements named are read and written; y never overlaps x. 8-bit results follow
// lathe/arith.h bit for bit on every ISA. 8-bit kernels exist per storage, with zero points and clamps shifted for u8.
#pragma once
#include <stdint.h>

#include "kernels/isa.h"

namespace lathe::kernels {

// Geometry, in pixels, of one image: x is [in_h][in_w][c], y is [out_h][out_w][c]. Window (oh, ow) covers rows oh * stride_h
// - pad_top + i * dilation_h, i < kernel_h, and columns likewise; taps outside x are padding.
struct PoolGeometry {
  uint32_t in_h, in_w, c;
  uint32_t out_h, out_w;
  uint32_t kernel_h, kernel_w;
  uint32_t stride_h, stride_w;
  uint32_t dilation_h, dilation_w;
  uint32_t pad_top, pad_left;
};

// Taps i < kernel of one axis that fall on x: first .. last - 1 (none: first == last). Position 0 is at `origin`, which may
// be negative.
struct TapRange {
  uint32_t first, last;
};
constexpr TapRange taps_inside(int32_t origin, uint32_t kernel, uint32_t dilation, uint32_t extent) {
  TapRange r{0, kernel};
  const int32_t step = static_cast<int32_t>(dilation), end = static_cast<int32_t>(extent);
  while (r.first < kernel && origin + static_cast<int32_t>(r.first) * step < 0) ++r.first;
  while (r.last > r.first && origin + static_cast<int32_t>(r.last - 1) * step >= end) --r.last;
  return r;
}

// y = max over the window's taps inside x; `lowest` (8-bit: the lowest q of the storage; float: -infinity) if there is none.
// Float: NaN taps are passed over.
struct MaxPoolS8Args {
  PoolGeometry g;
  const void* x;  // the whole image
  void* y;
  uint32_t row_begin, row_end;
  int32_t lowest;
};
using MaxPoolS8Fn = void (*)(const MaxPoolS8Args&);

struct MaxPoolF32Args {
  PoolGeometry g;
  const float* x;
  float* y;
  uint32_t row_begin, row_end;
};
using MaxPoolF32Fn = void (*)(const MaxPoolF32Args&);

// How many taps a window counts: those inside x, or, with count_pad, those inside x and its padding (pad_bottom and pad_right
// matter only here: with ceil mode a window may reach past them). The count is a product of one factor per axis.
struct CountRule {
  uint32_t count_pad;
  uint32_t pad_bottom, pad_right;
};
constexpr uint32_t counted_rows(const PoolGeometry& g, const CountRule& rule, uint32_t oh) {
  const int32_t padded = static_cast<int32_t>(oh * g.stride_h);
  const TapRange t = rule.count_pad != 0
                         ? taps_inside(padded, g.kernel_h, g.dilation_h, g.in_h + g.pad_top + rule.pad_bottom)
                         : taps_inside(padded - static_cast<int32_t>(g.pad_top), g.kernel_h, g.dilation_h, g.in_h);
  return t.last - t.first;
}
constexpr uint32_t counted_columns(const PoolGeometry& g, const CountRule& rule, uint32_t ow) {
  const int32_t padded = static_cast<int32_t>(ow * g.stride_w);
  const TapRange t = rule.count_pad != 0
                         ? taps_inside(padded, g.kernel_w, g.dilation_w, g.in_w + g.pad_left + rule.pad_right)
                         : taps_inside(padded - static_cast<int32_t>(g.pad_left), g.kernel_w, g.dilation_w, g.in_w);
  return t.last - t.first;
}

// y = mean_quantized(sum, n, ...), n = counted_rows() * counted_columns(), padding counts as the zero point. One constant per
// distinct n: counts[i] has multiplier m[i] = s_x / (s_y n). A window that counts nothing gives zero_point. Requires: every n
// > 0 occurs among the first count_entries of counts; 255 n < 2^31.
inline constexpr uint32_t kMaxPoolCounts = 40;
struct AvgPoolConstants {
  int32_t x_zero;
  int32_t zero_point, lo, hi;
  uint32_t count_entries;
  uint32_t counts[kMaxPoolCounts];
  float m[kMaxPoolCounts];
};
constexpr float multiplier_for(const AvgPoolConstants& c, uint32_t count) {
  for (uint32_t i = 0; i < c.count_entries; ++i) {
    if (c.counts[i] == count) return c.m[i];
  }
  return 0.0f;
}
struct AvgPoolS8Args {
  PoolGeometry g;
  CountRule rule;
  const void* x;
  void* y;
  uint32_t row_begin, row_end;
  const AvgPoolConstants* c;
};
using AvgPoolS8Fn = void (*)(const AvgPoolS8Args&);

// y = sum / n (0 if n is 0); taps are added in order of rows, then columns.
struct AvgPoolF32Args {
  PoolGeometry g;
  CountRule rule;
  const float* x;
  float* y;
  uint32_t row_begin, row_end;
};
using AvgPoolF32Fn = void (*)(const AvgPoolF32Args&);

// Means of k values each: y[i] = mean over j < k of x[i * step + j * k_step], i < n. Fast where step is 1 (columns:
// channels-last) or k_step is 1 (rows: channels-first). 8-bit: mean_quantized with m = s_x / (s_y k). Requires: k > 0, 255 k
// < 2^31.
struct MeanConstants {
  int32_t x_zero;
  float m;
  int32_t zero_point, lo, hi;
};
struct MeanS8Args {
  const void* x;
  void* y;
  uint32_t n, k;
  uint32_t step, k_step;
  MeanConstants c;
};
using MeanS8Fn = void (*)(const MeanS8Args&);

// Float: the order of additions depends on k and on k_step == 1 only, never on n: columns are added in blocks of kMeanBlock
// whose sums are added in turn; rows in kMeanBlock interleaved sums.
inline constexpr uint32_t kMeanBlock = 16;
struct MeanF32Args {
  const float* x;
  float* y;
  uint32_t n, k;
  uint32_t step, k_step;
};
using MeanF32Fn = void (*)(const MeanF32Args&);

}  // namespace lathe::kernels
