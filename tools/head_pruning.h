// Attention heads that go a few at a time, each step judged on data and taken back if it costs too much.
//
// Heads do not stand one cut as channels do: what one head did others take over, so that which can go next is known only when the
// last one has gone. Each step looks at the heads anew, folds what goes into the output projections of those that stay
// (prune/head_scores.h), cuts with the proof of every cut, and asks for the metric.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "prune/head_scores.h"
#include "tools/pruning.h"

namespace lathe::tools {

struct HeadOptions {
  double ratio = 0.3;  // of all heads that can go, those of blocks that must keep their last one included
  // How many steps it takes; 0: as many as heads go. A step that is taken back is tried with half the heads, down to one.
  uint32_t steps = 0;
  uint32_t per_layer = 2;  // that one block loses in one step at most; of a single step: no limit
  // Where a step takes one head: of how many, the ones that lose least by their scores, the metric chooses.
  uint32_t candidates = 8;
  // For coverage: how often, when the last step is done, every head that went is tried back against `candidates` others in its place.
  uint32_t swaps = 0;
  // By coverage, with the fit folded into the projections; else by `criterion`, without.
  bool coverage = true, fold = true;
  prune::Criterion criterion = prune::Criterion::kL2;
  std::optional<double> max_drop = 1;  // against the network that was given; none: no step is taken back
  std::vector<std::string> keep = {};  // groups that stay whole, as of PruneRequest
  uint64_t seed = 1;
};

struct HeadCallbacks {
  prune::HeadSource heads;                                // coverage
  prune::ImportanceOptions importance;                    // other criteria
  std::function<Result<double>(const Graph& cut)> drop;  // against the network that was given; negative: better
};

struct HeadRow {
  std::string block;  // the group's name
  uint32_t head = 0;
  std::optional<prune::HeadScore> score;  // in the network that was given, for coverage
  double importance = 0;                  // for other criteria
  uint32_t step = 0;                      // in which it went; 0: it stays
};

struct HeadStep {
  std::vector<std::pair<std::string, uint32_t>> heads;  // that went: block and number
  std::vector<std::pair<std::string, uint32_t>> back;   // that came back in their place
  double lost = 0, r2 = 1;                              // of the fits: the largest Coverage::lost, the least coverage
  double drop = 0;
  bool kept = false;
};

struct HeadsOutcome {
  Graph graph;
  std::vector<HeadRow> rows;
  std::vector<HeadStep> steps;
  std::vector<std::string> user_groups, notes;
  size_t heads = 0, gone = 0, wanted = 0;
  prune::Proof proof;  // of all cuts, the one with the largest difference
  NetworkSize before, after;
  bool reached() const { return gone == wanted; }
};

// Errors: a network without heads that can go, a quantized one, those of the callbacks, a cut that computes something else.
Result<HeadsOutcome> prune_heads(const std::string& model, const Graph& graph, const HeadOptions& options,
                                 const HeadCallbacks& callbacks);

std::string heads_text(const HeadsOutcome& outcome, const HeadOptions& options);
Tree heads_json(const HeadsOutcome& outcome, const HeadOptions& options);

}  // namespace lathe::tools
