#include "quant/calibrate.h"

#include <utility>

#include "quant/choose_ranges.h"
#include "quant/counted.h"

namespace lathe {
namespace {

// Feeds the observers of a run.
class Watcher {
 public:
  Watcher(const Graph& graph, const SampleRunner& runner, Calibration* out) : counted_(graph, runner) {
    for (const ValueId v : runner.activations()) {
      names_.push_back(v == kNoId ? nullptr : &graph.value(v).name);
      observers_.push_back(v == kNoId ? nullptr : &out->tensors.try_emplace(*names_.back(), out->observer).first->second);
    }
  }

  // A look at whether the values are finite, without counting them.
  void check(uint32_t tensor, std::span<const float> values) {
    if (bad_.empty() && !all_finite(counted_.of(tensor, values))) bad_ = *names_[tensor];
  }
  void observe(uint32_t tensor, std::span<const float> values) {
    if (!bad_.empty()) return;
    values = counted_.of(tensor, values);
    if (all_finite(values))
      observers_[tensor]->add(values);
    else
      bad_ = *names_[tensor];
  }

  // The first tensor that held NaN or infinity, empty if none did, which is then forgotten.
  std::string take_bad_tensor() { return std::exchange(bad_, {}); }

 private:
  CountedValues counted_;
  std::vector<const std::string*> names_;
  std::vector<Observer*> observers_;
  std::string bad_;
};

SampleSource without(const SampleSource& source, const std::vector<SkippedSample>& skipped) {
  std::vector<uint64_t> kept;
  for (uint64_t i = 0, s = 0; i < source.count; ++i)
    if (s < skipped.size() && skipped[s].index == i)
      ++s;
    else
      kept.push_back(i);
  const uint64_t count = kept.size();
  const auto fill = [&source, kept = std::move(kept)](uint64_t i, const std::vector<void*>& in) { return source.fill(kept[i], in); };
  return {count, fill, {}};
}

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
    if (source.on_progress) source.on_progress(i);
    // Observers cannot forget, so a sample that may be skipped is looked at before it is observed.
    if (options.skip_non_finite) {
      LATHE_CHECK_OK(runner.run(source, i, [&](uint32_t tensor, std::span<const float> v) { watcher.check(tensor, v); }));
      if (std::string bad = watcher.take_bad_tensor(); !bad.empty()) {
        result.skipped.push_back({i, std::move(bad)});
        continue;
      }
    }
    const auto ran = runner.run(source, i, [&](uint32_t tensor, std::span<const float> v) { watcher.observe(tensor, v); });
    if (const std::string bad = watcher.take_bad_tensor(); !bad.empty())
      return fail(Code::kInvalidArgument,
                  "calibration sample " + std::to_string(i) + ": tensor '" + bad + "' holds NaN or infinity");
    LATHE_CHECK_OK(ran);
  }
  result.samples = source.count - result.skipped.size();
  if (result.samples == 0) return fail(Code::kInvalidArgument, "the calibration set is empty: all samples hold NaN or infinity");
  if (options.observer.kind == ObserverKind::kAuto)
    LATHE_CHECK_OK(choose_ranges(graph, without(source, result.skipped), options.session, &result));
  return result;
}

}  // namespace lathe
