// What a network is judged by on a set of samples: one figure, how certain it is, and whether two networks differ.
//
// A sample is scored once (score_sample); figures of the whole set and of any part of it come from these scores.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "data/metrics.h"

namespace lathe {

enum class MetricKind : uint8_t { kAccuracy, kTopK, kMacroF1, kAuc, kMeanSquaredError, kPerplexity, kRecall, kNdcg };

struct Metric {
  MetricKind kind = MetricKind::kAccuracy;
  uint32_t k = 1;  // kTopK, kRecall, kNdcg

  std::string name() const;  // as parse_metric() reads it
  // Errors and perplexities are better when small; all others are shares, better when large.
  bool is_share() const { return kind != MetricKind::kMeanSquaredError && kind != MetricKind::kPerplexity; }
  // Whether samples are judged by a class; the others need a target.
  bool wants_label() const { return is_share(); }
  // How much worse `value` is than `reference`: percentage points of a share, else percent of the reference. Negative: better.
  double drop(double reference, double value) const;
};
// accuracy, top-K, macro-f1, auc, mse, perplexity, recall@K, ndcg@K. Error: anything else; it lists these.
Result<Metric> parse_metric(std::string_view text);

// What one sample contributes. `value`: 1 or 0 (accuracy, top-K, recall@K), the gain (NDCG), the score of class 1 (AUC), the sum
// of squared errors, or of negative log-likelihoods in nats, over `weight` elements or tokens.
struct SampleScore {
  int32_t label = 0;
  uint32_t predicted = 0;
  double value = 0, weight = 1;
};

// `output`: scores by class; for mse as many values as the target; for perplexity logits [tokens, vocabulary]. recall@K and NDCG@K
// take the label as the one item that is relevant. AUC: one score, or those of classes 0 and 1. Errors: sizes that do not fit, a
// token outside the vocabulary.
Result<SampleScore> score_sample(const Metric& metric, std::span<const float> output, int32_t label,
                                 std::span<const float> target);

using ScoreView = std::span<const SampleScore>;
// The figure over the samples that `which` names. AUC of one class alone, and any figure of no samples, is NaN.
double figure(const Metric& metric, ScoreView scores, std::span<const uint32_t> which);
// At 95 %: Wilson's interval where samples are hits or misses, else from 1,000 resamples with replacement (Efron 1979, percentile
// method) by a generator with a fixed seed.
Interval interval95(const Metric& metric, ScoreView scores, std::span<const uint32_t> which);
// Probability of a difference at least as large between a and b, scores of the same samples, if both were equally good: McNemar's
// exact test where samples are hits or misses, else 1,000 random exchanges of a sample's two scores (fixed seed).
double paired_p(const Metric& metric, ScoreView a, ScoreView b, std::span<const uint32_t> which);

}  // namespace lathe
