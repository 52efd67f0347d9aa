// Takes whole layers out of a network by name: branches beside a shortcut (prune/rewrite.h). For `lathe prune --remove`.
#pragma once
#include <string>
#include <vector>

#include "base/tree.h"
#include "prune/rewrite.h"
#include "tools/pruning.h"

namespace lathe::tools {

struct BranchOutcome {
  Graph graph;
  struct Row {
    std::string name;  // of the node that adds
    size_t nodes = 0;
  };
  std::vector<Row> removed;
  prune::Proof proof;  // masked against rewritten
  NetworkSize before, after;
};

// `names`: of branches (the node that adds), of nodes in them, or patterns with * and ? of either: both branches of a transformer's
// layer often share the beginning of their names. Measures both networks in turns. Errors: a name that fits no branch (with those there
// are), a network without any, a quantized one, a result that computes something else than the masked network.
Result<BranchOutcome> remove_named(const Graph& graph, const std::vector<std::string>& names, const PruneRequest& request);

std::string branches_text(const BranchOutcome& outcome, const PruneRequest& request);
Tree branches_json(const BranchOutcome& outcome);

}  // namespace lathe::tools
