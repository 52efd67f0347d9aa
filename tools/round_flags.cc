#include "tools/round_flags.h"

#include "tools/evaluation.h"
#include "tools/train_flags.h"

namespace lathe::tools {

void RoundFlags::add_to(Arguments& args) {
  args.option("--schedule", schedule,
              "one cut; rounds that each train, evaluate and step back if too much is lost (iterative); or heads alone, a few at a "
              "time, evaluated and stepped back in the same way without training (stepwise)")
      .show_default()
      .one_of({"once", "iterative", "stepwise"});
  args.option("--rounds", rounds, "of --schedule iterative").show_default().positive();
  args.option("--epochs", epochs, "of training in each round, on split train").show_default().positive();
  args.option("--base-lr", base_rate,
              "rate that the model was trained with: rounds take 15 % of it; without it one is looked for")
      .positive();
  args.option("--max-drop", max_drop, "of the metric on split val, or a round or step is taken back")
      .show_default();
  args.option("--metric", metric, "as of `lathe eval`").show_default();
}

Result<RoundsOutcome> RoundFlags::run(const Graph& graph, const PruneRequest& request, const std::string& output,
                                      const ImportFlags& import) const {
  if (request.data.empty())
    return fail(Code::kInvalidArgument, "--schedule iterative trains and evaluates: give --data set.toml");
  LATHE_TRY(const Dataset data, Dataset::load(request.data));
  TrainFlags flags;
  flags.epochs = epochs;
  flags.base_rate = base_rate;
  flags.metric = metric;
  flags.seed = request.seed;
  LATHE_TRY(TrainRequest training, flags.request(data, output, request.session, import));
  LATHE_TRY(const ChosenSplit judge, data.for_choices());
  EvalRequest eval;
  eval.metric = training.metric;
  eval.session = request.session;
  LATHE_TRY(const ModelScores baseline, score_graph(graph, request.model, data, *judge.split, eval));
  RoundCallbacks callbacks;
  callbacks.fine_tune = [&](const Graph& pruned) -> Result<Graph> {
    LATHE_TRY(TrainResult result, train_model(pruned, data, training));
    return std::move(result.graph);
  };
  callbacks.drop = [&](const Graph& tuned) -> Result<double> {
    LATHE_TRY(const ModelScores scores, score_graph(tuned, request.model, data, *judge.split, eval));
    return make_report(eval.metric, *judge.split, scores, &baseline, false).all.drop;
  };
  return prune_in_rounds(graph, request, options(), callbacks);
}

}  // namespace lathe::tools
