// What channels emit whose weights are gone, and which layers can take it into their bias. Used by prune/ only.
#pragma once
#include <map>
#include <span>
#include <vector>

#include "prune/removal.h"
#include "prune/rewrite.h"

namespace lathe::prune {

// A whole bias, or a constant that is added, with what it takes in, before the cut.
struct BiasChange {
  uint32_t operand = 0;
  ValueId weight = kNoId;  // whose out_axis it runs along
  uint32_t out_axis = 0;
  std::vector<float> values;
};

// A layer's weights, in which the column of a channel that stays has taken in others, before the cut.
struct WeightChange {
  uint32_t operand = 0;
  std::vector<float> values;
};

struct Residues {
  std::map<NodeId, BiasChange> bias;
  std::map<NodeId, WeightChange> weights;
  // What a reader of channels gets in their place, by (reader, operand): one number for each position that goes (Removal::gone),
  // those that are absorbed; readers that are not here get 0.
  std::map<std::pair<NodeId, uint32_t>, std::vector<float>> emitted;
  std::vector<ResidueRow> rows;
};

// Empty for Residue::kDrop. Runs the network on random inputs with the removed channels' weights set to 0: a channel that then is
// one number everywhere emits that number.
Result<Residues> find_residues(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts,
                               const Removal& removal, const CutOptions& options);

}  // namespace lathe::prune
