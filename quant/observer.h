// Observers turn the values a tensor takes during calibration into a range.
//
// One observer per tensor. Results depend on the samples only: min/max and percentile are also independent of their order and
// batching; moving-average follows the order of samples and is fed one sample at a time. Memory is flat in the number of samples.
// Not thread-safe.
#pragma once
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "quant/histogram.h"

namespace lathe {

enum class ObserverKind : uint8_t { kMinMax, kMovingAverage, kPercentile };
Result<ObserverKind> parse_observer(std::string_view name);  // minmax, moving-average, percentile
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
  explicit Observer(const ObserverOptions& options) : options_(options) {}
  // One sample's values (one batch for observers that do not depend on order). Requires: finite values.
  void add(std::span<const float> values);
  bool empty() const { return histogram_.empty(); }
  Range range() const;
  const Histogram& histogram() const { return histogram_; }

 private:
  ObserverOptions options_;
  Histogram histogram_;
  Range average_;
  bool first_ = true;
};

}  // namespace lathe
