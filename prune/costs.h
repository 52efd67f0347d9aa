// What one channel of each group costs: what choices divide importance by.
#pragma once
#include <functional>
#include <vector>

#include "graph/ir.h"
#include "prune/groups.h"

namespace lathe::prune {

// Parameters that go with a channel, on average over the group's channels. One entry per group.
std::vector<double> channel_parameters(const Graph& graph, const std::vector<Group>& groups);

// Time that goes with a channel: of every node that makes, reads or scales the group's channels the share of `node_us` that one
// of them has along that axis. One entry per group, in the unit of `node_us`; a group whose nodes all cost nothing gets the least
// cost of the others (1 if there is none).
std::vector<double> channel_times(const Graph& graph, const std::vector<Group>& groups,
                                  const std::function<double(const Node&)>& node_us);

}  // namespace lathe::prune
