#include "tools/mixed_choice.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/cancel.h"
#include "graph/lower/load.h"
#include "graph/op_def.h"
#include "quant/sensitivity.h"
#include "tools/calibration.h"
#include "tools/measured_model.h"
#include "tools/markup.h"
#include "tools/timing.h"

namespace lathe::tools {
namespace {

constexpr size_t kMostStepsBack = 32;

size_t index_of(Precision p) { return static_cast<size_t>(p); }

// What the metric said of an assignment.
struct Verdict {
  MixedResult network;
  double drop = 0, worst_drop = 0;
  std::string worst_group;
  bool passes = false;
  std::string lines;  // the gates that do not hold
};

class Search {
 public:
  Search(const Graph& graph, const RangeTable& ranges, const Dataset& data, const DataSplit& split, const MixedRequest& request,
         DeviceCosts costs, CostTable* table)
      : graph_(graph), ranges_(ranges), data_(data), split_(split), request_(request), device_(std::move(costs)), table_(table),
        allowed_(device_.costs) {
    eval_.metric = request.metric;
    eval_.limit = request.limit;
    eval_.session = request.costs.session;
    eval_.progress = "";
  }

  Result<MixedChoice> run() {
    LATHE_TRY(baseline_, score(request_.baseline == nullptr ? graph_ : *request_.baseline));
    LATHE_TRY(Assignment chosen, gated());
    MixedChoice choice;
    LATHE_TRY(choice.points, measured_points(chosen));
    LATHE_CHECK_OK(settle(&choice));
    const Assignment& final = choice.points.back().assignment;
    LATHE_TRY(const Verdict* verdict, judge(final));
    choice.result = verdict->network;
    choice.evaluations = verdicts_.size();
    choice.samples = baseline_.samples.size();
    choice.border_us = predicted_us(graph_, device_.costs, verdict->network.actual);
    for (size_t i = 0; i < graph_.order().size(); ++i) {
      choice.rows.push_back(row(i, verdict->network.actual[i]));
      choice.border_us -= device_.costs.nodes[i][index_of(verdict->network.actual[i])];
    }
    return choice;
  }

 private:
  Result<ModelScores> score(const Graph& graph) {
    LATHE_CHECK_OK(check_cancelled());
    return score_graph(graph, request_.model, data_, split_, eval_);
  }

  Result<const Verdict*> judge(const Assignment& a) {
    if (const auto found = verdicts_.find(a); found != verdicts_.end()) return &found->second;
    LATHE_TRY(MixedResult network, mixed_graph(graph_, ranges_, request_.costs.quantize, a));
    LATHE_TRY(const ModelScores scores, score(network.graph));
    const EvalReport report = make_report(request_.metric, split_, scores, &baseline_, false);
    Verdict v{std::move(network), report.all.drop, 0, "", true, ""};
    if (report.worst) v.worst_group = report.groups[*report.worst].name, v.worst_drop = report.groups[*report.worst].drop;
    if (const auto holds = check_gates(report, request_.gates); !holds) v.passes = false, v.lines = holds.error().message;
    return &verdicts_.emplace(a, std::move(v)).first->second;
  }

  // A node and a precision that it may lose.
  using Candidate = std::pair<size_t, Precision>;

  // The fastest assignment by the costs whose figures hold the gates.
  Result<Assignment> gated() {
    Assignment a = fastest_assignment(graph_, allowed_);
    LATHE_TRY(const Verdict* verdict, judge(a));
    for (size_t step = 1; !verdict->passes; step *= 2) {
      LATHE_TRY(const bool changed, forbid(a, step));
      if (!changed) return fail(Code::kInvalidArgument, "no assignment of precisions holds the gates: " + verdict->lines);
      a = fastest_assignment(graph_, allowed_);
      LATHE_TRY(verdict, judge(a));
    }
    return back(std::move(a));
  }

  // Takes its precision from the `count` nodes that disturb most for what they save. False: all are FP32.
  Result<bool> forbid(const Assignment& a, size_t count) {
    std::vector<Candidate> nodes;
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == Precision::kFloat || moves_data(i)) continue;
      nodes.push_back({i, a[i]});
      LATHE_CHECK_OK(measure_noise(nodes.back()));
    }
    sort_by_worth(&nodes, /*most_first=*/true);
    if (nodes.size() > count) nodes.resize(count);
    for (const auto& [i, p] : nodes) allowed_.nodes[i][index_of(p)] = kImpossible;
    forbidden_.insert(forbidden_.end(), nodes.begin(), nodes.end());
    return !nodes.empty();
  }

  // It goes with what makes its operand.
  bool moves_data(size_t i) const {
    return op_def(graph_.node(graph_.order()[i]).op).quant_out.role == QuantRole::kSameAs;
  }

  double worth(const Candidate& c) const {
    const PrecisionCosts& us = device_.costs.nodes[c.first];
    double other = us[index_of(Precision::kFloat)];
    if (c.second == Precision::kInt8) other = std::min(other, us[index_of(Precision::kHalf)]);
    return noise_.at(c) / std::max(1e-3, other - us[index_of(c.second)]);
  }
  void sort_by_worth(std::vector<Candidate>* nodes, bool most_first) const {
    std::stable_sort(nodes->begin(), nodes->end(), [&](const Candidate& x, const Candidate& y) {
      return most_first ? worth(x) > worth(y) : worth(x) < worth(y);
    });
  }

  // The divergence of the outputs with that node alone in that precision.
  Result<void> measure_noise(const Candidate& c) {
    if (noise_.contains(c)) return {};
    if (!reference_) {
      LATHE_TRY(auto matching, match_inputs(graph_inputs(graph_), graph_.metadata, data_));
      source_ = first_samples(split_, std::move(matching), request_.noise_samples);
      LATHE_TRY(reference_, SampleRunner::create(graph_, eval_.session));
    }
    Assignment alone(graph_.order().size(), Precision::kFloat);
    alone[c.first] = c.second;
    LATHE_TRY(const MixedResult network, mixed_graph(graph_, ranges_, request_.costs.quantize, alone));
    const NodeId n = graph_.order()[c.first];
    const Layer layer{n, graph_.node(n).name, op_name(graph_.node(n).op), 0, LayerPart::kInner};
    LATHE_TRY(const LayerError error, layer_error(graph_, *reference_, network.graph, layer, source_, eval_.session));
    noise_[c] = std::max(error.kl, 1e-12);
    return {};
  }

  // Gives nodes their precision back, the least disturbing first, as long as the gates hold and it is faster.
  Result<Assignment> back(Assignment a) {
    std::vector<Candidate> nodes = forbidden_;
    sort_by_worth(&nodes, /*most_first=*/false);
    if (nodes.size() > kMostStepsBack) nodes.resize(kMostStepsBack);
    for (const Candidate& c : nodes) {
      double& cost = allowed_.nodes[c.first][index_of(c.second)];
      cost = device_.costs.nodes[c.first][index_of(c.second)];
      Assignment trial = fastest_assignment(graph_, allowed_);
      LATHE_TRY(const Verdict* verdict, judge(trial));
      if (verdict->passes && predicted(trial) < predicted(a)) {
        a = std::move(trial);
        std::erase(forbidden_, c);
      } else {
        cost = kImpossible;
      }
    }
    return a;
  }

  double predicted(const Assignment& a) const { return predicted_us(graph_, device_.costs, a); }

  // All of one precision where it can be, and the choice, measured in turns.
  Result<std::vector<MixedPoint>> measured_points(const Assignment& chosen) {
    std::vector<MixedPoint> points;
    for (const Precision p : {Precision::kFloat, Precision::kHalf, Precision::kInt8})
      points.push_back({precision_text(p), Assignment(chosen.size(), p), 0, 0, 0, 0, "", false});
    points.push_back({"chosen", chosen, 0, 0, 0, 0, "", false});
    std::vector<std::string> keys;
    for (MixedPoint& point : points) {
      LATHE_TRY(const Verdict* v, judge(point.assignment));
      point.predicted_us = predicted(v->network.actual);
      point.drop = v->drop, point.worst_drop = v->worst_drop, point.worst_group = v->worst_group, point.passes = v->passes;
      keys.push_back(network_key(v->network.graph, eval_.session, 1));
    }
    const bool known = std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return table_->find(key).has_value(); });
    if (!known) LATHE_CHECK_OK(measure_networks(points, keys));
    for (size_t i = 0; i < points.size(); ++i) points[i].measured_us = *table_->find(keys[i]);
    return points;
  }

  Result<void> measure_networks(const std::vector<MixedPoint>& points, const std::vector<std::string>& keys) {
    std::vector<Runner> runners;
    for (const MixedPoint& point : points) {
      LATHE_TRY(auto program, compile_for_host(verdicts_.at(point.assignment).network.graph));
      LATHE_TRY(runners.emplace_back(), make_runner({}, {std::move(program), {}, 0}, eval_.session));
    }
    std::vector<Runner*> all;
    for (Runner& r : runners) all.push_back(&r);
    LATHE_TRY(const auto us, measure(all, request_.costs.seconds));
    for (size_t i = 0; i < points.size(); ++i) table_->set(keys[i], percentile(us[i], 0.5));
    return table_->save();
  }

  // A uniform network that holds the gates and measures faster takes the choice's place; the target decides.
  Result<void> settle(MixedChoice* choice) const {
    MixedPoint& chosen = choice->points.back();
    for (size_t i = 0; i + 1 < choice->points.size(); ++i) {
      const MixedPoint& uniform = choice->points[i];
      if (!uniform.passes || uniform.measured_us >= chosen.measured_us) continue;
      chosen = uniform;
      chosen.name = "chosen";
    }
    if (!request_.target_ms || chosen.measured_us <= 1e3 * *request_.target_ms) return {};
    return fail(Code::kInvalidArgument, formatted("the fastest assignment that holds the gates takes %.4g ms on this device, "
                                                  "--target-latency is %.4g",
                                                  chosen.measured_us / 1e3, *request_.target_ms));
  }

  MixedRow row(size_t i, Precision p) const {
    const Node& node = graph_.node(graph_.order()[i]);
    return {node.name, op_name(node.op), why(i, p), p, device_.costs.nodes[i]};
  }

  std::string why(size_t i, Precision p) const {
    const PrecisionCosts& us = device_.costs.nodes[i];
    const double own = us[index_of(p)];
    std::string best;
    for (const Precision q : {Precision::kInt8, Precision::kHalf, Precision::kFloat})
      if (us[index_of(q)] < own) best += (best.empty() ? "" : " and ") + std::string(precision_text(q));
    if (p == Precision::kInt8) return best.empty() ? "fastest here" : best + " alone would be faster, but for its conversions";
    const std::string &not_int8 = device_.not_int8[i], &not_half = device_.not_half[i];
    if (!not_int8.empty() && p == Precision::kFloat && us[index_of(Precision::kHalf)] == kImpossible)
      return not_int8 == not_half ? not_int8 : not_int8 + "; FP16: " + not_half;
    std::string lost;
    for (const auto& [node, was] : forbidden_) {
      if (node != i) continue;
      lost += lost.empty() ? "accuracy: " : ", ";
      lost += formatted("%s alone diverges by %.2e", precision_text(was), noise_.at({i, was}));
    }
    if (!lost.empty()) return lost;
    if (best.empty()) return not_int8.empty() ? "fastest here" : not_int8;
    return best + " alone would be faster, but for its conversions";
  }

  const Graph& graph_;
  const RangeTable& ranges_;
  const Dataset& data_;
  const DataSplit& split_;
  const MixedRequest& request_;
  const DeviceCosts device_;
  CostTable* table_;
  MixedCosts allowed_;  // device_'s, infinite where a gate has forbidden a precision
  EvalRequest eval_;
  ModelScores baseline_;
  std::map<Assignment, Verdict> verdicts_;
  std::map<Candidate, double> noise_;
  std::vector<Candidate> forbidden_;
  SampleSource source_;
  std::optional<SampleRunner> reference_;  // of the float graph
};

}  // namespace

Result<MixedChoice> choose_mixed(const Graph& graph, const RangeTable& ranges, const Dataset& data, const DataSplit& split,
                                 const MixedRequest& request, CostTable* table) {
  LATHE_TRY(DeviceCosts costs, device_costs(graph, ranges, request.costs, table));
  if (costs.measured > 0) LATHE_CHECK_OK(table->save());
  return Search(graph, ranges, data, split, request, std::move(costs), table).run();
}

}  // namespace lathe::tools
