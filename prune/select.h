// Which channels go first: an order of blocks, of which a plan takes a beginning.
//
// A block is as many channels of one group as bring its count to the next number that kernels like. Within a group the least
// important go first; between groups the blocks that lose the smallest share of their group's
// importance, in each layer that makes its channels, for what they save. An
// order is cut off where a ratio, a count of multiply-accumulates or a measured latency is reached, so that every target shares
// one search. Deterministic: ties go by the group's place and the channel's number. Thread-safe: no state.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "prune/criteria.h"
#include "prune/groups.h"

namespace lathe::prune {

struct SelectOptions {
  double max_group_ratio = 0.9;  // of a group's channels go at most; one always stays
  // Channel counts are brought to multiples of `tile` where a group has at least two of them, else of `part`. Packed kernels
  // compute whole panels of outputs, and read inputs in parts of them.
  uint32_t tile = 1, part = 1;
  // Every group loses the same share; else they compete.
  bool uniform = false;
  // What one channel of each group costs, in any unit; empty: channels go by Importance::shown alone.
  std::vector<double> costs;
  std::vector<bool> keep;  // by group: stays whole; empty: none does
};

struct Block {
  size_t group = 0;
  std::vector<uint32_t> channels;  // sorted
  double score = 0;                // importance lost for what is saved; uniform: share of the group that is gone with this block
  double highest = 0;              // the largest of Importance::shown among its channels
};

// All that may go, first to go first. Groups that are frozen, kept, or without importance give none. Requires: one importance per
// group.
std::vector<Block> removal_order(const std::vector<Group>& groups, const std::vector<Importance>& importance,
                                 const SelectOptions& options);

// Channels of the groups that can be cut: what a ratio is of.
uint64_t prunable_channels(const std::vector<Group>& groups, const std::vector<Importance>& importance,
                           const SelectOptions& options);

// How many blocks, from the first on, come nearest to `ratio` of `channels`.
size_t blocks_for_ratio(std::span<const Block> order, uint64_t channels, double ratio);

// Only the blocks whose channels all lie below the threshold (of Importance::shown), in order.
std::vector<Block> blocks_below(std::span<const Block> order, double threshold);

// The blocks as cuts, one per group that loses channels, by group.
std::vector<Cut> cuts_of(std::span<const Block> blocks);

}  // namespace lathe::prune
