// Structures that a network carries but does not use: channels that are always zero or that nobody weighs, and branches that add
// zero, as masks and other tools leave them behind.
//
// A channel counts as zero only if the weights say so and a run on random inputs agrees: a channel that a clamp happens to hold
// at zero on the inputs at hand is alive. Thread-safe: no state.
#pragma once
#include <string>
#include <vector>

#include "prune/groups.h"
#include "prune/rewrite.h"

namespace lathe::prune {

struct Zeros {
  std::vector<Cut> cuts;         // into the groups that were given
  std::vector<Branch> branches;  // of the graph; remove these first and look again
  // Channels that are zero, but stay: their group cannot be cut, or other segments have fewer.
  std::vector<std::string> notes;
};

// Errors: those of running the graph.
Result<Zeros> find_zeros(const Graph& graph, const std::vector<Group>& groups);

// Zeros that no structure holds.
struct Sparsity {
  uint64_t weights = 0, zeros = 0;     // float weights that make or read channels, each once
  size_t layers = 0, two_of_four = 0;  // weights with zeros; of these, those with two or more in every four inputs in a row
};
Sparsity weight_sparsity(const Graph& graph, const std::vector<Group>& groups);

}  // namespace lathe::prune
