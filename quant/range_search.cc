#include "quant/range_search.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "quant/grid.h"

namespace lathe {
namespace {

constexpr double kSteps = 64;    // of one end of an MSE search
constexpr double kLeast = 1e-4;  // probability of what a distribution never saw

// Counts of |x| by bins of the histogram's width.
std::vector<double> magnitudes(const Histogram& h) {
  std::vector<double> counts(Histogram::kHalf);
  for (int32_t i = 0; i < Histogram::kHalf; ++i) counts[static_cast<size_t>(i)] = static_cast<double>(h.count(i) + h.count(-1 - i));
  while (counts.size() > 1 && counts.back() == 0) counts.pop_back();
  return counts;
}

// Divergence of the first `bins` counts, with all later ones in the last, from what `levels` equal groups of them can tell.
double divergence(const std::vector<double>& counts, size_t bins, size_t levels, double later) {
  double reference_total = later, candidate_total = 0, sum = 0;
  for (size_t i = 0; i < bins; ++i) reference_total += counts[i], candidate_total += counts[i];
  if (candidate_total == 0) return HUGE_VAL;
  for (size_t level = 0; level < levels; ++level) {
    const size_t begin = level * bins / levels, end = (level + 1) * bins / levels;
    double mass = 0, used = 0;
    for (size_t i = begin; i < end; ++i) mass += counts[i], used += counts[i] != 0;
    for (size_t i = begin; i < end; ++i) {
      const double p = (counts[i] + (i + 1 == bins ? later : 0)) / reference_total;
      if (p == 0) continue;
      // Only the last bin can have mass in the reference, what was cut off, and none in the candidate: kLeast stands for that.
      sum += p * std::log(counts[i] != 0 ? p / (mass / used / candidate_total) : std::max(1.0, p / kLeast));
    }
  }
  return sum;
}

// One end of a range, moved towards zero in steps of what was seen; the other stays.
double best_end(const Histogram& h, double seen, const Range& range, bool upper) {
  double best = upper ? range.max : range.min, least = quantization_error(h, range);
  for (double k = 1; k <= kSteps; ++k) {
    const double end = seen * k / kSteps;
    const double error = quantization_error(h, upper ? Range{range.min, end} : Range{end, range.max});
    if (error < least) least = error, best = end;
  }
  return best;
}

}  // namespace

double quantization_error(const Histogram& h, const Range& range) {
  const QuantParams p = activation_params(range);
  const double scale = p.scale, low = (p.qmin - p.zero_point) * scale, high = (p.qmax - p.zero_point) * scale;
  double sum = 0;
  for (int32_t i = -Histogram::kHalf; i < Histogram::kHalf; ++i) {
    if (h.count(i) == 0) continue;
    const double x = std::clamp<double>((i + 0.5) * h.width(), h.min(), h.max());
    const double error = x - std::clamp(std::nearbyint(x / scale) * scale, low, high);
    sum += static_cast<double>(h.count(i)) * error * error;
  }
  return sum / static_cast<double>(h.total());
}

Range entropy_range(const Histogram& h) {
  const Range seen{h.min(), h.max()};
  const std::vector<double> counts = magnitudes(h);
  const size_t levels = seen.min >= 0 || seen.max <= 0 ? 255 : 128;
  if (h.width() == 0 || counts.size() <= levels) return seen;
  double later = 0, least = HUGE_VAL, threshold = HUGE_VAL;
  for (size_t bins = counts.size(); bins >= levels; --bins) {
    const double d = divergence(counts, bins, levels, later);
    if (d < least) least = d, threshold = (static_cast<double>(bins) + 0.5) * h.width();
    later += counts[bins - 1];
  }
  return {std::max(seen.min, -threshold), std::min(seen.max, threshold)};
}

Range mse_range(const Histogram& h) {
  Range best{h.min(), h.max()};
  for (int turn = 0; turn < 4; ++turn) {
    const Range before = best;
    if (h.max() > 0) best.max = best_end(h, h.max(), best, true);
    if (h.min() < 0) best.min = best_end(h, h.min(), best, false);
    if (best.min == before.min && best.max == before.max) break;
  }
  return best;
}

}  // namespace lathe
