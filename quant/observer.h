// Observers turn the values a tensor takes during calibration into a range.
//
// One observer per tensor. Results depend on the samples only: all but moving-average are also independent of their order and
// batching; that follows the order of samples and is fed one sample at a time. Memory is flat in the number of samples.
// Not thread-safe.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "quant/histogram.h"

namespace lathe {

// The first five make a range of what one tensor was seen to hold; kAuto takes the best of them for each tensor, which only a run
// of the network can tell (quant/choose_ranges.h).
enum class ObserverKind : uint8_t { kMinMax, kMovingAverage, kPercentile, kEntropy, kMse, kAuto };
inline constexpr ObserverKind kRangeKinds[] = {ObserverKind::kMinMax, ObserverKind::kMovingAverage, ObserverKind::kPercentile,
                                               ObserverKind::kEntropy, ObserverKind::kMse};
Result<ObserverKind> parse_observer(std::string_view name);  // minmax, moving-average, percentile, entropy, mse, auto
const char* observer_name(ObserverKind kind);

struct ObserverOptions {
  ObserverKind kind = ObserverKind::kMinMax;
  double percentile = 99.99;  // of the values kept, in percent; half of the rest is cut on each side
  double momentum = 0.9;      // weight of the past in moving-average
};

// Values outside are clipped. min <= max.
struct Range {
  double min = 0;
  double max = 0;
};

class Observer {
 public:
  explicit Observer(const ObserverOptions& options)
      : options_(options), kind_(options.kind == ObserverKind::kAuto ? ObserverKind::kMinMax : options.kind) {}
  // One sample's values (one batch for observers that do not depend on order). Requires: finite values.
  void add(std::span<const float> values);
  bool empty() const { return histogram_.empty(); }
  // Whose range it is: what the options say, or what choose() said last; kMinMax under kAuto before that.
  ObserverKind kind() const { return kind_; }
  void choose(ObserverKind kind) { kind_ = kind; }
  Range range() const { return range(kind_); }
  // Requires: not kAuto, and not empty.
  Range range(ObserverKind kind) const;
  const Histogram& histogram() const { return histogram_; }

 private:
  ObserverOptions options_;
  ObserverKind kind_;
  Histogram histogram_;
  Range average_;
  bool first_ = true;
  // What a search over the histogram found, which many ask for; empty after add().
  mutable std::optional<Range> entropy_, mse_;
};

}  // namespace lathe
