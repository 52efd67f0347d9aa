#include "quant/observer.h"

#include <algorithm>
#include <string>

#include "quant/range_search.h"

namespace lathe {
namespace {

constexpr const char* kNames[] = {"minmax", "moving-average", "percentile", "entropy", "mse", "auto"};

}  // namespace

Result<ObserverKind> parse_observer(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<ObserverKind>(i);
  return fail(Code::kInvalidArgument, "unknown observer '" + std::string(name) + "' (minmax, moving-average, percentile, entropy, mse, auto)");
}

const char* observer_name(ObserverKind kind) { return kNames[static_cast<size_t>(kind)]; }

void Observer::add(std::span<const float> values) {
  if (values.empty()) return;
  histogram_.add(values);
  entropy_ = mse_ = std::nullopt;
  const auto [lo, hi] = std::minmax_element(values.begin(), values.end());
  if (first_) {
    average_ = {*lo, *hi};
  } else {
    average_.min = options_.momentum * average_.min + (1 - options_.momentum) * *lo;
    average_.max = options_.momentum * average_.max + (1 - options_.momentum) * *hi;
  }
  first_ = false;
}

Range Observer::range(ObserverKind kind) const {
  switch (kind) {
    case ObserverKind::kMovingAverage:
      return average_;
    case ObserverKind::kPercentile: {
      const double tail = (100.0 - options_.percentile) / 200.0;
      return {histogram_.lower_edge(tail), histogram_.upper_edge(tail)};
    }
    case ObserverKind::kEntropy:
      if (!entropy_) entropy_ = entropy_range(histogram_);
      return *entropy_;
    case ObserverKind::kMse:
      if (!mse_) mse_ = mse_range(histogram_);
      return *mse_;
    case ObserverKind::kMinMax:
    case ObserverKind::kAuto:
      break;
  }
  return {histogram_.min(), histogram_.max()};
}

}  // namespace lathe
