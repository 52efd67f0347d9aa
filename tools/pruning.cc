#include "tools/pruning.h"

#include <algorithm>

#include "graph/cost.h"
#include "graph/lineage.h"
#include "graph/pass.h"
#include "kernels/gemm/gemm.h"
#include "prune/costs.h"
#include "prune/groups.h"
#include "prune/select.h"
#include "quant/decide.h"
#include "tools/device_costs.h"
#include "tools/markup.h"
#include "tools/network_timer.h"
#include "tools/prune_scores.h"

namespace lathe::tools {
namespace {

bool named(const std::vector<std::string>& patterns, const std::string& text) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches_pattern(p, text); });
}

class Pruning {
 public:
  Pruning(const Graph& graph, const PruneRequest& request, std::vector<prune::Group> groups, NetworkTimer timer)
      : graph_(graph), request_(request), groups_(std::move(groups)), timer_(std::move(timer)) {}

  Result<PruneOutcome> run() {
    LATHE_CHECK_OK(score());
    LATHE_CHECK_OK(set_options());
    order_ = prune::removal_order(groups_, importance_, options_);
    if (order_.empty()) return fail(Code::kInvalidArgument, "no channel can go: " + first_reason());
    plan_.channels = prune::prunable_channels(groups_, importance_, options_);
    LATHE_TRY(const std::vector<prune::Block> blocks, choose());
    PruneOutcome out;
    LATHE_TRY(out.graph, apply(blocks, &out.proof));
    set_lineage(graph_, &out.graph);
    describe(blocks);
    LATHE_CHECK_OK(measure_sizes(out.graph));
    plan_.networks = timer_.measured();
    out.plan = std::move(plan_);
    return out;
  }

 private:
  Result<void> score() {
    prune::ImportanceOptions options;
    options.criterion = request_.criterion;
    options.seed = request_.seed;
    std::optional<ScoreData> data;
    if (prune::needs_data(request_.criterion)) {
      if (request_.data.empty())
        return fail(Code::kInvalidArgument,
                    std::string("criterion ") + prune::criterion_name(request_.criterion) + " needs --data set.toml");
      LATHE_TRY(data, load_score_data(request_.data, request_.samples, request_.session));
      options.gradients = gradient_source(*data);
      options.activations = activation_source(*data);
    }
    LATHE_TRY(importance_, prune::importance(graph_, groups_, options));
    return {};
  }

  Result<void> set_options() {
    options_.max_group_ratio = request_.max_group_ratio;
    options_.tile = request_.multiple > 0 ? request_.multiple : kernels::kGemmPanel;
    options_.part = request_.multiple > 0 ? request_.multiple : kernels::kGemmQuad;
    options_.uniform = request_.uniform;
    for (const prune::Group& g : groups_)
      options_.keep.push_back((g.heads ? !request_.heads && !request_.only_heads : request_.only_heads) ||
                              is_kept(graph_, g, request_.keep));
    if (request_.by == PruneBy::kParameters) options_.costs = prune::channel_parameters(graph_, groups_);
    if (request_.by != PruneBy::kTime) return {};
    Graph lowered = graph_;
    LATHE_CHECK_OK(run_passes(lowered, lowering_passes()));
    CostRequest costs;
    costs.session = request_.session;
    costs.seconds = request_.seconds;
    costs.batch = request_.batch;
    LATHE_TRY(const auto us, float_times(lowered, costs, &timer_.table()));
    options_.costs = prune::channel_times(graph_, groups_, [&](const Node& node) {
      const auto it = us.find(node.name);
      return it == us.end() ? 0 : it->second;
    });
    return timer_.save();
  }

  std::string why_whole(size_t g) const {
    if (!groups_[g].frozen.empty()) return groups_[g].frozen;
    if (groups_[g].heads && !request_.heads && !request_.only_heads) return "attention heads (--heads)";
    if (!groups_[g].heads && request_.only_heads) return "no heads (--only-heads)";
    if (options_.keep[g]) return "kept";
    return importance_[g].missing;
  }

  std::string first_reason() const {
    for (size_t g = 0; g < groups_.size(); ++g)
      if (const std::string why = why_whole(g); !why.empty()) return "group '" + groups_[g].name + "': " + why;
    return groups_.empty() ? "the network has no channels that are free to go" : "groups are too small for --max-group-ratio";
  }

  std::vector<prune::Block> first(size_t count) const { return {order_.begin(), order_.begin() + static_cast<ptrdiff_t>(count)}; }

  Result<Graph> cut(std::span<const prune::Block> blocks) const {
    LATHE_TRY(prune::CutResult result, prune::cut(graph_, groups_, prune::cuts_of(blocks), {residue(), request_.seed}));
    return std::move(result.graph);
  }

  Result<std::vector<prune::Block>> choose() {
    if (request_.threshold) return prune::blocks_below(order_, *request_.threshold);
    if (request_.ratio) return at_ratio();
    if (request_.target_macs) {
      LATHE_TRY(const size_t count, fewest_blocks(*request_.target_macs, "multiply-accumulates", "%.4g",
                                                  [](const Graph& g) -> Result<double> { return total_macs(g); }));
      return first(count);
    }
    LATHE_TRY(const size_t count,
              fewest_blocks(*request_.target_ms, "ms", "%.4g", [this](const Graph& g) { return timer_.ms(g); }));
    return first(count);
  }

  std::vector<prune::Block> at_ratio() {
    const size_t count = prune::blocks_for_ratio(order_, plan_.channels, *request_.ratio);
    uint64_t gone = 0;
    for (size_t i = 0; i < count; ++i) gone += order_[i].channels.size();
    const double reached = static_cast<double>(gone) / static_cast<double>(plan_.channels);
    if (std::abs(reached - *request_.ratio) > 0.02)
      plan_.notes.push_back(
          formatted("%.1f %% of the channels go, not %.1f: counts that kernels like and at most %.0f %% of a group",
                    100 * reached, 100 * *request_.ratio, 100 * request_.max_group_ratio));
    return first(count);
  }

  // The fewest blocks whose network has at most `target`. Latency does not fall with every block: the search halves on measured
  // networks, and what it ends with has been measured itself.
  Result<size_t> fewest_blocks(double target, const char* unit, const char* format,
                               const std::function<Result<double>(const Graph&)>& value_of) {
    const auto value_at = [&](size_t count) -> Result<double> {
      if (count == 0) return value_of(graph_);
      LATHE_TRY(const Graph g, cut(first(count)));
      return value_of(g);
    };
    LATHE_TRY(const double whole, value_at(0));
    if (whole <= target) {
      plan_.notes.push_back("the network is there already: " + formatted(format, whole) + " " + unit);
      return 0;
    }
    LATHE_TRY(const double least, value_at(order_.size()));
    if (least > target)
      return fail(Code::kInvalidArgument, formatted("no plan has %.4g ", target) + unit +
                                              " or less: with all that can go it is " + formatted(format, least));
    size_t too_few = 0, enough = order_.size();
    while (enough - too_few > 1) {
      const size_t middle = too_few + (enough - too_few) / 2;
      LATHE_TRY(const double value, value_at(middle));
      (value <= target ? enough : too_few) = middle;
    }
    return enough;
  }

  prune::Residue residue() const {
    return request_.residue.value_or(request_.criterion == prune::Criterion::kGamma ? prune::Residue::kAbsorb
                                                                                    : prune::Residue::kDrop);
  }

  // Cuts, proves and returns the cut network. Constants in the biases of padded layers are wrong at borders, which no masked
  // network is: there the same cut without them is proved, and a note says what they change.
  Result<Graph> apply(const std::vector<prune::Block>& blocks, prune::Proof* proof) {
    const auto cuts = prune::cuts_of(blocks);
    prune::CutOptions options{residue(), request_.seed};
    const bool padded = options.residue == prune::Residue::kAbsorbPadded;
    if (padded) options.residue = prune::Residue::kAbsorb;
    LATHE_TRY(const Graph masked, prune::mask(graph_, groups_, cuts, options));
    LATHE_TRY(prune::CutResult rewritten, prune::cut(graph_, groups_, cuts, options));
    LATHE_TRY(*proof, prune::prove(masked, rewritten.graph));
    if (!proof->passed)
      return fail(Code::kInvalidArgument,
                  "the rewritten network does not compute what the masked one does: " + proof_text(*proof));
    if (padded) {
      LATHE_TRY(rewritten, prune::cut(graph_, groups_, cuts, {residue(), request_.seed}));
      LATHE_TRY(const prune::Proof changed, prune::prove(masked, rewritten.graph));
      plan_.notes.push_back(
          formatted("constants in the biases of padded layers change outputs by %.3g at most", changed.largest_difference));
    }
    plan_.residues = std::move(rewritten.residues);
    return std::move(rewritten.graph);
  }

  void describe(const std::vector<prune::Block>& blocks) {
    for (size_t g = 0; g < groups_.size(); ++g)
      plan_.groups.push_back({groups_[g].name,
                              groups_[g].channels,
                              {},
                              why_whole(g),
                              importance_[g].shown,
                              options_.costs.empty() ? 1 : options_.costs[g]});
    for (prune::Cut& c : prune::cuts_of(blocks)) {
      plan_.gone += c.channels.size();
      plan_.groups[c.group].goes = std::move(c.channels);
    }
  }

  Result<void> measure_sizes(const Graph& after) {
    plan_.before = network_size(graph_);
    plan_.after = network_size(after);
    if (!request_.measure) return {};
    LATHE_TRY(const auto ms, timer_.in_turns(graph_, after));
    plan_.before.ms = ms.first;
    plan_.after.ms = ms.second;
    return {};
  }

  const Graph& graph_;
  const PruneRequest& request_;
  const std::vector<prune::Group> groups_;
  NetworkTimer timer_;
  std::vector<prune::Importance> importance_;
  prune::SelectOptions options_;
  std::vector<prune::Block> order_;
  PrunePlan plan_;
};

Result<void> check_request(const PruneRequest& r) {
  const int targets = r.ratio.has_value() + r.threshold.has_value() + r.target_macs.has_value() + r.target_ms.has_value();
  if (targets != 1) return fail(Code::kInvalidArgument, "give one of --ratio, --threshold, --target-macs and --target-latency");
  if (r.ratio && !(*r.ratio > 0 && *r.ratio < 1))
    return fail(Code::kInvalidArgument, formatted("ratio is %.4g, must be above 0 and below 1", *r.ratio));
  for (const auto& target : {r.threshold, r.target_macs, r.target_ms})
    if (target && !(*target > 0)) return fail(Code::kInvalidArgument, formatted("the target is %.4g, must be above 0", *target));
  if (!(r.max_group_ratio > 0 && r.max_group_ratio <= 1))
    return fail(Code::kInvalidArgument,
                formatted("the cap of a group is %.4g, must be above 0 and at most 1", r.max_group_ratio));
  return {};
}

}  // namespace

bool is_kept(const Graph& graph, const prune::Group& group, const std::vector<std::string>& keep) {
  if (named(keep, group.name)) return true;
  for (const prune::Member& m : group.members) {
    if (named(keep, graph.value(m.value).name)) return true;
    for (const NodeId n : graph.consumers(m.value))
      if (named(keep, graph.node(n).name)) return true;
  }
  return false;
}

Result<PruneBy> parse_prune_by(const std::string& name) {
  if (name == "time") return PruneBy::kTime;
  if (name == "parameters") return PruneBy::kParameters;
  if (name == "nothing") return PruneBy::kNothing;
  return fail(Code::kInvalidArgument, "importance is divided by '" + name + "', must be time, parameters or nothing");
}

Result<prune::Residue> parse_residue(const std::string& name) {
  if (name == "absorb") return prune::Residue::kAbsorb;
  if (name == "absorb-padded") return prune::Residue::kAbsorbPadded;
  if (name == "drop") return prune::Residue::kDrop;
  return fail(Code::kInvalidArgument, "residues are '" + name + "', must be absorb, absorb-padded or drop");
}

NetworkSize network_size(const Graph& graph) {
  NetworkSize size;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (value.dead || value.kind != ValueKind::kConstant) continue;
    size.bytes += value.constant.bytes.size();
    if (value.type.dtype == DType::kF32) size.parameters += value.constant.bytes.size() / sizeof(float);
  }
  size.macs = total_macs(graph);
  return size;
}

Result<PruneOutcome> prune_model(const Graph& graph, const PruneRequest& request) {
  LATHE_CHECK_OK(check_request(request));
  auto groups = prune::find_groups(graph);
  if (!groups) return tl::unexpected<Error>(with_context(std::move(groups.error()), request.model));
  LATHE_TRY(NetworkTimer timer, NetworkTimer::open(request.cost_table, request.session, request.batch, request.seconds));
  return Pruning(graph, request, std::move(*groups), std::move(timer)).run();
}

}  // namespace lathe::tools
