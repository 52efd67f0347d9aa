// NumPy broadcasting of two operands, as a loop over rows.
#pragma once
#include <stdint.h>

#include "lathe/shape.h"
#include "runtime/exec/split.h"

namespace lathe {

// The result is outer x n elements, row-major: `outer` rows of `n`. Dims that broadcast alike are merged, dims of 1 dropped,
// so that one row is as long as possible. Row r has coordinates over dims[0 .. rank), innermost last; an operand's row begins
// at the sum of coordinate * stride. Strides are in elements, 0 where an operand is broadcast. a_step, b_step: 1, or 0 for
// one value per row. The result's rows are y_row elements apart: n, unless there are gaps between them.
struct Broadcast {
  uint32_t rank;
  uint32_t dims[kMaxRank];
  uint32_t a_strides[kMaxRank], b_strides[kMaxRank];
  uint32_t n, y_row;
  uint32_t a_step, b_step;
  Split split;  // outer: rows, inner: elements of a row
};

// Rows that one kernel call can take: they share all coordinates but the innermost.
struct BroadcastRun {
  uint32_t a, b, y;  // first elements
  uint32_t rows;
};

// False if the shapes do not broadcast to `y`. Requires: checked_elems() accepted all shapes.
bool make_broadcast(const Shape& a, const Shape& b, const Shape& y, uint32_t threads, Broadcast* out);

// The same over pixels of `c` elements each, for operands that may have gaps between them: strides in elements from one pixel to
// the next, 0 for an operand that is the same for every pixel; a_step and b_step as above.
Broadcast make_pixel_broadcast(uint32_t pixels, uint32_t c, const uint32_t (&strides)[3], uint32_t a_step, uint32_t b_step,
                               uint32_t threads);

// The run of rows that begins at `row` and ends before `end`. Requires: row < end, and a rank of at least 1.
BroadcastRun broadcast_run(const Broadcast& s, uint32_t row, uint32_t end);

// Calls f(a, b, y, rows, n, a_row, b_row) for every run of a task: first elements, then rows x n with row strides of the
// operands (the result's is s.y_row).
template <class F> void for_each_run(const Broadcast& s, uint32_t task, const F& f) {
  const TaskRange t = task_range(s.split, task);
  if (s.rank == 0) {  // one row
    const uint32_t i = t.inner_begin;
    return f(i * s.a_step, i * s.b_step, i, 1u, t.inner_end - i, 0u, 0u);
  }
  const uint32_t a_row = s.a_strides[s.rank - 1], b_row = s.b_strides[s.rank - 1];
  for (uint32_t row = t.outer_begin; row < t.outer_end;) {
    const BroadcastRun r = broadcast_run(s, row, t.outer_end);
    f(r.a + t.inner_begin * s.a_step, r.b + t.inner_begin * s.b_step, r.y + t.inner_begin, r.rows, t.inner_end - t.inner_begin,
      a_row, b_row);
    row += r.rows;
  }
}

}  // namespace lathe
