#include "data/evaluation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

namespace lathe {
namespace {

constexpr int kResamples = 1000;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct MetricName {
  const char* text;  // up to the number
  MetricKind kind;
  bool numbered;
};
constexpr MetricName kNames[] = {{"accuracy", MetricKind::kAccuracy, false},  {"top-", MetricKind::kTopK, true},
                                 {"macro-f1", MetricKind::kMacroF1, false},   {"auc", MetricKind::kAuc, false},
                                 {"mse", MetricKind::kMeanSquaredError, false}, {"perplexity", MetricKind::kPerplexity, false},
                                 {"recall@", MetricKind::kRecall, true},      {"ndcg@", MetricKind::kNdcg, true}};

bool is_hit_or_miss(const Metric& m) {
  return m.kind == MetricKind::kAccuracy || m.kind == MetricKind::kTopK || m.kind == MetricKind::kRecall;
}

tl::unexpected<Error> size_error(size_t got, size_t wanted, const char* what) {
  return fail(Code::kInvalidArgument, "the model's first output has " + std::to_string(got) + " values per sample, " + what + " " +
                                          std::to_string(wanted));
}

// -log p of every target token under its row of logits.
Result<SampleScore> likelihood(std::span<const float> logits, std::span<const float> tokens) {
  if (tokens.empty() || logits.size() % tokens.size() != 0)
    return size_error(logits.size(), tokens.size(), "which is no multiple of the target's tokens,");
  const size_t vocabulary = logits.size() / tokens.size();
  SampleScore s;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::span<const float> row = logits.subspan(i * vocabulary, vocabulary);
    if (!(tokens[i] >= 0) || tokens[i] >= static_cast<float>(vocabulary))
      return fail(Code::kInvalidArgument, "token " + std::to_string(i) + " of the target is " + std::to_string(tokens[i]) +
                                              ", the vocabulary has " + std::to_string(vocabulary));
    const double top = *std::max_element(row.begin(), row.end());
    double total = 0;
    for (const float v : row) total += std::exp(static_cast<double>(v) - top);
    s.value += std::log(total) + top - static_cast<double>(row[static_cast<size_t>(tokens[i])]);
  }
  s.weight = static_cast<double>(tokens.size());
  return s;
}

Result<SampleScore> squared_error(std::span<const float> output, std::span<const float> target) {
  if (output.size() != target.size()) return size_error(output.size(), target.size(), "the target has");
  SampleScore s;
  for (size_t i = 0; i < output.size(); ++i) {
    const double d = static_cast<double>(output[i]) - static_cast<double>(target[i]);
    s.value += d * d;
  }
  s.weight = static_cast<double>(output.size());
  return s;
}

double macro_f1(ScoreView scores, std::span<const uint32_t> which) {
  struct Count {
    double hits = 0, labels = 0, predictions = 0;
  };
  std::map<int64_t, Count> classes;
  for (const uint32_t i : which) {
    ++classes[scores[i].label].labels;
    ++classes[scores[i].predicted].predictions;
    classes[scores[i].label].hits += scores[i].label == static_cast<int64_t>(scores[i].predicted);
  }
  double sum = 0;
  for (const auto& [name, c] : classes) sum += 2 * c.hits / (c.labels + c.predictions);
  return sum / static_cast<double>(classes.size());
}

// Mann and Whitney's statistic: the share of pairs of one sample of each class in which class 1 scores higher; ties count half.
double area_under_curve(ScoreView scores, std::span<const uint32_t> which) {
  std::vector<uint32_t> order(which.begin(), which.end());
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return scores[a].value < scores[b].value; });
  double ranks = 0, positives = 0;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && scores[order[end]].value == scores[order[begin]].value) ++end;
    const double rank = (static_cast<double>(begin) + static_cast<double>(end) + 1) / 2;  // the mean of begin + 1 ... end
    for (size_t i = begin; i < end; ++i)
      if (scores[order[i]].label == 1) ranks += rank, ++positives;
    begin = end;
  }
  const double negatives = static_cast<double>(order.size()) - positives;
  if (positives == 0 || negatives == 0) return kNone;
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

// Two-sided: twice the tail of a fair coin's binomial distribution, at most 1.
double mcnemar(uint64_t only_a, uint64_t only_b) {
  const auto n = static_cast<double>(only_a + only_b), low = static_cast<double>(std::min(only_a, only_b));
  double tail = 0;
  for (double i = 0; i <= low; ++i)
    tail += std::exp(std::lgamma(n + 1) - std::lgamma(i + 1) - std::lgamma(n - i + 1) - n * std::log(2.0));
  return std::min(1.0, 2 * tail);
}

}  // namespace

std::string Metric::name() const {
  for (const MetricName& n : kNames)
    if (n.kind == kind) return n.numbered ? n.text + std::to_string(k) : n.text;
  return "";
}

double Metric::drop(double reference, double value) const {
  return is_share() ? 100 * (reference - value) : 100 * (value / reference - 1);
}

Result<Metric> parse_metric(std::string_view text) {
  for (const MetricName& n : kNames) {
    if (!n.numbered && text == n.text) return Metric{n.kind, 1};
    if (!n.numbered || !text.starts_with(n.text)) continue;
    const std::string digits(text.substr(std::string_view(n.text).size()));
    if (digits.empty() || digits.size() > 6 || !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
      continue;
    if (const int k = std::stoi(digits); k > 0) return Metric{n.kind, static_cast<uint32_t>(k)};
  }
  return fail(Code::kInvalidArgument, "unknown metric '" + std::string(text) +
                                          "' (accuracy, top-K, macro-f1, auc, mse, perplexity, recall@K, ndcg@K)");
}

Result<SampleScore> score_sample(const Metric& metric, std::span<const float> output, int32_t label,
                                 std::span<const float> target) {
  if (metric.kind == MetricKind::kPerplexity) return likelihood(output, target);
  if (metric.kind == MetricKind::kMeanSquaredError) return squared_error(output, target);
  SampleScore s;
  s.label = label;
  if (metric.kind == MetricKind::kAuc) {
    if (output.size() > 2 || output.empty() || label > 1)
      return fail(Code::kInvalidArgument, "auc needs two classes and one score or two per sample; label " + std::to_string(label) +
                                              " has " + std::to_string(output.size()) + " scores");
    s.value = output.size() == 1 ? static_cast<double>(output[0]) : static_cast<double>(output[1]) - static_cast<double>(output[0]);
    return s;
  }
  if (label < 0 || static_cast<size_t>(label) >= output.size())
    return size_error(output.size(), static_cast<size_t>(label), "a label is");
  const auto wanted = static_cast<uint32_t>(label);
  s.predicted = argmax(output);
  if (metric.kind == MetricKind::kTopK || metric.kind == MetricKind::kRecall) {
    s.value = in_top_k(output, wanted, metric.k) ? 1 : 0;
  } else if (metric.kind == MetricKind::kNdcg) {
    const uint32_t rank = rank_of(output, wanted);
    s.value = rank < metric.k ? 1 / std::log2(2.0 + rank) : 0;
  } else {
    s.value = s.predicted == wanted ? 1 : 0;
  }
  return s;
}

double figure(const Metric& metric, ScoreView scores, std::span<const uint32_t> which) {
  if (which.empty()) return kNone;
  if (metric.kind == MetricKind::kMacroF1) return macro_f1(scores, which);
  if (metric.kind == MetricKind::kAuc) return area_under_curve(scores, which);
  double value = 0, weight = 0;
  for (const uint32_t i : which) value += scores[i].value, weight += scores[i].weight;
  return metric.kind == MetricKind::kPerplexity ? std::exp(value / weight) : value / weight;
}

Interval interval95(const Metric& metric, ScoreView scores, std::span<const uint32_t> which) {
  if (is_hit_or_miss(metric)) {
    uint64_t hits = 0;
    for (const uint32_t i : which) hits += scores[i].value > 0 ? 1 : 0;
    return wilson95(hits, which.size());
  }
  if (which.empty()) return {kNone, kNone};
  std::mt19937_64 rng(1);
  std::vector<double> figures;
  std::vector<uint32_t> sample(which.size());
  for (int r = 0; r < kResamples; ++r) {
    for (uint32_t& i : sample) i = which[rng() % which.size()];
    if (const double f = figure(metric, scores, sample); !std::isnan(f)) figures.push_back(f);
  }
  if (figures.empty()) return {kNone, kNone};
  std::sort(figures.begin(), figures.end());
  const auto at = [&](double share) { return figures[static_cast<size_t>(share * static_cast<double>(figures.size() - 1))]; };
  return {at(0.025), at(0.975)};
}

double paired_p(const Metric& metric, ScoreView a, ScoreView b, std::span<const uint32_t> which) {
  if (is_hit_or_miss(metric)) {
    uint64_t only_a = 0, only_b = 0;
    for (const uint32_t i : which) only_a += a[i].value > b[i].value, only_b += b[i].value > a[i].value;
    return mcnemar(only_a, only_b);
  }
  const double seen = std::fabs(figure(metric, a, which) - figure(metric, b, which));
  if (std::isnan(seen)) return kNone;
  std::mt19937_64 rng(1);
  std::vector<SampleScore> x(a.begin(), a.end()), y(b.begin(), b.end());
  int as_large = 0;
  for (int r = 0; r < kResamples; ++r) {
    for (const uint32_t i : which)
      if ((rng() & 1) != 0) std::swap(x[i], y[i]);
    // Equal sums may come out a rounding apart.
    as_large += std::fabs(figure(metric, x, which) - figure(metric, y, which)) >= seen * (1 - 1e-12) ? 1 : 0;
  }
  return (1.0 + as_large) / (1.0 + kResamples);
}

}  // namespace lathe
