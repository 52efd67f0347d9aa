// A histogram of real values whose bins are powers of two wide and anchored at zero.
//
// Bin i holds values in [i * w, (i + 1) * w), w = 2^exponent. When a value lies outside, neighbouring pairs are merged and w
// doubles; because bins are anchored at zero, floor(floor(x / w) / 2) = floor(x / 2w), so the result depends on the values alone,
// not on their order or grouping. Memory is fixed. Not thread-safe.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

class Histogram {
 public:
  static constexpr int32_t kHalf = 2048;  // bins on each side of zero

  // Adds finite values. Requires: no NaN or infinity (the caller checks, it knows the tensor's name).
  void add(std::span<const float> values);
  // Adds another histogram's counts.
  void merge(const Histogram& other);

  uint64_t total() const { return total_; }
  bool empty() const { return total_ == 0; }
  // Bin width; 0 while only zeros were seen.
  double width() const;
  // Count of bin i, -kHalf <= i < kHalf.
  uint64_t count(int32_t i) const { return counts_[static_cast<size_t>(i + kHalf)]; }
  // Extremes of the values added; 0 when empty.
  float min() const { return min_; }
  float max() const { return max_; }

  // The outer edge of the bin where the mass below (above) it first exceeds `tail` of all values, clamped to what was seen.
  // Source of the method: percentile calibration as in post-training quantization surveys; 0 <= tail < 0.5.
  double lower_edge(double tail) const;
  double upper_edge(double tail) const;

 private:
  void widen(int32_t exponent);
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(2 * kHalf, 0);
  int32_t exponent_ = kNoExponent;
  uint64_t total_ = 0;
  float min_ = 0, max_ = 0;
  static constexpr int32_t kNoExponent = -100000;
  static int32_t needed_exponent(float magnitude);
};

}  // namespace lathe
