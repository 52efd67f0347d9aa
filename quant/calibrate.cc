#include "quant/calibrate.h"

#include <algorithm>
#include <cmath>

#include "graph/op_def.h"
#include "quant/choose_ranges.h"

namespace lathe {
namespace {

// How far below the largest of its row a value counts for those that read v; 0: all of it, or somebody wants the whole range.
float reach_of(const Graph& graph, ValueId v) {
  float reach = 0;
  if (graph.is_output(v)) return 0;
  for (const NodeId n : graph.consumers(v)) {
    const Node& node = graph.node(n);
    const OpDef& def = op_def(node.op);
    const bool other = std::count(node.inputs.begin() + 1, node.inputs.end(), v) > 0;
    const float own = def.reach == nullptr || other ? 0 : def.reach(node.attrs, graph.value(v).type.dims.size());
    if (own == 0) return 0;
    reach = std::max(reach, own);
  }
  return reach;
}

// Feeds the observers of a run.
class Watcher {
 public:
  Watcher(const Graph& graph, const SampleRunner& runner, Calibration* out) : graph_(graph), runner_(runner) {
    for (const ValueId v : runner.activations()) {
      observers_.push_back(v == kNoId ? nullptr : &out->tensors.try_emplace(graph.value(v).name, out->observer).first->second);
      reach_.push_back(v == kNoId ? 0 : reach_of(graph, v));
    }
  }

  void observe(uint32_t tensor, std::span<const float> values) {
    if (!bad_.empty()) return;
    if (reach_[tensor] > 0) values = lifted(values, runner_.row(tensor), reach_[tensor]);
    if (std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
      observers_[tensor]->add(values);
    } else {
      bad_ = graph_.value(runner_.activations()[tensor]).name;
    }
  }

  // The first tensor that held NaN or infinity; empty if none did.
  const std::string& bad_tensor() const { return bad_; }

 private:
  // The values with those that lie too low in their row raised to where they begin to count. A row of -infinity stays.
  std::span<const float> lifted(std::span<const float> values, size_t row, float reach) {
    scratch_.assign(values.begin(), values.end());
    for (size_t at = 0; at + row <= scratch_.size() && row > 0; at += row) {
      const auto begin = scratch_.begin() + static_cast<ptrdiff_t>(at), end = begin + static_cast<ptrdiff_t>(row);
      const float lowest = *std::max_element(begin, end) - reach;
      std::for_each(begin, end, [&](float& v) { v = v < lowest ? lowest : v; });
    }
    return scratch_;
  }

  const Graph& graph_;
  const SampleRunner& runner_;
  std::vector<Observer*> observers_;
  std::vector<float> reach_;  // by tensor; 0: the whole range counts
  std::vector<float> scratch_;
  std::string bad_;
};

}  // namespace

RangeTable ranges_of(const Calibration& calibration) {
  RangeTable table;
  for (const auto& [name, observer] : calibration.tensors)
    if (!observer.empty()) table[name] = observer.range();
  return table;
}

Result<Calibration> calibrate(const Graph& graph, const SampleSource& source, const CalibrationOptions& options) {
  if (source.count == 0) return fail(Code::kInvalidArgument, "the calibration set is empty");
  LATHE_TRY(SampleRunner runner, SampleRunner::create(graph, options.session));
  Calibration result;
  result.observer = options.observer;
  Watcher watcher(graph, runner, &result);
  for (uint64_t i = 0; i < source.count; ++i) {
    const auto ran = runner.run(source, i, [&](uint32_t tensor, std::span<const float> v) { watcher.observe(tensor, v); });
    if (!watcher.bad_tensor().empty())
      return fail(Code::kInvalidArgument,
                  "calibration sample " + std::to_string(i) + ": tensor '" + watcher.bad_tensor() + "' holds NaN or infinity");
    LATHE_CHECK_OK(ran);
    if (source.on_progress) source.on_progress(i + 1);
  }
  result.samples = source.count;
  if (options.observer.kind == ObserverKind::kAuto) LATHE_CHECK_OK(choose_ranges(graph, source, options.session, &result));
  return result;
}

}  // namespace lathe
