// Takes out of a network what it carries but does not use (prune/zeros.h). For `lathe prune --zeros` and `lathe import
// --sparsity`.
#pragma once
#include <string>
#include <vector>

#include "base/tree.h"
#include "prune/zeros.h"
#include "tools/pruning.h"

namespace lathe::tools {

struct ZeroOutcome {
  Graph graph;  // equal to what was given if nothing was found
  struct Row {
    std::string name;             // of the group or branch
    size_t channels = 0, of = 0;  // of a branch: 0
    bool constant = false;        // they emitted a constant, which others took in
  };
  std::vector<Row> removed;
  std::vector<std::string> notes;
  prune::Sparsity left;  // zeros that no structure holds
  NetworkSize before, after;
  prune::Proof masked;  // of every cut against its masked form, the one with the largest difference
  prune::Proof proof;   // of the network that was given against the result
};

// Looks again until nothing is found. Errors: a quantized model; a result that computes something else.
Result<ZeroOutcome> remove_zeros(const std::string& model, const Graph& graph);

std::string zeros_text(const ZeroOutcome& outcome);
Tree zeros_json(const ZeroOutcome& outcome);

}  // namespace lathe::tools
