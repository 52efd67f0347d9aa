// Block pruning: zeroes blocks of 4 k x 16 channels of weights, so that the block-sparse INT8 kernels leave them out
// (kernels/gemm_sparse). Shapes stay; nothing becomes faster in float.
//
// Importance of a block is its L2 norm, compared within one weight: magnitudes of different layers say nothing of each other.
// Training does not hold the zeros: prune blocks last, before quantizing, or again after training. Thread-safe: no state.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "graph/lower/weight_blocks.h"

namespace lathe::prune {

// Zeroes the round(ratio * blocks) blocks of smallest norm of w[n][segs * seg_k]; of equal norms the first ones. Blocks that are
// zero already count. A block with a NaN is never chosen before another. Returns the blocks that are zero then.
// Requires: 0 <= ratio <= 1, w has n * segs * seg_k elements.
uint64_t zero_smallest_blocks(std::span<float> w, const kernels::SparseShape& shape, double ratio);

struct BlockRow {
  std::string node, weight;
  uint64_t blocks = 0, zeros = 0;  // of the weight, afterwards
  bool pruned = false;             // else sparse kernels would not be faster at that ratio, and it was left alone
  double energy = 0;               // share of the sum of squares that went
};

struct Blocked {
  Graph graph;  // descends from the one that was given
  std::vector<BlockRow> rows;
};
// The same for every float weight whose INT8 form would be stored sparse at that ratio. One row for each weight that blocks could
// be left out of. Errors: kInvalidArgument (a ratio that is not between 0 and 1; a quantized weight).
Result<Blocked> zero_blocks(const Graph& graph, double ratio);

}  // namespace lathe::prune
