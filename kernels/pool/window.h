// The window of one output pixel, for the reference and the SIMD loops alike.
#pragma once
#include "kernels/pool/pool.h"

namespace lathe::kernels {
namespace {

struct Window {
  int32_t top, left;  // of its first tap, may be negative
  TapRange h, w;      // taps inside x
  uint32_t inside() const { return (h.last - h.first) * (w.last - w.first); }
};

inline Window window_at(const PoolGeometry& g, uint32_t oh, uint32_t ow) {
  Window p;
  p.top = static_cast<int32_t>(oh * g.stride_h) - static_cast<int32_t>(g.pad_top);
  p.left = static_cast<int32_t>(ow * g.stride_w) - static_cast<int32_t>(g.pad_left);
  p.h = taps_inside(p.top, g.kernel_h, g.dilation_h, g.in_h);
  p.w = taps_inside(p.left, g.kernel_w, g.dilation_w, g.in_w);
  return p;
}

// Calls f(first element of the tap's pixel) for every tap of the window inside x, rows first.
template <class F> [[gnu::always_inline]] inline void each_tap(const PoolGeometry& g, const Window& p, const F& f) {
  for (uint32_t i = p.h.first; i < p.h.last; ++i) {
    const uint32_t row = static_cast<uint32_t>(p.top + static_cast<int32_t>(i * g.dilation_h));
    for (uint32_t j = p.w.first; j < p.w.last; ++j) {
      const uint32_t col = static_cast<uint32_t>(p.left + static_cast<int32_t>(j * g.dilation_w));
      f((row * g.in_w + col) * g.c);
    }
  }
}

}  // namespace
}  // namespace lathe::kernels
