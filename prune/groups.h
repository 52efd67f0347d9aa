// Dependency groups: which channels of a network can only go together, found from the op table's links (graph/links.h).
//
// A position is (value, axis, index). Links unite positions that carry the same channel; the united sets that belong to the same
// places form a Group, and each set is one of its channels. Removing a channel removes its indices from every member and every
// activation of the group, so that the network stays consistent (prune/rewrite.h does that). Groups name values of the graph they
// were found in and hold for no other. Thread-compatible.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "graph/links.h"

namespace lathe::prune {

using MemberRole = LinkRole;

// What a group owns of one axis of one value.
struct Member {
  ValueId value = kNoId;
  uint32_t axis = 0;
  // By channel of the group: the indices along `axis` that go with it, ascending; where the extent is c times symbols, an index i
  // stands for all that are i modulo c. The weight of a grouped layer has other input
  // channels in each of its groups: there, and only there (parts > 1), index i means i % extent for the outputs of group i /
  // extent.
  std::vector<std::vector<int64_t>> indices;
  MemberRole role = MemberRole::kVector;
  uint32_t parts = 1;
};

struct Group {
  std::string name;  // unique: the node whose weight makes the channels first
  uint32_t channels = 0;
  std::vector<Member> members;      // constants (and variables): each axis once, whoever reads it
  std::vector<Member> activations;  // results of nodes that carry the channels, in order of the graph; role is kVector
  std::string frozen;               // why the group cannot be cut; empty: it can
  std::vector<uint32_t> segment;    // by channel: equal counts must go from every segment (grouped convolutions); empty: one
  bool heads = false;               // channels are attention heads: a batch axis of a product of two activations
  // A mean or a norm runs over the channels: what is left is normalized anew, so that a cut changes more than a sum.
  bool averaged = false;
};

struct GroupOptions {
  // Where an axis is split in several (heads x depth), channels are the outermost that can go; `inner`: the innermost.
  bool inner = false;
};

// Every group with a weight that makes its channels, frozen ones too, in order of the graph. Errors: a quantized graph, which
// must be pruned before it is quantized.
Result<std::vector<Group>> find_groups(const Graph& graph, const GroupOptions& options = {});

// What goes from groups[group]: channels sorted, each once. At least one channel stays.
struct Cut {
  size_t group = 0;
  std::vector<uint32_t> channels;
};

// Whether `cuts` can be made: groups exist, once each, are not frozen, keep a channel, and lose as many from each segment. The
// error names the group.
Result<void> check_cuts(std::span<const Group> groups, std::span<const Cut> cuts);

// The first of `ranked` (channels of the group, the ones to go first in front) that may go together, at most `count`: as many
// from every segment, and at least one stays in each. Sorted; may be empty.
std::vector<uint32_t> allowed_cut(const Group& group, std::span<const uint32_t> ranked, size_t count);

}  // namespace lathe::prune
