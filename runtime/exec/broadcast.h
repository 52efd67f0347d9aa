// NumPy broadcasting of two operands, as a loop over rows.
#pragma once
#include <stdint.h>

#include "lathe/shape.h"
#include "runtime/exec/split.h"

namespace lathe {

// The result is outer x n elements, row-major: `outer` rows of `n`. Dims that broadcast alike are merged, dims of 1 dropped,
// so that one row is as long as possible. Row r has coordinates over dims[0 .. rank), innermost last; an operand's row begins
// at the sum of coordinate * stride. Strides are in elements, 0 where an operand is broadcast. a_step, b_step: 1, or 0 for
// one value per row.
struct Broadcast {
  uint32_t rank;
  uint32_t dims[kMaxRank];
  uint32_t a_strides[kMaxRank], b_strides[kMaxRank];
  uint32_t n;
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

// The run of rows that begins at `row` and ends before `end`. Requires: row < end.
BroadcastRun broadcast_run(const Broadcast& s, uint32_t row, uint32_t end);

// Calls f(a, b, y, rows, n, a_row, b_row) for every run of a task: first elements, then rows x n with row strides of the
// operands (y_row is s.n).
template <class F> void for_each_run(const Broadcast& s, uint32_t task, const F& f) {
  const TaskRange t = task_range(s.split, task);
  const uint32_t a_row = s.rank == 0 ? 0 : s.a_strides[s.rank - 1], b_row = s.rank == 0 ? 0 : s.b_strides[s.rank - 1];
  for (uint32_t row = t.outer_begin; row < t.outer_end;) {
    const BroadcastRun r = broadcast_run(s, row, t.outer_end);
    f(r.a + t.inner_begin * s.a_step, r.b + t.inner_begin * s.b_step, r.y + t.inner_begin, r.rows, t.inner_end - t.inner_begin,
      a_row, b_row);
    row += r.rows;
  }
}

}  // namespace lathe
