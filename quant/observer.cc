#include "quant/observer.h"

#include <algorithm>
#include <string>

namespace lathe {
namespace {

constexpr const char* kNames[] = {"minmax", "moving-average", "percentile"};

}  // namespace

Result<ObserverKind> parse_observer(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<ObserverKind>(i);
  return fail(Code::kInvalidArgument, "unknown observer '" + std::string(name) + "' (minmax, moving-average, percentile)");
}

const char* observer_name(ObserverKind kind) { return kNames[static_cast<size_t>(kind)]; }

void Observer::add(std::span<const float> values) {
  if (values.empty()) return;
  histogram_.add(values);
  if (options_.kind != ObserverKind::kMovingAverage) return;
  const auto [lo, hi] = std::minmax_element(values.begin(), values.end());
  if (first_) {
    average_ = {*lo, *hi};
  } else {
    average_.min = options_.momentum * average_.min + (1 - options_.momentum) * *lo;
    average_.max = options_.momentum * average_.max + (1 - options_.momentum) * *hi;
  }
  first_ = false;
}

Range Observer::range() const {
  switch (options_.kind) {
    case ObserverKind::kMinMax:
      return {histogram_.min(), histogram_.max()};
    case ObserverKind::kMovingAverage:
      return average_;
    case ObserverKind::kPercentile:
      break;
  }
  const double tail = (100.0 - options_.percentile) / 200.0;
  return {histogram_.lower_edge(tail), histogram_.upper_edge(tail)};
}

}  // namespace lathe
