#include "tools/latency.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lathe::tools {
namespace {

// Values below 2 * kSteps have a bucket each; of larger ones the leading bits choose it.
constexpr uint64_t kSteps = 128;
constexpr int kStepBits = 7;
constexpr size_t kBuckets = (64 - kStepBits) * kSteps + kSteps;

size_t bucket_of(uint64_t v) {
  const int shift = std::max(0, static_cast<int>(std::bit_width(v)) - kStepBits - 1);
  return static_cast<size_t>(shift) * kSteps + (v >> shift);
}

// The middle of bucket `b`.
double value_of(size_t b) {
  if (b < 2 * kSteps) return static_cast<double>(b);
  const size_t shift = b / kSteps - 1;
  return (static_cast<double>(b - shift * kSteps) + 0.5) * std::ldexp(1.0, static_cast<int>(shift));
}

}  // namespace

LatencyHistogram::LatencyHistogram() : buckets_(kBuckets) {}

void LatencyHistogram::add(int64_t ns) {
  const uint64_t v = ns < 0 ? 0 : static_cast<uint64_t>(ns);
  ++buckets_[bucket_of(v)];
  ++count_;
  sum_ += v;
  max_ = std::max(max_, v);
}

void LatencyHistogram::merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

double LatencyHistogram::mean_us() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_) * 1e-3;
}

double LatencyHistogram::quantile_us(double q) const {
  if (count_ == 0) return 0;
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(q * static_cast<double>(count_))));
  uint64_t below = 0;
  size_t b = 0;
  while (below + buckets_[b] < rank) below += buckets_[b++];
  return std::min(value_of(b), static_cast<double>(max_)) * 1e-3;
}

}  // namespace lathe::tools
