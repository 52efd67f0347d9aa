#include "data/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lathe {
namespace {

// "a stands before b" in descending order; NaN after every number, equal ones by index.
bool before(std::span<const float> s, uint32_t a, uint32_t b) {
  const bool nan_a = std::isnan(s[a]), nan_b = std::isnan(s[b]);
  if (nan_a != nan_b) return nan_b;
  if (!nan_a && s[a] != s[b]) return s[a] > s[b];
  return a < b;
}

}  // namespace

Interval wilson95(uint64_t hits, uint64_t n) {
  if (n == 0) return {0, 1};
  constexpr double z = 1.959963984540054;  // the normal distribution's 97.5 % quantile
  const auto count = static_cast<double>(n);
  const double p = static_cast<double>(hits) / count;
  const double denominator = 1 + z * z / count;
  const double center = (p + z * z / (2 * count)) / denominator;
  const double half = z * std::sqrt(p * (1 - p) / count + z * z / (4 * count * count)) / denominator;
  return {std::max(0.0, center - half), std::min(1.0, center + half)};
}

uint32_t argmax(std::span<const float> scores) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < scores.size(); ++i)
    if (before(scores, i, best)) best = i;
  return best;
}

uint32_t rank_of(std::span<const float> scores, uint32_t label) {
  uint32_t ahead = 0;
  for (uint32_t i = 0; i < scores.size(); ++i) ahead += before(scores, i, label) ? 1 : 0;
  return ahead;
}

bool in_top_k(std::span<const float> scores, uint32_t label, uint32_t k) {
  return label < scores.size() && rank_of(scores, label) < k;
}

std::vector<uint32_t> top_k(std::span<const float> scores, uint32_t k) {
  std::vector<uint32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto n = static_cast<ptrdiff_t>(std::min<size_t>(k, order.size()));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](uint32_t a, uint32_t b) { return before(scores, a, b); });
  order.resize(static_cast<size_t>(n));
  return order;
}

void ClassificationScore::add(uint32_t label, uint32_t predicted) {
  ++samples_;
  ++labels_[label];
  hits_ += label == predicted ? 1 : 0;
  if (predicted < classes_) ++confusion_[uint64_t{label} * classes_ + predicted];
}

double ClassificationScore::accuracy() const {
  return samples_ == 0 ? 0 : static_cast<double>(hits_) / static_cast<double>(samples_);
}

double ClassificationScore::macro_f1() const {
  double sum = 0;
  uint64_t seen = 0;
  for (uint32_t c = 0; c < classes_; ++c) {
    uint64_t predicted = 0;
    for (uint32_t label = 0; label < classes_; ++label) predicted += confusion(label, c);
    // 2 tp + fp + fn = labels + predictions
    const uint64_t both = labels_[c] + predicted;
    if (both == 0) continue;
    ++seen;
    sum += 2.0 * static_cast<double>(confusion(c, c)) / static_cast<double>(both);
  }
  return seen == 0 ? 0 : sum / static_cast<double>(seen);
}

void OutputDifference::add(std::span<const float> a, std::span<const float> b) {
  elems_ += a.size();
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i], y = b[i];
    if (!std::isfinite(x) || !std::isfinite(y)) {
      const bool same = x == y || (std::isnan(x) && std::isnan(y));
      non_finite_ += same ? 0 : 1;
      continue;
    }
    max_abs_ = std::max(max_abs_, std::abs(x - y));
    max_reference_ = std::max(max_reference_, std::abs(x));
    signal_ += x * x;
    noise_ += (x - y) * (x - y);
  }
}

double OutputDifference::max_rel() const {
  if (max_abs_ == 0) return 0;
  return max_reference_ == 0 ? std::numeric_limits<double>::infinity() : max_abs_ / max_reference_;
}

double OutputDifference::sqnr_db() const {
  if (noise_ == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal_ / noise_);
}

}  // namespace lathe
