// Elementwise work on one input: one run of all elements where both sides are dense, else one run per pixel.
#pragma once
#include <stdint.h>

#include "runtime/exec/exec.h"
#include "runtime/exec/split.h"

namespace lathe {

struct Rows {
  Split split;              // outer: rows, inner: elements of a row
  uint32_t x_step, y_step;  // elements from one row to the next
};

// Pixels shorter than this are better copied than visited one by one: a visit costs two nanoseconds and more.
inline constexpr uint32_t kMinPixelBytes = 64;

// Whether the pixels of operand i are worth a visit each.
inline bool has_long_pixels(const PrepareInput& in, uint32_t i) {
  const Shape& s = in.shape(i);
  return s.rank != 0 && static_cast<uint32_t>(s.dims[s.rank - 1]) >= kMinPixelBytes / dtype_bytes(in.tensor(i).dtype);
}

// Of operand 0 and output 0, and whether they may have gaps between their pixels. Requires: as many elements on both sides.
inline Rows make_rows(const PrepareInput& in, Prepared* out) {
  constexpr uint32_t kUnit = 64;  // inner cuts on whole cache lines of 8-bit values
  const Shape &x = in.shape(0), &y = in.shape(in.out());
  const uint32_t n = y.elems(), c = y.rank == 0 ? 1 : static_cast<uint32_t>(y.dims[y.rank - 1]);
  if (x == y && has_long_pixels(in, 0) && has_long_pixels(in, in.out())) {
    out->strided_input_mask = 1;
    out->strided_output = true;
  }
  if (in.is_dense(0) && in.is_dense(in.out())) return {split_work(1, n, n, in.threads, kUnit), 0, 0};
  return {split_work(n / c, c, n, in.threads, kUnit), in.pixel_stride(0), in.pixel_stride(in.out())};
}

// Calls f(first of x, first of y, elements) for every run of a task.
template <class F> void for_each_row(const Rows& r, uint32_t task, const F& f) {
  const TaskRange t = task_range(r.split, task);
  for (uint32_t o = t.outer_begin; o < t.outer_end; ++o)
    f(o * r.x_step + t.inner_begin, o * r.y_step + t.inner_begin, t.inner_end - t.inner_begin);
}

}  // namespace lathe
