#include "quant/observed.h"

#include <algorithm>
#include <cmath>

namespace lathe {
namespace {

std::vector<uint16_t> coarse_bins(const Histogram& histogram, const Range& range) {
  std::vector<uint64_t> counts(kMaxCalibBins, 0);
  const double extent = range.max - range.min;
  for (int32_t i = -Histogram::kHalf; i < Histogram::kHalf; ++i) {
    if (histogram.count(i) == 0) continue;
    const double centre = (i + 0.5) * histogram.width();
    const double at = extent > 0 ? std::floor((centre - range.min) / extent * kMaxCalibBins) : 0.0;
    counts[static_cast<size_t>(std::clamp(at, 0.0, kMaxCalibBins - 1.0))] += histogram.count(i);
  }
  const uint64_t largest = *std::max_element(counts.begin(), counts.end());
  std::vector<uint16_t> bins;
  for (const uint64_t c : counts)
    bins.push_back(static_cast<uint16_t>(std::nearbyint(65535.0 * static_cast<double>(c) / static_cast<double>(largest))));
  return bins;
}

}  // namespace

std::vector<ObservedValue> observed_values(const Calibration& calibration) {
  std::vector<ObservedValue> out;
  for (const auto& [name, observer] : calibration.tensors) {
    if (observer.empty()) continue;
    const Range r = observer.range();
    out.push_back({name, static_cast<float>(r.min), static_cast<float>(r.max), coarse_bins(observer.histogram(), r),
                   observer_name(observer.kind())});
  }
  return out;
}

RangeTable ranges_of(std::span<const ObservedValue> observed) {
  RangeTable table;
  for (const ObservedValue& o : observed) table[o.name] = {o.lo, o.hi};
  return table;
}

}  // namespace lathe
