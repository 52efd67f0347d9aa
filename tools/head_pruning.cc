#include "tools/head_pruning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/cancel.h"
#include "graph/lineage.h"
#include "prune/groups.h"
#include "prune/rewrite.h"

namespace lathe::tools {
namespace {

using Plan = std::map<size_t, std::vector<uint32_t>>;  // heads by group, sorted

// The heads of one network: groups, and what one of them costs to lose.
class Look {
 public:
  static Result<Look> at(const Graph& graph, const HeadOptions& options, const HeadCallbacks& callbacks, uint64_t seed) {
    Look look;
    LATHE_TRY(look.groups, prune::find_groups(graph));
    look.costs.resize(look.groups.size());
    if (!options.coverage) {
      prune::ImportanceOptions importance = callbacks.importance;
      importance.criterion = options.criterion;
      importance.seed = seed;
      LATHE_TRY(const auto values, prune::importance(graph, look.groups, importance));
      for (size_t g = 0; g < look.groups.size(); ++g)
        if (look.groups[g].heads && look.groups[g].segment.empty()) look.costs[g] = values[g].values;
      return look;
    }
    look.blocks = prune::find_head_blocks(graph, look.groups);
    LATHE_TRY(look.moments, prune::observe_heads(graph, look.blocks, callbacks.heads));
    look.scores.resize(look.blocks.size());
    for (size_t b = 0; b < look.blocks.size(); ++b) {
      if (!look.blocks[b].refused.empty()) continue;
      look.scores[b] = prune::score_heads(graph, look.blocks[b], look.moments[b]);
      for (const prune::HeadScore& s : look.scores[b])
        look.costs[look.blocks[b].group].push_back(s.may_go ? s.lost : std::numeric_limits<double>::infinity());
    }
    return look;
  }

  std::optional<size_t> block_of(size_t group) const {
    for (size_t b = 0; b < blocks.size(); ++b)
      if (blocks[b].group == group) return b;
    return {};
  }

  std::vector<prune::Group> groups;
  std::vector<std::vector<double>> costs;  // by group, by head; infinite: it may not go; empty: no heads that can go
  std::vector<prune::HeadBlock> blocks;    // with coverage; and by block:
  std::vector<prune::HeadMoments> moments;
  std::vector<std::vector<prune::HeadScore>> scores;
};

class HeadPruning {
 public:
  HeadPruning(const std::string& model, const Graph& graph, const HeadOptions& options, const HeadCallbacks& callbacks)
      : model_(model), original_(graph), options_(options), callbacks_(callbacks) {}

  Result<HeadsOutcome> run() {
    out_.graph = original_;
    LATHE_CHECK_OK(look());
    LATHE_CHECK_OK(begin());
    if (options_.swaps > 0) first_ = look_;
    size_t step = options_.steps == 0 ? 1 : std::max<size_t>(1, (out_.wanted + options_.steps - 1) / options_.steps);
    while (out_.gone < out_.wanted) {
      LATHE_CHECK_OK(check_cancelled());
      const std::vector<Plan> plans = choices(std::min(step, out_.wanted - out_.gone));
      if (plans.empty()) break;
      LATHE_TRY(const bool kept, try_step(plans));
      if (kept) LATHE_CHECK_OK(look());
      if (!kept) step = std::max<size_t>(1, step / 2);
    }
    if (options_.coverage && options_.swaps > 0 && out_.gone > 0) LATHE_CHECK_OK(revise());
    if (!out_.reached()) out_.notes.push_back(why_not_reached());
    set_lineage(original_, &out_.graph);
    out_.before = network_size(original_);
    out_.after = network_size(out_.graph);
    return std::move(out_);
  }

 private:
  Result<void> look() {
    auto found = Look::at(out_.graph, options_, callbacks_, options_.seed + out_.steps.size());
    if (!found) return tl::unexpected<Error>(with_context(std::move(found.error()), model_));
    look_ = std::move(*found);
    for (size_t g = 0; g < look_.groups.size(); ++g)
      if (is_kept(out_.graph, look_.groups[g], options_.keep)) look_.costs[g].clear();
    return {};
  }

  // The first look: numbers every head and counts what may go.
  Result<void> begin() {
    size_t last_ones = 0;
    std::string why;
    for (size_t g = 0; g < look_.groups.size(); ++g) {
      const prune::Group& group = look_.groups[g];
      if (!group.heads) continue;
      const auto b = look_.block_of(g);
      if (look_.costs[g].empty()) {
        const std::string reason = b && !look_.blocks[*b].refused.empty() ? look_.blocks[*b].refused
                                   : !group.frozen.empty()                ? group.frozen
                                   : !group.segment.empty()               ? "its heads go in equal numbers from several parts"
                                                                          : "kept";
        out_.notes.push_back("heads of '" + group.name + "' stay: " + reason);
        continue;
      }
      for (uint32_t h = 0; h < group.channels; ++h) {
        numbers_[group.name].push_back(h);
        HeadRow row{group.name, h, {}, 0, 0};
        if (b) row.score = look_.scores[*b][h];
        if (!b) row.importance = look_.costs[g][h];
        out_.rows.push_back(std::move(row));
      }
      out_.heads += group.channels;
      ++last_ones;
    }
    if (out_.heads == 0)
      return fail(Code::kInvalidArgument,
                  model_ + ": no attention heads can go: " + (out_.notes.empty() ? "the network has none" : out_.notes[0]));
    out_.user_groups = callbacks_.heads.groups;
    out_.wanted = static_cast<size_t>(std::llround(options_.ratio * static_cast<double>(out_.heads)));
    if (out_.wanted > out_.heads - last_ones) {
      out_.wanted = out_.heads - last_ones;
      out_.notes.push_back("the last head of each block stays: " + std::to_string(out_.wanted) + " can go");
    }
    return {};
  }

  bool free(size_t g, uint32_t head) const {
    const std::string& name = look_.groups[g].name;
    return std::isfinite(look_.costs[g][head]) && !locked_.contains({name, numbers_.at(name)[head]});
  }

  // Sets of heads that may go in this step, the ones to try first in front.
  std::vector<Plan> choices(size_t count) const {
    if (count > 1) {
      const Plan plan = several(count);
      return plan.empty() ? std::vector<Plan>{} : std::vector<Plan>{plan};
    }
    std::vector<Plan> plans;
    for (const auto& [g, h] : ranked(look_))
      if (free(g, h) && plans.size() < (options_.coverage ? std::max(1u, options_.candidates) : 1)) plans.push_back({{g, {h}}});
    return plans;
  }

  // Group and number of all heads that are not the last of their block and may go, cheapest first.
  static std::vector<std::pair<size_t, uint32_t>> ranked(const Look& look) {
    std::vector<std::pair<double, std::pair<size_t, uint32_t>>> by_cost;
    for (size_t g = 0; g < look.groups.size(); ++g)
      for (uint32_t h = 0; h < look.costs[g].size() && look.costs[g].size() > 1; ++h)
        if (std::isfinite(look.costs[g][h])) by_cost.push_back({look.costs[g][h], {g, h}});
    std::sort(by_cost.begin(), by_cost.end());
    std::vector<std::pair<size_t, uint32_t>> heads;
    for (const auto& [cost, head] : by_cost) heads.push_back(head);
    return heads;
  }

  // One after the other the head that adds least to what its block loses.
  Plan several(size_t count) const {
    Plan plan;
    std::map<std::pair<size_t, uint32_t>, double> costs;  // of going beside those of its block in the plan
    for (size_t g = 0; g < look_.groups.size(); ++g) refresh(g, {}, 0, &costs);
    std::map<size_t, double> lost;
    for (size_t n = 0; n < count && !costs.empty(); ++n) {
      const auto least = std::min_element(costs.begin(), costs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
      const auto [g, head] = least->first;
      lost[g] += least->second;
      std::vector<uint32_t>& heads = plan[g];
      heads.insert(std::upper_bound(heads.begin(), heads.end(), head), head);
      refresh(g, heads, lost[g], &costs);
    }
    return plan;
  }

  void refresh(size_t g, const std::vector<uint32_t>& gone, double lost, std::map<std::pair<size_t, uint32_t>, double>* costs) const {
    const size_t limit = options_.steps == 1 ? look_.costs[g].size() : options_.per_layer;
    const bool full = gone.size() + 1 >= look_.costs[g].size() || gone.size() >= limit;
    for (uint32_t h = 0; h < look_.costs[g].size(); ++h) {
      costs->erase({g, h});
      if (full || !free(g, h) || std::binary_search(gone.begin(), gone.end(), h)) continue;
      double cost = look_.costs[g][h];
      if (const auto b = look_.block_of(g); b && !gone.empty()) {
        std::vector<uint32_t> with = gone;
        with.insert(std::upper_bound(with.begin(), with.end(), h), h);
        cost = prune::cover_heads(out_.graph, look_.blocks[*b], look_.moments[*b], with, options_.fold).lost - lost;
      }
      costs->emplace(std::pair{g, h}, cost);
    }
  }

  struct Trial {
    prune::CutResult cut;
    Graph folded;  // what was cut
    std::vector<prune::Group> groups;
    std::vector<prune::Cut> cuts;
    double lost = 0, r2 = 1;
  };

  Result<Trial> attempt(const Graph& graph, const Look& look, const Plan& plan) const {
    Trial t;
    t.folded = graph;
    for (const auto& [g, heads] : plan) {
      const auto b = look.block_of(g);
      if (!b) continue;
      const prune::Coverage c = prune::cover_heads(graph, look.blocks[*b], look.moments[*b], heads, options_.fold);
      t.lost = std::max(t.lost, c.lost);
      t.r2 = std::min(t.r2, c.r2);
      if (!options_.fold) continue;
      LATHE_TRY(t.folded, prune::fold_heads(t.folded, look.blocks[*b], c));
    }
    // The fit may have made constants of its own: groups are found anew, by name.
    LATHE_TRY(t.groups, prune::find_groups(t.folded));
    for (const auto& [g, heads] : plan) {
      const auto same = [&, g = g](const prune::Group& group) { return group.name == look.groups[g].name; };
      const auto found = std::find_if(t.groups.begin(), t.groups.end(), same);
      t.cuts.push_back({static_cast<size_t>(found - t.groups.begin()), heads});
    }
    LATHE_TRY(t.cut, prune::cut(t.folded, t.groups, t.cuts));
    return t;
  }

  Result<void> prove(const Trial& t) {
    LATHE_TRY(const Graph masked, prune::mask(t.folded, t.groups, t.cuts));
    LATHE_TRY(const prune::Proof proof, prune::prove(masked, t.cut.graph));
    if (!proof.passed)
      return fail(Code::kInvalidArgument,
                  model_ + ": the rewritten network does not compute what the masked one does: " + proof_text(proof));
    if (out_.gone == 0 || proof.relative > out_.proof.relative) out_.proof = proof;
    return {};
  }

  // The best of the plans by the metric; whether it was kept.
  Result<bool> try_step(const std::vector<Plan>& plans) {
    std::optional<Trial> best;
    size_t which = 0;
    HeadStep step;
    for (size_t k = 0; k < plans.size(); ++k) {
      LATHE_TRY(Trial t, attempt(out_.graph, look_, plans[k]));
      LATHE_TRY(const double drop, callbacks_.drop(t.cut.graph));
      if (best && !(drop < step.drop)) continue;
      step.drop = drop;
      which = k;
      best = std::move(t);
    }
    LATHE_CHECK_OK(prove(*best));
    step.lost = best->lost;
    step.r2 = best->r2;
    step.kept = !options_.max_drop || step.drop <= *options_.max_drop;
    for (const auto& [g, heads] : plans[which])
      for (const uint32_t h : heads) step.heads.push_back({look_.groups[g].name, numbers_.at(look_.groups[g].name)[h]});
    if (step.kept)
      accept(plans[which], std::move(best->cut.graph), step);
    else
      lock(plans);
    out_.steps.push_back(std::move(step));
    return out_.steps.back().kept;
  }

  void accept(const Plan& plan, Graph graph, const HeadStep& step) {
    const auto number = static_cast<uint32_t>(out_.steps.size() + 1);
    for (HeadRow& row : out_.rows)
      if (std::find(step.heads.begin(), step.heads.end(), std::pair{row.block, row.head}) != step.heads.end()) row.step = number;
    for (const auto& [g, heads] : plan) {
      std::vector<uint32_t>& numbers = numbers_[look_.groups[g].name];
      for (auto h = heads.rbegin(); h != heads.rend(); ++h) numbers.erase(numbers.begin() + *h);
    }
    out_.gone += step.heads.size();
    out_.graph = std::move(graph);
  }

  // Heads that cost too much alone stay from now on.
  void lock(const std::vector<Plan>& plans) {
    for (const Plan& plan : plans)
      if (plan.size() == 1 && plan.begin()->second.size() == 1) {
        const std::string& name = look_.groups[plan.begin()->first].name;
        locked_.insert({name, numbers_.at(name)[plan.begin()->second[0]]});
      }
  }

  // Heads that went, in the network that was given.
  Plan all_gone() const {
    Plan plan;
    for (size_t g = 0; g < first_.groups.size(); ++g)
      for (const HeadRow& row : out_.rows)
        if (row.step > 0 && row.block == first_.groups[g].name) plan[g].push_back(row.head);
    return plan;
  }

  // A head that went comes back where the network with another in its place is better; such a network is cut at once, from the one
  // that was given.
  Result<void> revise() {
    double best = 0;
    for (const HeadStep& s : out_.steps)
      if (s.kept) best = s.drop;
    for (uint32_t pass = 0; pass < options_.swaps; ++pass) {
      bool better = false;
      for (const auto& [g, heads] : all_gone())
        for (const uint32_t h : heads) {
          LATHE_TRY(const bool swapped, swap(g, h, &best));
          better = better || swapped;
        }
      if (!better) break;
    }
    return {};
  }

  Result<bool> swap(size_t g, uint32_t head, double* best) {
    Plan without = all_gone();
    std::erase(without[g], head);
    uint32_t tried = 0;
    for (const auto& [other_g, other] : ranked(first_)) {
      Plan plan = without;
      std::vector<uint32_t>& heads = plan[other_g];
      const bool gone = std::binary_search(heads.begin(), heads.end(), other) || (other_g == g && other == head);
      if (gone || heads.size() + 1 >= first_.costs[other_g].size()) continue;
      if (tried++ == options_.candidates) break;
      LATHE_CHECK_OK(check_cancelled());
      heads.insert(std::upper_bound(heads.begin(), heads.end(), other), other);
      std::erase_if(plan, [](const auto& entry) { return entry.second.empty(); });
      LATHE_TRY(Trial t, attempt(original_, first_, plan));
      LATHE_TRY(const double drop, callbacks_.drop(t.cut.graph));
      if (!(drop < *best)) continue;
      LATHE_CHECK_OK(prove(t));
      *best = drop;
      exchange({first_.groups[other_g].name, other}, {first_.groups[g].name, head}, t, drop);
      return true;
    }
    return false;
  }

  void exchange(std::pair<std::string, uint32_t> goes, std::pair<std::string, uint32_t> back, Trial& t, double drop) {
    const auto number = static_cast<uint32_t>(out_.steps.size() + 1);
    for (HeadRow& row : out_.rows) {
      if (row.block == goes.first && row.head == goes.second) row.step = number;
      if (row.block == back.first && row.head == back.second) row.step = 0;
    }
    out_.graph = std::move(t.cut.graph);
    out_.steps.push_back({{std::move(goes)}, {std::move(back)}, t.lost, t.r2, drop, true});
  }

  std::string why_not_reached() const {
    return std::to_string(out_.gone) + " of " + std::to_string(out_.wanted) +
           " heads went: " + (locked_.empty() ? "the others matter too much by contribution and correlation, and are not covered"
                                              : "every other one costs more than is allowed");
  }

  const std::string& model_;
  const Graph& original_;
  const HeadOptions& options_;
  const HeadCallbacks& callbacks_;
  HeadsOutcome out_;
  Look look_, first_;  // at the network as it is now, and as it was given
  std::map<std::string, std::vector<uint32_t>> numbers_;  // by group: of the heads that are left, as they were at first
  std::set<std::pair<std::string, uint32_t>> locked_;
};

}  // namespace

Result<HeadsOutcome> prune_heads(const std::string& model, const Graph& graph, const HeadOptions& options,
                                 const HeadCallbacks& callbacks) {
  return HeadPruning(model, graph, options, callbacks).run();
}

}  // namespace lathe::tools
