#include "quant/equalize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/rewriter.h"
#include "quant/layers.h"

namespace lathe {
namespace {

constexpr int kMostRounds = 20;

// Elements of a layer's weights by channel: of its results, or of its input.
class Channels {
 public:
  Channels(Graph& graph, const WeightedLayer& w, bool of_input) : graph_(graph), id_(graph.node(w.node).inputs[w.weight]) {
    const Value& v = graph.value(id_);
    for (const Dim d : v.type.dims) dims_.push_back(graph.dims().value(d).value_or(0));
    depthwise_ = w.groups > 1 && w.groups == w.outputs && w.depth == 1;
    by_first_ = !of_input || depthwise_;
    grouped_ = of_input && w.groups > 1 && !depthwise_;
    const auto values = v.constant.as<float>();
    values_.assign(values.begin(), values.end());
  }
  bool grouped() const { return grouped_; }
  size_t count() const { return static_cast<size_t>(by_first_ ? dims_[0] : dims_.back()); }
  float reach(size_t c) const {
    float m = 0;
    each(c, [&](size_t i) { m = std::max(m, std::fabs(values_[i])); });
    return m;
  }
  void scale(size_t c, float factor) {
    each(c, [&](size_t i) { values_[i] *= factor; });
  }
  void store(Rewriter& rewriter, const WeightedLayer& w) {
    const Value& v = graph_.value(id_);
    rewriter.set_input(w.node, w.weight, rewriter.constant(graph_.fresh_name(v.name + ":equalized"), v.type, Constant::of(values_)));
  }

 private:
  // Places of channel c among the values.
  template <class F> void each(size_t c, F&& f) const {
    const size_t n = count(), row = values_.size() / n;
    if (by_first_)
      for (size_t i = 0; i < row; ++i) f(c * row + i);
    else
      for (size_t i = c; i < values_.size(); i += n) f(i);
  }
  Graph& graph_;
  ValueId id_;
  std::vector<int64_t> dims_;
  bool depthwise_ = false, by_first_ = true, grouped_ = false;
  std::vector<float> values_;
};

bool is_shared(const Graph& graph, ValueId v) { return graph.consumers(v).size() > 1; }

// The layer that takes the factors of `first`, or why there is none.
std::optional<WeightedLayer> partner(Graph& graph, const WeightedLayer& first, std::string* why) {
  const Node& node = graph.node(first.node);
  const ValueId result = node.outputs[0];
  const std::vector<NodeId> readers = graph.consumers(result);
  std::optional<WeightedLayer> second;
  if (readers.size() == 1) second = weighted_layer(graph, readers[0]);
  const bool homogeneous = (first.conv.lo == 0 || std::isinf(first.conv.lo)) && std::isinf(first.conv.hi);
  if (graph.is_output(result)) *why = "its result is an output of the graph";
  else if (readers.size() != 1) *why = "its result has " + std::to_string(readers.size()) + " readers";
  else if (!second) *why = "its reader has no weights of its own";
  else if (!homogeneous) *why = "its activation is bounded";
  else if (first.has_residual) *why = "a residual is added to its result";
  else if (graph.node(second->node).inputs[0] != result) *why = "its result is another layer's residual";
  else if (is_shared(graph, node.inputs[first.weight]) || is_shared(graph, graph.node(second->node).inputs[second->weight]))
    *why = "its weights or its reader's serve several layers";
  else if (const Channels taken(graph, *second, true); taken.grouped() || taken.count() != Channels(graph, first, false).count())
    *why = "its reader takes channels in groups";
  if (!why->empty()) return {};
  return second;
}

double spread(const Channels& first, const Channels& second) {
  float least = std::numeric_limits<float>::max(), most = 0;
  for (size_t c = 0; c < first.count(); ++c)
    for (const float r : {first.reach(c), second.reach(c)})
      if (r > 0) least = std::min(least, r), most = std::max(most, r);
  return most > 0 ? static_cast<double>(most) / static_cast<double>(least) : 1;
}

// One exchange between two layers; false if no channel changed.
bool exchange(Graph& graph, const WeightedLayer& a, const WeightedLayer& b, EqualizedPair* pair) {
  Channels first(graph, a, false), second(graph, b, true);
  if (pair->spread_before == 0) pair->spread_before = spread(first, second);
  std::vector<float> bias;
  const ValueId bias_id = a.has_bias ? graph.node(a.node).inputs[a.bias] : kNoId;
  if (bias_id != kNoId) {
    const auto values = graph.value(bias_id).constant.as<float>();
    bias.assign(values.begin(), values.end());
  }
  ChannelMoments moments;
  if (graph.node(a.node).moments != nullptr) moments = *graph.node(a.node).moments;
  bool changed = false;
  for (size_t c = 0; c < first.count(); ++c) {
    const float r1 = first.reach(c), r2 = second.reach(c);
    if (!(r1 > 0) || !(r2 > 0)) continue;
    const int exponent = static_cast<int>(std::lround(0.5 * (std::log2(static_cast<double>(r1)) - std::log2(static_cast<double>(r2)))));
    if (exponent == 0) continue;
    changed = true;
    first.scale(c, std::ldexp(1.0f, -exponent));
    second.scale(c, std::ldexp(1.0f, exponent));
    if (bias_id != kNoId) bias[c] = std::ldexp(bias[c], -exponent);
    if (c < moments.mean.size()) {
      moments.mean[c] = std::ldexp(moments.mean[c], -exponent);
      moments.deviation[c] = std::ldexp(moments.deviation[c], -exponent);
    }
  }
  pair->spread_after = spread(first, second);
  if (!changed) return false;
  Rewriter rewriter(graph);
  first.store(rewriter, a);
  second.store(rewriter, b);
  if (!moments.mean.empty()) rewriter.set_moments(a.node, std::move(moments));
  if (bias_id != kNoId) {
    const Value& v = graph.value(bias_id);
    rewriter.set_input(a.node, a.bias, rewriter.constant(graph.fresh_name(v.name + ":equalized"), v.type, Constant::of(bias)));
  }
  rewriter.sweep();
  return true;
}

}  // namespace

EqualizeResult equalize(Graph& graph) {
  EqualizeResult result;
  struct Work {
    WeightedLayer first, second;
    EqualizedPair report;
  };
  std::vector<Work> work;
  for (const NodeId id : graph.order()) {
    const auto first = weighted_layer(graph, id);
    if (!first) continue;
    std::string why;
    const auto second = partner(graph, *first, &why);
    if (second) work.push_back({*first, *second, {graph.node(id).name, graph.node(second->node).name}});
    else result.skipped.push_back(graph.node(id).name + ": " + why);
  }
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    for (Work& w : work) changed = exchange(graph, w.first, w.second, &w.report) || changed;
  }
  for (Work& w : work) result.pairs.push_back(std::move(w.report));
  return result;
}

}  // namespace lathe
