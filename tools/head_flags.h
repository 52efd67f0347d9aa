// Pruning of heads from the command line: `lathe prune --criterion coverage` and `--schedule stepwise`.
#pragma once
#include "tools/arguments.h"
#include "tools/head_pruning.h"
#include "tools/round_flags.h"

namespace lathe::tools {

struct HeadFlags {
  uint32_t steps = 0, per_layer = 2, candidates = 8, swaps = 0;
  bool no_fold = false;
  void add_to(Arguments& args);
  // Whether heads are what is pruned, in this file's way.
  static bool given(const std::string& criterion, const RoundFlags& rounds);
  // `criterion`: coverage, or one of prune/criteria.h. Judges on split `val` (else calib, train) of the request's data set, looks at
  // heads on its `train` (else the same). Errors: a target that is no ratio, no data set, those of prune_heads().
  Result<HeadsOutcome> run(const Graph& graph, const PruneRequest& request, const std::string& criterion, const RoundFlags& rounds,
                           HeadOptions* options) const;
};

}  // namespace lathe::tools
