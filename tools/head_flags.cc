#include "tools/head_flags.h"

#include "tools/evaluation.h"
#include "tools/network_timer.h"
#include "tools/prune_scores.h"

namespace lathe::tools {
namespace {

constexpr const char* kCoverage = "coverage";

Result<HeadOptions> head_options(const HeadFlags& flags, const PruneRequest& request, const std::string& criterion,
                                 const RoundFlags& rounds) {
  if (!request.ratio) return fail(Code::kInvalidArgument, "heads go by --ratio, their share; other targets are for channels");
  if (!(*request.ratio > 0 && *request.ratio < 1))
    return fail(Code::kInvalidArgument, "ratio is " + std::to_string(*request.ratio) + ", must be above 0 and below 1");
  if (request.data.empty())
    return fail(Code::kInvalidArgument, "heads are judged by what they do on samples: give --data set.toml");
  HeadOptions o;
  o.ratio = *request.ratio;
  o.steps = rounds.stepwise() ? flags.steps : 1;
  o.per_layer = flags.per_layer;
  o.candidates = flags.candidates;
  o.swaps = rounds.stepwise() ? flags.swaps : 0;
  o.coverage = criterion == kCoverage;
  o.fold = !flags.no_fold;
  if (!o.coverage) {
    LATHE_TRY(o.criterion, prune::parse_criterion(criterion));
  }
  // A single cut is what it is: there is no step before it to go back to.
  if (rounds.stepwise())
    o.max_drop = rounds.max_drop;
  else
    o.max_drop.reset();
  o.keep = request.keep;
  o.seed = request.seed;
  return o;
}

}  // namespace

void HeadFlags::add_to(Arguments& args) {
  args.option("--steps", steps, "of --schedule stepwise; 0: one for every head").show_default();
  args.option("--per-layer", per_layer, "heads that a layer loses in one step at most").show_default().positive();
  args.option("--candidates", candidates, "where a step takes one head, for coverage: of how many the metric chooses")
      .show_default()
      .positive();
  args.option("--swaps", swaps,
              "for coverage: how often, in the end, each head that went is tried back against --candidates others in its place")
      .show_default();
  args.flag("--no-fold", no_fold, "for coverage: leave the output projections as they are");
}

bool HeadFlags::given(const std::string& criterion, const RoundFlags& rounds) {
  return criterion == kCoverage || rounds.stepwise();
}

Result<HeadsOutcome> HeadFlags::run(const Graph& graph, const PruneRequest& request, const std::string& criterion,
                                    const RoundFlags& rounds, HeadOptions* options) const {
  if (rounds.given())
    return fail(Code::kInvalidArgument,
                "criterion coverage goes with --schedule once or stepwise; train afterwards, or take another criterion");
  LATHE_TRY(*options, head_options(*this, request, criterion, rounds));
  LATHE_TRY(const ScoreData scores, load_score_data(request.data, request.samples, request.session));
  LATHE_TRY(const ChosenSplit judge, scores.data.for_choices());
  EvalRequest eval;
  LATHE_TRY(eval.metric, parse_metric(rounds.metric));
  eval.session = request.session;
  LATHE_TRY(const ModelScores baseline, score_graph(graph, request.model, scores.data, *judge.split, eval));
  eval.progress.clear();
  HeadCallbacks callbacks;
  callbacks.heads = head_source(scores);
  callbacks.importance.gradients = gradient_source(scores);
  callbacks.importance.activations = activation_source(scores);
  callbacks.drop = [&](const Graph& cut) -> Result<double> {
    LATHE_TRY(const ModelScores now, score_graph(cut, request.model, scores.data, *judge.split, eval));
    return make_report(eval.metric, *judge.split, now, &baseline, false).all.drop;
  };
  LATHE_TRY(HeadsOutcome outcome, prune_heads(request.model, graph, *options, callbacks));
  LATHE_TRY(const NetworkTimer timer, NetworkTimer::open(request.cost_table, request.session, request.batch, request.seconds));
  LATHE_TRY(const auto ms, timer.in_turns(graph, outcome.graph));
  outcome.before.ms = ms.first;
  outcome.after.ms = ms.second;
  return outcome;
}

}  // namespace lathe::tools
