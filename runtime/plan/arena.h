// Packs buffers with lifetimes into one block of memory: the smallest that a few good orders and a short search find.
#pragma once
#include <stdint.h>

#include "lathe/status.h"
#include "runtime/plan/memory.h"

namespace lathe {

// A buffer alive during steps [first, last], both included. `offset` is the result.
struct ArenaItem {
  uint32_t bytes;
  uint32_t first, last;
  uint32_t offset;
};

struct ArenaSize {
  uint32_t bytes = 0;        // end of the highest item
  uint32_t lower_bound = 0;  // the largest sum of items alive at one step: no packing is smaller
};

// Gives every item an offset that is a multiple of `align` (a power of two), such that items alive at the same step do not
// overlap. Deterministic. Errors: kOutOfMemory (from `memory`, or an arena over 2 GiB; needed: bytes, saturated).
Status pack_arena(ArenaItem* items, uint32_t count, uint32_t align, const PlanMemory& memory, ArenaSize* out);

}  // namespace lathe
