// Max-pooling by rows of output, over a type of lanes, Bytes or Floats. Included by x86 files of this family only:
//   T, V                 the element, a register of kWidth of them
//   V lowest(T)          in all lanes
//   V take(const T* p, V best)   the larger of best and what lies at p, lane by lane
//   void put(T* p, V v)
// Every call works on the channels [p, p + kWidth), or fewer for a type that holds a mask.
#pragma once
#include "kernels/pool/window.h"

namespace lathe::kernels {
namespace {

// One row of output, for the channels of `v`. A column's maximum over the window's rows is taken once, also where neighbouring
// windows share it: those three taps wide, one or two columns apart.
template <class B> struct MaxRow {
  const PoolGeometry& g;
  const B& v;
  const typename B::T* x;  // the first row inside the window
  uint32_t rows;           // so many, row_step elements apart
  uint32_t row_step;
  typename B::V lowest;

  [[gnu::always_inline]] typename B::V column(int32_t j, typename B::V best) const {
    if (j < 0 || j >= static_cast<int32_t>(g.in_w)) return best;
    const typename B::T* p = x + static_cast<uint32_t>(j) * g.c;
    if (rows == 3) return v.take(p + 2 * row_step, v.take(p + row_step, v.take(p, best)));
    for (uint32_t r = 0; r < rows; ++r) best = v.take(p + r * row_step, best);
    return best;
  }

  [[gnu::always_inline]] void any(typename B::T* y) const {
    for (uint32_t ow = 0; ow < g.out_w; ++ow) {
      const int32_t left = static_cast<int32_t>(ow * g.stride_w) - static_cast<int32_t>(g.pad_left);
      typename B::V best = lowest;
      for (uint32_t j = 0; j < g.kernel_w; ++j) best = column(left + static_cast<int32_t>(j * g.dilation_w), best);
      v.put(y + ow * g.c, best);
    }
  }
  [[gnu::always_inline]] void three_apart_one(typename B::T* y) const {
    const int32_t pad = static_cast<int32_t>(g.pad_left);
    typename B::V a = column(-pad, lowest), b = column(1 - pad, lowest);
    for (uint32_t ow = 0; ow < g.out_w; ++ow) {
      const typename B::V c = column(static_cast<int32_t>(ow) + 2 - pad, lowest);
      v.put(y + ow * g.c, B::larger(B::larger(a, b), c));
      a = b;
      b = c;
    }
  }
  [[gnu::always_inline]] void three_apart_two(typename B::T* y) const {
    const int32_t pad = static_cast<int32_t>(g.pad_left);
    typename B::V a = column(-pad, lowest);
    for (uint32_t ow = 0; ow < g.out_w; ++ow) {
      const int32_t left = static_cast<int32_t>(2 * ow) - pad;
      const typename B::V c = column(left + 2, lowest);
      v.put(y + ow * g.c, column(left + 1, B::larger(a, c)));
      a = c;
    }
  }
};

template <class B>
[[gnu::always_inline]] inline void max_rows(const PoolGeometry& g, const B& v, const typename B::T* x, typename B::T* y,
                                            uint32_t begin, uint32_t end, typename B::T lowest) {
  for (uint32_t oh = begin; oh < end; ++oh) {
    const Window p = window_at(g, oh, 0);
    const uint32_t first = static_cast<uint32_t>(p.top + static_cast<int32_t>(p.h.first * g.dilation_h));
    const uint32_t rows = p.h.last - p.h.first;
    const MaxRow<B> row{g, v, rows == 0 ? x : x + first * g.in_w * g.c, rows, g.dilation_h * g.in_w * g.c, v.lowest(lowest)};
    typename B::T* out = y + oh * g.out_w * g.c;
    if (g.kernel_w == 3 && g.dilation_w == 1 && g.stride_w == 1) row.three_apart_one(out);
    else if (g.kernel_w == 3 && g.dilation_w == 1 && g.stride_w == 2) row.three_apart_two(out);
    else row.any(out);
  }
}

// All channels in strips of B's width. The last one ends with the last channel and does some again. Requires: g.c >= B::kWidth.
template <class B, class Args> [[gnu::always_inline]] inline void max_strips(const Args& a, const B& v, typename B::T lowest) {
  const typename B::T* x = static_cast<const typename B::T*>(a.x);
  typename B::T* y = static_cast<typename B::T*>(a.y);
  for (uint32_t done = 0; done < a.g.c; done += B::kWidth) {
    const uint32_t c = a.g.c - done < B::kWidth ? a.g.c - B::kWidth : done;
    max_rows(a.g, v, x + c, y + c, a.row_begin, a.row_end, lowest);
  }
}

}  // namespace
}  // namespace lathe::kernels
