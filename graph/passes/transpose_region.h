// A connected set of nodes that can work in another order of axes, and what it costs to let them.
//
// Converting a region for perm q gives every value v of it a twin v' with v = Transpose(v', q). Transposes at its border then
// cancel, or have to be inserted. Used by cancel-transposes only.
#pragma once
#include <vector>

#include "graph/rewriter.h"

namespace lathe::passes {

struct Region {
  Ints q;
  std::vector<NodeId> nodes;  // in topological order
};

// Whether a Transpose by q may move from all operands of `node` to its result.
bool can_permute(const Graph& graph, NodeId node, const Ints& q);

// The region of `seed` alone, and the largest one: all nodes that can be permuted and are linked to it through values.
Region single_region(NodeId seed, const Ints& q);
Region grow_region(const Graph& graph, NodeId seed, const Ints& q);

struct RegionCost {
  int removed = 0;         // Transposes that cancel
  int inserted_above = 0;  // at operands that come from outside
  int inserted_below = 0;  // at results that are read outside
  int untransposed = 0;    // operands from outside that no Transpose makes
  int gain() const { return removed - inserted_above - inserted_below; }
  // As many Transposes as before, but all of them below the region, where they no longer stand between producers and their
  // activations.
  bool sinks() const { return gain() == 0 && removed > 0 && inserted_above == 0 && untransposed == 0; }
};
RegionCost region_cost(const Graph& graph, const Region& region);

// Rewrites the region's nodes for the new order.
void convert_region(Rewriter& rewriter, const Region& region);

}  // namespace lathe::passes
