#include "quant/histogram.h"

#include <algorithm>
#include <cmath>

namespace lathe {

// The least exponent e with magnitude < kHalf * 2^e, so that both x and -x fall inside (-kHalf * w belongs to bin -kHalf).
int32_t Histogram::needed_exponent(float magnitude) {
  if (magnitude == 0) return kNoExponent;
  const int32_t e = std::ilogb(magnitude);  // 2^e <= magnitude < 2^(e+1)
  return e + 1 - 11;                        // kHalf = 2^11
}

double Histogram::width() const { return exponent_ == kNoExponent ? 0.0 : std::ldexp(1.0, exponent_); }

void Histogram::widen(int32_t exponent) {
  if (exponent <= exponent_) return;
  if (exponent_ != kNoExponent) {
    const int32_t shift = std::min(exponent - exponent_, 31);
    std::vector<uint64_t> wide(counts_.size(), 0);
    for (int32_t i = -kHalf; i < kHalf; ++i) wide[static_cast<size_t>((i >> shift) + kHalf)] += count(i);
    counts_ = std::move(wide);
  }
  exponent_ = exponent;
}

void Histogram::add(std::span<const float> values) {
  if (values.empty()) return;
  float lo = values[0], hi = values[0];
  for (const float v : values) {
    lo = std::min(lo, v);
    hi = std::max(hi, v);
  }
  min_ = total_ == 0 ? lo : std::min(min_, lo);
  max_ = total_ == 0 ? hi : std::max(max_, hi);
  widen(needed_exponent(std::max(std::fabs(lo), std::fabs(hi))));
  total_ += values.size();
  if (exponent_ == kNoExponent) {
    counts_[kHalf] += values.size();  // zeros only: bin 0 at any width
    return;
  }
  const double inverse = std::ldexp(1.0, -exponent_);
  for (const float v : values) {
    const auto bin = static_cast<int32_t>(std::floor(v * inverse));
    ++counts_[static_cast<size_t>(bin + kHalf)];
  }
}

void Histogram::merge(const Histogram& other) {
  if (other.total_ == 0) return;
  min_ = total_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = total_ == 0 ? other.max_ : std::max(max_, other.max_);
  widen(other.exponent_);
  const int32_t shift = other.exponent_ == kNoExponent ? 0 : std::min(exponent_ - other.exponent_, 31);
  for (int32_t i = -kHalf; i < kHalf; ++i) counts_[static_cast<size_t>((i >> shift) + kHalf)] += other.count(i);
  total_ += other.total_;
}

double Histogram::lower_edge(double tail) const {
  uint64_t below = 0;
  for (int32_t i = -kHalf; i < kHalf; ++i) {
    below += count(i);
    if (static_cast<double>(below) > tail * static_cast<double>(total_)) return std::max<double>(i * width(), min_);
  }
  return min_;
}

double Histogram::upper_edge(double tail) const {
  uint64_t above = 0;
  for (int32_t i = kHalf - 1; i >= -kHalf; --i) {
    above += count(i);
    if (static_cast<double>(above) > tail * static_cast<double>(total_)) return std::min<double>((i + 1) * width(), max_);
  }
  return max_;
}

}  // namespace lathe
