// Pruning in several rounds, each followed by training and an evaluation that may take it back.
//
// One cut and one fine-tuning is the default for channels: cutting and training in turns moves the target. Rounds are for what
// does not stand one cut: attention heads, and high ratios without data to spare.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tools/pruning.h"

namespace lathe::tools {

struct RoundOptions {
  uint32_t rounds = 4;
  double max_drop = 1;  // of the metric, against the network that was given: points of a share, else percent
};

struct RoundCallbacks {
  std::function<Result<Graph>(const Graph& pruned)> fine_tune;
  std::function<Result<double>(const Graph& tuned)> drop;  // against the network that was given; negative: better
};

struct Round {
  double progress = 0;  // of the way to the target, on a logarithmic scale: 1 is the target
  uint64_t parameters = 0;
  double macs = 0, drop = 0;
  bool kept = false;  // false: taken back
};

struct RoundsOutcome {
  Graph graph;  // of the last round that was kept; the network that was given if none was
  std::vector<Round> rounds;
  bool reached = false;  // the whole target
};

// Goes to the request's target in equal steps. A round whose drop is too large is taken back and tried with half the step, three
// times at most; then what held so far is the result. Every round cuts what the one before left, with importance of its own.
// Errors: a threshold as target; those of prune_model() and of the callbacks.
Result<RoundsOutcome> prune_in_rounds(const Graph& graph, const PruneRequest& request, const RoundOptions& options,
                                      const RoundCallbacks& callbacks);

std::string rounds_text(const RoundsOutcome& outcome, const RoundOptions& options);
Tree rounds_json(const RoundsOutcome& outcome);

}  // namespace lathe::tools
