// Operators that go along one axis: the input as [outer][n][inner], lines of n elements `inner` apart.
#pragma once
#include <stdint.h>

#include "runtime/exec/checks.h"
#include "runtime/exec/split.h"

namespace lathe {

struct Lines {
  uint32_t n, inner;
  Split split;  // outer: outer, inner: inner
};

// False if `axis` is not one of operand 0's.
inline bool make_lines(const PrepareInput& in, int32_t axis, Lines* lines) {
  const Shape& x = in.shape(0);
  if (axis < 0 || static_cast<uint32_t>(axis) >= x.rank) return false;
  const uint32_t a = static_cast<uint32_t>(axis);
  lines->n = static_cast<uint32_t>(x.dims[a]);
  lines->inner = x.elems(a + 1, x.rank);
  lines->split = split_work(x.elems(0, a), lines->inner, elems(in, 0), in.threads, 16);
  return true;
}

// f(first element, outer, inner) for every line of a task.
template <class F> void for_each_line(const Lines& lines, uint32_t task, const F& f) {
  const TaskRange t = task_range(lines.split, task);
  for (uint32_t o = t.outer_begin; o < t.outer_end; ++o) {
    for (uint32_t i = t.inner_begin; i < t.inner_end; ++i) f(o * lines.n * lines.inner + i, o, i);
  }
}

}  // namespace lathe
