// Pruning in rounds from the command line: how many, how each is trained back, and what takes one back.
#pragma once
#include <optional>
#include <string>

#include "tools/arguments.h"
#include "tools/flags.h"
#include "tools/prune_rounds.h"

namespace lathe::tools {

struct RoundFlags {
  std::string schedule = "once", metric = "accuracy";
  uint32_t rounds = 4, epochs = 2;
  double max_drop = 1;
  std::optional<double> base_rate;
  void add_to(Arguments& args);
  bool given() const { return schedule == "iterative"; }
  bool stepwise() const { return schedule == "stepwise"; }  // of heads (tools/head_flags.h)
  RoundOptions options() const { return {rounds, max_drop}; }
  // Trains on split `train` of the request's data set, judges on its split `val` (else calib, train). Errors: no data set, those
  // of prune_in_rounds() and of training.
  Result<RoundsOutcome> run(const Graph& graph, const PruneRequest& request, const std::string& output,
                            const ImportFlags& import) const;
};

}  // namespace lathe::tools
