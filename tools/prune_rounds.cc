#include "tools/prune_rounds.h"

#include <algorithm>
#include <cmath>

#include "tools/markup.h"
#include "tools/network_timer.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

constexpr int kHalvings = 3;

// The request for going from `from` to `to` of the way; what is left shrinks by the same factor in every equal step.
PruneRequest partial(const PruneRequest& whole, const NetworkSize& start, double from, double to) {
  PruneRequest r = whole;
  r.measure = false;
  if (r.ratio) r.ratio = 1 - std::pow(1 - *r.ratio, to - from);
  if (r.target_macs) r.target_macs = start.macs * std::pow(*r.target_macs / start.macs, to);
  if (r.target_ms) r.target_ms = *start.ms * std::pow(*r.target_ms / *start.ms, to);
  return r;
}

}  // namespace

Result<RoundsOutcome> prune_in_rounds(const Graph& graph, const PruneRequest& request, const RoundOptions& options,
                                      const RoundCallbacks& callbacks) {
  if (request.threshold)
    return fail(Code::kInvalidArgument, "rounds go towards --ratio, --target-macs or --target-latency, not a threshold");
  NetworkSize start = network_size(graph);
  if (request.target_ms) {
    LATHE_TRY(NetworkTimer timer, NetworkTimer::open(request.cost_table, request.session, request.batch, request.seconds));
    LATHE_TRY(start.ms, timer.ms(graph));
  }
  RoundsOutcome out;
  out.graph = graph;
  double progress = 0, step = 1.0 / options.rounds;
  for (int halvings = 0; progress < 1 && halvings <= kHalvings;) {
    const double next = progress + step > 1 - 1e-9 ? 1 : progress + step;
    LATHE_TRY(PruneOutcome pruned, prune_model(out.graph, partial(request, start, progress, next)));
    LATHE_TRY(Graph tuned, callbacks.fine_tune(pruned.graph));
    LATHE_TRY(const double drop, callbacks.drop(tuned));
    const bool kept = drop <= options.max_drop;
    out.rounds.push_back({next, pruned.plan.after.parameters, pruned.plan.after.macs, drop, kept});
    if (kept) {
      out.graph = std::move(tuned);
      progress = next;
    } else {
      step /= 2;
      ++halvings;
    }
  }
  out.reached = progress >= 1;
  return out;
}

std::string rounds_text(const RoundsOutcome& outcome, const RoundOptions& options) {
  Table table({"round", "of the way %", "parameters", "MACs", "drop", ""});
  size_t n = 0;
  for (const Round& r : outcome.rounds)
    table.add({std::to_string(++n), formatted("%.1f", 100 * r.progress), std::to_string(r.parameters), formatted("%.0f", r.macs),
               formatted("%.2f", r.drop), r.kept ? "kept" : "taken back"});
  return table.text() +
         (outcome.reached ? "" : formatted("the target was not reached with a drop of at most %.4g\n", options.max_drop));
}

Tree rounds_json(const RoundsOutcome& outcome) {
  Tree rounds = Tree::array(), out = Tree::table();
  for (const Round& r : outcome.rounds)
    rounds.push(Tree(Tree::table()
                         .set("progress", r.progress)
                         .set("parameters", r.parameters)
                         .set("macs", r.macs)
                         .set("drop", r.drop)
                         .set("kept", r.kept)));
  return out.set("reached", outcome.reached).set("rounds", std::move(rounds));
}

}  // namespace lathe::tools
