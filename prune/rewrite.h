// Cutting groups of channels out of a network, the masked network that a cut is measured against, and the proof that both agree.
//
// cut() makes a second, smaller graph: constants sliced, attributes (groups, slice bounds, pads) and reshape targets rewritten,
// metadata kept. mask() keeps all shapes; what reads a channel that goes reads nothing (0) instead. The graph given is never
// changed.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "prune/groups.h"

namespace lathe::prune {

// A channel whose weights are gone still emits a constant where a bias or a normalization stands behind them:
// act(beta - gamma mu / sigma). kDrop: it emits 0. kAbsorb: the constant moves into the bias of every layer that reads it, where
// that is exact (no padding, and the channel does emit one constant); elsewhere it emits 0, and the table says so. kAbsorbPadded:
// into padded layers too, where it is exact but for the borders.
// kMerge: as kAbsorb; and where a bias cannot take it, the weights of a channel that stays can, if that channel has no weights of
// its own either and emits a constant: exact with padding, too. Whoever removes channels that are dead already leaves one of each
// group for this.
enum class Residue : uint8_t { kDrop, kAbsorb, kAbsorbPadded, kMerge };

// What the channels of one cut emit into one layer that reads them.
struct ResidueRow {
  std::string group, layer;
  uint32_t channels = 0;  // that emit a constant other than 0
  double largest = 0;     // the largest magnitude of those
  bool absorbed = false;
  std::string why = {};  // why not absorbed
};

struct CutOptions {
  Residue residue = Residue::kDrop;
  uint64_t seed = 1;  // of the inputs on which residues are found
};

struct CutResult {
  Graph graph;
  std::vector<ResidueRow> residues;
};

// Errors: those of check_cuts(); groups of another graph; a quantized graph.
Result<CutResult> cut(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts,
                      const CutOptions& options = {});
Result<Graph> mask(const Graph& graph, std::span<const Group> groups, std::span<const Cut> cuts, const CutOptions& options = {});

struct ProofOptions {
  uint64_t seed = 1;
  int64_t batch = 3;        // of symbols that are the first axis of an input; others are large enough to run
  double tolerance = 1e-4;  // largest difference, as a share of the largest magnitude of that output
};
struct Proof {
  bool passed = false;
  double largest_difference = 0;  // absolute
  double largest_output = 0;      // magnitude, of the output where the difference is relatively largest
  double relative = 0;            // the quotient, which `tolerance` bounds
  double sqnr_db = 0;             // of all outputs together; 300 where they are equal
  std::string output;             // the output with the largest relative difference
};
// Runs both on the same random inputs, by name. Errors: other inputs or outputs than each other; a run that fails; outputs that
// are not finite.
Result<Proof> prove(const Graph& masked, const Graph& rewritten, const ProofOptions& options = {});

// A sum of a shortcut and a branch that start at the same value: a residual block, an attention or an MLP.
struct Branch {
  std::string name;  // of the node that adds
  NodeId sum = kNoId;
  uint32_t operand = 0;       // of `sum` that is the branch
  std::vector<NodeId> nodes;  // that only serve the branch
};
// Branches that can go whole: the shortcut has the sum's type. In order of the graph.
std::vector<Branch> find_branches(const Graph& graph);
// The graph without some branches; the sum becomes the shortcut.
Result<Graph> remove_branches(const Graph& graph, std::span<const Branch> branches);
// The same shapes; the branches add 0.
Result<Graph> mask_branches(const Graph& graph, std::span<const Branch> branches);

}  // namespace lathe::prune
