// Figures that judge a network: accuracy, F1, confusion, confidence, and the distance between two networks' outputs.
//
// Accumulators: add() per sample, then read. Plain values; not thread-safe while adding.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>


namespace lathe {

struct Interval {
  double low = 0, high = 0;
};
// Wilson's score interval at 95 % for `hits` of `n` (Wilson 1927, without continuity correction); [0, 1] for n = 0.
Interval wilson95(uint64_t hits, uint64_t n);

// Index of the largest value; the first of equal ones; NaN never wins against a number. Requires: not empty.
uint32_t argmax(std::span<const float> scores);
// How many entries come before `label` in descending order (equal ones in order of index). Requires: label < scores.size().
uint32_t rank_of(std::span<const float> scores, uint32_t label);
// Whether fewer than k entries do; false for a label that has no score.
bool in_top_k(std::span<const float> scores, uint32_t label, uint32_t k);
// Indices of the k largest, in that order; fewer if there are fewer.
std::vector<uint32_t> top_k(std::span<const float> scores, uint32_t k);

class ClassificationScore {
 public:
  explicit ClassificationScore(uint32_t classes) : classes_(classes), confusion_(uint64_t{classes} * classes) {}
  // Requires: label < classes. A prediction outside the classes counts as wrong and in no column.
  void add(uint32_t label, uint32_t predicted);

  uint32_t classes() const { return classes_; }
  uint64_t samples() const { return samples_; }
  uint64_t hits() const { return hits_; }
  double accuracy() const;  // 0 without samples
  Interval accuracy_interval() const { return wilson95(hits_, samples_); }
  // Mean of the F1 of each class that occurs as a label or a prediction: 2 tp / (2 tp + fp + fn).
  double macro_f1() const;
  // Samples of class `label` that were taken for `predicted`.
  uint64_t confusion(uint32_t label, uint32_t predicted) const { return confusion_[uint64_t{label} * classes_ + predicted]; }

 private:
  uint32_t classes_;
  uint64_t samples_ = 0, hits_ = 0;
  std::vector<uint64_t> confusion_;                                 // [label][predicted]
  std::vector<uint64_t> labels_ = std::vector<uint64_t>(classes_);  // per label, predictions outside the classes included
};

// How far outputs `b` are from the reference `a`, over all samples added.
class OutputDifference {
 public:
  // Requires: equal sizes.
  void add(std::span<const float> a, std::span<const float> b);
  // As far as both go: a size may depend on data.
  void add_common(std::span<const float> a, std::span<const float> b) {
    const size_t n = a.size() < b.size() ? a.size() : b.size();
    add(a.first(n), b.first(n));
  }

  uint64_t elems() const { return elems_; }
  // Elements where one of the two is NaN or infinite and the other is not the same; they count in nothing else.
  uint64_t non_finite() const { return non_finite_; }
  double max_abs() const { return max_abs_; }
  // max |a - b| / max |a|; 0 if both are 0, infinite if only the reference is.
  double max_rel() const;
  // 10 log10(sum a^2 / sum (a - b)^2) in dB; infinite if equal.
  double sqnr_db() const;
  // sum (a - b)^2 / sum a^2; the sum of (a - b)^2 itself where every a is 0.
  double noise_ratio() const { return signal_ > 0 ? noise_ / signal_ : noise_; }

 private:
  uint64_t elems_ = 0, non_finite_ = 0;
  double max_abs_ = 0, max_reference_ = 0, signal_ = 0, noise_ = 0;
};

}  // namespace lathe
