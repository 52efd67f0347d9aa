// What prepare() leaves for run() of Conv2dWeightGrad, and its second way: by tiles.
//
// Images are cut into chunks whose sums are kept apart and added in order at the end. Chunks depend on sizes alone, so that
// gradients do not depend on the threads.
#pragma once
#include <stdint.h>

#include "runtime/exec/conv_winograd.h"

namespace lathe {

struct WeightGradParams {
  ConvAxis h, w;
  uint32_t images, groups, ic, oc, icg, ocg;
  uint32_t chunks, chunk_images;
  uint32_t rows, row_tasks;  // rows of a task's sums: channels of dy, or of x if swapped; tasks over them in a group
  uint32_t swapped;          // 1: sums are [tap][icg][ocg], whose rows fill vectors better
  uint32_t winograd;
  uint32_t chunk_elems;           // sums of a chunk
  uint32_t slots_at, slot_bytes;  // winograd: scratch of the slots, after the sums
};

inline constexpr uint32_t kWeightGradX = 0, kWeightGradDy = 1;
// The most chunks, and the floats that sums of all chunks may take.
inline constexpr uint32_t kMaxChunks = 16, kMaxSums = 1u << 22;

// Points of x and of a block of dy's channels, and the tiles of one chunk.
TileGrid weight_grad_grid(const WeightGradParams& p);
// Adds up the chunk and rows of dy's channels that `task` names, and writes channel `o` of dw from all chunks' sums.
void winograd_weight_grad_task(const RunContext& ctx, const BoundStep& step, const WeightGradParams& p, uint32_t task,
                               uint32_t slot);
void winograd_weight_grad_finish(const RunContext& ctx, const BoundStep& step, const WeightGradParams& p, uint32_t o);

}  // namespace lathe
