// How a step's work is cut into tasks for ctx.parallel(): one rule for all movement, elementwise and reduction ops.
//
// Work is a grid of `outer` x `inner` units. Tasks take ranges of outer where there are enough of them, else ranges of inner.
// Results never depend on the cut. Plain 32-bit fields: a Split lives in Params.
#pragma once
#include <stdint.h>

namespace lathe {

// Below this many elements a task costs more to hand over (about half a microsecond) than it saves.
inline constexpr uint32_t kMinTaskElems = 16384;

struct Split {
  uint32_t outer, inner;
  uint32_t outer_chunk, inner_chunk;
  uint32_t outer_tasks, inner_tasks;
  constexpr uint32_t tasks() const { return outer_tasks * inner_tasks; }
};

struct TaskRange {
  uint32_t outer_begin, outer_end, inner_begin, inner_end;
};

constexpr uint32_t ceil_div(uint32_t a, uint32_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Cuts outer x inner units that hold `elems` elements altogether. Inner cuts fall on multiples of `inner_unit`.
constexpr Split split_work(uint32_t outer, uint32_t inner, uint32_t elems, uint32_t threads, uint32_t inner_unit) {
  Split s{outer, inner, outer, inner, outer == 0 ? 0u : 1u, inner == 0 ? 0u : 1u};
  const uint32_t most = elems / kMinTaskElems;
  const uint32_t tasks = most < threads ? most : threads;
  if (tasks <= 1 || s.tasks() == 0) return s;
  if (outer >= tasks) {
    s.outer_chunk = ceil_div(outer, tasks);
    s.outer_tasks = ceil_div(outer, s.outer_chunk);
  } else {
    s.inner_chunk = ceil_div(ceil_div(inner, tasks), inner_unit) * inner_unit;
    s.inner_tasks = ceil_div(inner, s.inner_chunk);
    s.outer_chunk = 1;
    s.outer_tasks = outer;
  }
  return s;
}

constexpr TaskRange task_range(const Split& s, uint32_t task) {
  if (s.tasks() == 1) return {0, s.outer, 0, s.inner};  // the common case needs no division
  const uint32_t o = task / s.inner_tasks * s.outer_chunk, i = task % s.inner_tasks * s.inner_chunk;
  return {o, s.outer - o < s.outer_chunk ? s.outer : o + s.outer_chunk, i,
          s.inner - i < s.inner_chunk ? s.inner : i + s.inner_chunk};
}

}  // namespace lathe
