// lathe prune: whole channels go, and the network gets smaller.
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "prune/blocks.h"
#include "tools/branch_removal.h"
#include "tools/head_flags.h"
#include "tools/model.h"
#include "tools/pruning.h"
#include "tools/round_flags.h"
#include "tools/table.h"
#include "tools/verb.h"
#include "tools/zero_removal.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string output, criterion = "l1", by = "time", residue;
  bool plan = false, zeros = false, json = false;
  std::optional<double> blocks;
  std::vector<std::string> remove;
  PruneRequest request;
  RoundFlags rounds;
  HeadFlags heads;
  SessionFlags session;
  ImportFlags import;
};

// Writes the graph if a file was named, and prints `json` or `text`.
Result<void> finish(const Options& o, const Graph& graph, const Tree& json, const std::string& text) {
  if (!o.output.empty()) LATHE_CHECK_OK(write_model(o.output, graph));
  if (o.json) {
    std::printf("%s\n", to_json(json).c_str());
    return {};
  }
  std::printf("%s", text.c_str());
  if (!o.output.empty()) std::printf("wrote %s\n", o.output.c_str());
  return {};
}

// What the model carries but does not use.
Result<void> run_zeros(const Options& o, const Graph& graph) {
  LATHE_TRY(const ZeroOutcome outcome, remove_zeros(o.request.model, graph));
  return finish(o, outcome.graph, zeros_json(outcome), zeros_text(outcome));
}

// Cuts, trains and evaluates in turns.
Result<void> run_rounds(const Options& o, const PruneRequest& request, const Graph& graph) {
  if (o.output.empty()) return fail(Code::kInvalidArgument, "rounds train a network: give -o out.lathe to keep it");
  LATHE_TRY(const RoundsOutcome outcome, o.rounds.run(graph, request, o.output, o.import));
  LATHE_CHECK_OK(write_model(o.output, outcome.graph));
  if (o.json)
    std::printf("%s\n", to_json(rounds_json(outcome)).c_str());
  else
    std::printf("%swrote %s\n", rounds_text(outcome, o.rounds.options()).c_str(), o.output.c_str());
  return {};
}

// Heads, stepwise or by coverage.
Result<void> run_heads(const Options& o, const PruneRequest& request, const Graph& graph) {
  HeadOptions options;
  LATHE_TRY(const HeadsOutcome outcome, o.heads.run(graph, request, o.criterion, o.rounds, &options));
  return finish(o, outcome.graph, heads_json(outcome, options),
                heads_text(outcome, options) + sizes_text(outcome.before, outcome.after, request.session, request.batch) +
                    proof_text(outcome.proof) + "\n");
}

// Whole layers by name.
Result<void> run_remove(const Options& o, const PruneRequest& request, const Graph& graph) {
  auto outcome = remove_named(graph, o.remove, request);
  if (!outcome) return tl::unexpected<Error>(with_context(std::move(outcome.error()), request.model));
  return finish(o, outcome->graph, branches_json(*outcome), branches_text(*outcome, request));
}

Tree block_tree(const prune::BlockRow& r) {
  return Tree::table()
      .set("node", r.node)
      .set("weight", r.weight)
      .set("blocks", r.blocks)
      .set("zero", r.zeros)
      .set("pruned", r.pruned)
      .set("energy", r.energy);
}

// Blocks of weights that the block-sparse kernels will leave out.
Result<void> run_blocks(const Options& o, const Graph& graph) {
  LATHE_TRY(const prune::Blocked blocked, prune::zero_blocks(graph, *o.blocks));
  const std::vector<prune::BlockRow>& rows = blocked.rows;
  if (!o.output.empty()) LATHE_CHECK_OK(write_model(o.output, blocked.graph));
  Table table({"node", "blocks", "zero", "% of squares gone"});
  Tree json = Tree::array();
  size_t pruned = 0;
  for (const prune::BlockRow& r : rows) {
    pruned += r.pruned ? 1 : 0;
    char share[32];
    std::snprintf(share, sizeof share, "%.1f", 100 * r.energy);
    table.add({r.node, std::to_string(r.blocks), std::to_string(r.zeros), r.pruned ? share : "kept: dense is as fast"});
    json.push(block_tree(r));
  }
  if (o.json) {
    std::printf("%s\n", to_json(Tree::table().set("layers", std::move(json)).set("pruned", pruned)).c_str());
    return {};
  }
  std::printf("%s%zu of %zu weights lost %g %% of their blocks; INT8 runs them faster, float does not\n", table.text().c_str(),
              pruned, rows.size(), 100 * *o.blocks);
  if (!o.output.empty()) std::printf("wrote %s\n", o.output.c_str());
  return {};
}

Result<void> run(const Options& o) {
  if (o.output.empty() && !o.plan) return fail(Code::kInvalidArgument, "give -o out.lathe, or --plan to see what would go");
  if (!o.output.empty()) LATHE_CHECK_OK(check_writable(o.output));
  PruneRequest request = o.request;
  const bool heads = HeadFlags::given(o.criterion, o.rounds);
  if (!heads) {
    LATHE_TRY(request.criterion, prune::parse_criterion(o.criterion));
  }
  LATHE_TRY(request.by, parse_prune_by(o.by));
  if (!o.residue.empty()) {
    LATHE_TRY(request.residue, parse_residue(o.residue));
  }
  LATHE_TRY(request.session, o.session.options());
  LATHE_TRY(const Graph graph, load_graph(request.model, o.import));
  if (o.zeros) return run_zeros(o, graph);
  if (!o.remove.empty()) return run_remove(o, request, graph);
  if (o.blocks) return run_blocks(o, graph);
  if (heads) return run_heads(o, request, graph);
  if (o.rounds.given()) return run_rounds(o, request, graph);
  LATHE_TRY(const PruneOutcome outcome, prune_model(graph, request));
  return finish(o, outcome.graph, plan_json(outcome, request),
                plan_text(outcome.plan, request) + proof_text(outcome.proof) + "\n");
}

void add_targets(Arguments& args, PruneRequest* r) {
  const Argument ratio = args.option("--ratio", r->ratio, "share of the channels that go, between 0 and 1");
  const Argument threshold = args.option("--threshold", r->threshold,
                                         "channels below it go: of |gamma| for gamma, else of importance (1: the group's mean)");
  const Argument macs = args.option("--target-macs", r->target_macs, "multiply-accumulates at batch 1 that are left at most");
  Argument latency = args.option("--target-latency", r->target_ms,
                                 "milliseconds that a float run may take here at most; measured, with --threads and --batch");
  latency.excludes(ratio).excludes(threshold).excludes(macs);
  args.find("--target-macs").excludes(ratio).excludes(threshold);
  args.find("--threshold").excludes(ratio);
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  PruneRequest& r = o->request;
  args.option("model", r.model, ".lathe, .onnx or .tflite file (float)").required();
  args.option("-o,--output", o->output, ".lathe file to write");
  args.flag("--plan", o->plan, "print what would go; writes only with -o");
  add_targets(args, &r);
  args.flag("--zeros", o->zeros,
            "remove what is zero already: channels, heads and branches that masks or other tools left behind")
      .excludes(args.find("--ratio"))
      .excludes(args.find("--threshold"))
      .excludes(args.find("--target-macs"))
      .excludes(args.find("--target-latency"));
  args.option("--blocks", o->blocks,
              "share of the blocks of 4 inputs x 16 channels that become zero, between 0 and 1; shapes stay, INT8 skips them")
      .excludes(args.find("--zeros"))
      .excludes(args.find("--ratio"))
      .excludes(args.find("--threshold"))
      .excludes(args.find("--target-macs"))
      .excludes(args.find("--target-latency"));
  args.option("--remove", o->remove, "a layer that goes whole: a branch beside a shortcut, by its sum's or a node's name or pattern")
      .type_name("NAME")
      .excludes(args.find("--zeros"))
      .excludes(args.find("--blocks"))
      .excludes(args.find("--ratio"))
      .excludes(args.find("--threshold"))
      .excludes(args.find("--target-macs"))
      .excludes(args.find("--target-latency"));
  args.option("--criterion", o->criterion,
              "what a channel's importance is; coverage: heads alone, by what the others can do in their place")
      .show_default()
      .one_of({"gamma", "l1", "l2", "taylor", "activation", "coverage", "random"});
  args.option("--by", o->by, "what importance is divided by: measured time, parameters or nothing")
      .show_default()
      .one_of({"time", "parameters", "nothing"});
  args.flag("--uniform", r.uniform, "every group loses the same share");
  const Argument with_heads = args.flag("--heads", r.heads, "attention heads may go, too");
  args.flag("--only-heads", r.only_heads, "nothing but attention heads goes; the ratio is of them").excludes(with_heads);
  args.option("--max-group-ratio", r.max_group_ratio, "share of one group's channels that go at most").show_default();
  args.option("--multiple", r.multiple, "bring channel counts to multiples of this instead of what kernels like");
  args.option("--keep", r.keep, "groups that stay whole: a group's, constant's or node's name, or a pattern with * and ?")
      .type_name("NAME");
  args.option("--residue", o->residue,
              "constants that channels leave behind: into the next bias where that is exact (absorb, default for gamma), also "
              "where only "
              "borders differ (absorb-padded), or nowhere (drop, default else)")
      .one_of({"absorb", "absorb-padded", "drop"});
  args.option("--data", r.data, "data set (TOML) for taylor, activation and coverage; reads its split train, else val");
  args.option("--samples", r.samples, "of them").show_default().positive();
  args.option("--seed", r.seed, "of criterion random").show_default();
  args.option("--batch", r.batch, "samples per run when measuring").show_default().positive();
  args.option("--seconds", r.seconds, "how long to measure a network").show_default().range(0.01, 3600.0);
  args.option("--cost-table", r.cost_table, "file that measured times are taken from and added to");
  o->rounds.add_to(args);
  o->heads.add_to(args);
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_prune{"prune", "cut whole channels out of a float model", "lathe prune model.lathe --ratio 0.25 -o pruned.lathe",
                       setup};

}  // namespace lathe::tools
