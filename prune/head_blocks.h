// Attention blocks: where a group of heads is summed up again, so that each head can be judged by what it adds.
//
// A head h gives a head output x_h (A V, `depth` numbers per token); the output projection makes the block's output
// y = sum over h of W[:, h] x_h + b. The part of one h is its contribution. Blocks name nodes and values of the graph they were found in.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "graph/links.h"
#include "prune/groups.h"

namespace lathe::prune {

struct HeadBlock {
  size_t group = 0;     // of the groups that were given; its channels are the heads
  std::string refused;  // why its heads cannot be judged; empty: they can, and what follows is set
  NodeId projection = kNoId;
  AbsorbLink link;         // the projection's operands and the axes of its weight
  ValueId joined = kNoId;  // the head outputs side by side along the last axis
  ValueId sum = kNoId;     // what the block's output goes into: the sum with the shortcut, else the output itself
  // By head: its columns of the projection. With fewer key and value heads than query heads, those of all it serves.
  std::vector<std::vector<int64_t>> columns;

  size_t heads() const { return columns.size(); }
};

// One per group of heads, in order; a frozen group is refused with its reason.
std::vector<HeadBlock> find_head_blocks(const Graph& graph, std::span<const Group> groups);

}  // namespace lathe::prune
