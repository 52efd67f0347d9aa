// Channels whose filters are all zero, as masks of other tools leave them behind: what they emit is a constant, whatever stands
// between the filter and its readers, and layers that read it can take it in.
#pragma once
#include <vector>

#include "prune/groups.h"
#include "prune/rewrite.h"

namespace lathe::prune {

// Cuts of such channels that change nothing if they are made with Residue::kMerge. Of a group whose constants go into padded
// layers one channel stays, the one that can best take in the others. Errors: those of running the graph.
Result<std::vector<Cut>> find_constants(const Graph& graph, const std::vector<Group>& groups);

}  // namespace lathe::prune
