// Which elements of a constant belong to a channel.
#pragma once
#include <cstddef>
#include <vector>

#include "graph/ir.h"
#include "prune/groups.h"

namespace lathe::prune {

// Ascending indices of the dense elements of the member's constant that go with `channel`.
std::vector<size_t> member_elements(const Graph& graph, const Member& member, size_t channel);

}  // namespace lathe::prune
