// Figures against values worked out by hand, intervals and paired tests against known probabilities.
#include "data/evaluation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace lathe {
namespace {

Metric metric(const char* text) {
  const auto m = parse_metric(text);
  REQUIRE_MESSAGE(m, m.error().message);
  CHECK(m->name() == text);
  return *m;
}

struct Sample {
  std::vector<float> output;
  int32_t label = 0;
  std::vector<float> target = {};
};

std::vector<SampleScore> scored(const Metric& m, const std::vector<Sample>& samples) {
  std::vector<SampleScore> out;
  for (const Sample& s : samples) {
    const auto one = score_sample(m, s.output, s.label, s.target);
    REQUIRE_MESSAGE(one, one.error().message);
    out.push_back(*one);
  }
  return out;
}

std::vector<uint32_t> all(size_t n) {
  std::vector<uint32_t> which(n);
  std::iota(which.begin(), which.end(), 0u);
  return which;
}

double value(const char* name, const std::vector<Sample>& samples) {
  const Metric m = metric(name);
  return figure(m, scored(m, samples), all(samples.size()));
}

std::string error_of(const char* name, const Sample& s) {
  const auto r = score_sample(metric(name), s.output, s.label, s.target);
  return r ? "" : r.error().message;
}

// n samples, of which the first `hits` are right.
std::vector<SampleScore> hits_of(size_t n, size_t hits) {
  std::vector<SampleScore> out(n);
  for (size_t i = 0; i < hits; ++i) out[i].value = 1;
  return out;
}

TEST_CASE("figures by class and by rank") {
  const std::vector<Sample> s{{{3, 2, 1, 0}, 0}, {{3, 2, 1, 0}, 1}, {{3, 2, 1, 0}, 2}, {{0, 0, 0, 9}, 3}};
  CHECK(value("accuracy", s) == 0.5);
  CHECK(value("top-2", s) == 0.75);
  CHECK(value("recall@3", s) == 1.0);
  CHECK(value("ndcg@3", s) == doctest::Approx((1 + 1 / std::log2(3.0) + 0.5 + 1) / 4));
  CHECK(value("ndcg@2", s) == doctest::Approx((1 + 1 / std::log2(3.0) + 1) / 4));
  // F1 of classes 0 (one right of three taken for it), 1 and 2 (never found), 3 (always right).
  CHECK(value("macro-f1", s) == doctest::Approx((0.5 + 0 + 0 + 1) / 4));
}

TEST_CASE("area under the curve counts pairs, ties by half, and needs both classes") {
  CHECK(value("auc", {{{0.1f}, 0}, {{0.4f}, 0}, {{0.35f}, 1}, {{0.8f}, 1}}) == 0.75);
  CHECK(value("auc", {{{0.5f}, 0}, {{0.5f}, 1}}) == 0.5);
  CHECK(value("auc", {{{2, 5}, 1}, {{5, 2}, 0}}) == 1.0);
  CHECK(std::isnan(value("auc", {{{0.5f}, 1}})));
}

TEST_CASE("errors and perplexity weigh elements and tokens") {
  CHECK(value("mse", {{{1, 2}, 0, {1, 4}}, {{0, 0}, 0, {2, 0}}}) == 2.0);
  CHECK(value("perplexity", {{std::vector<float>(3 * 5, 1.0f), 0, {0, 4, 2}}}) == doctest::Approx(5));
  const float log3 = std::log(3.0f);  // probability 3/4 of token 0
  CHECK(value("perplexity", {{{log3, 0}, 0, {0}}, {{log3, 0}, 0, {1}}}) == doctest::Approx(std::sqrt(4.0 / 3 * 4)));
}

TEST_CASE("what does not fit is said") {
  CHECK(error_of("mse", {{1, 2}, 0, {1}}).find("2 values per sample, the target has 1") != std::string::npos);
  CHECK(error_of("perplexity", {{1, 2}, 0, {2}}).find("the vocabulary has 2") != std::string::npos);
  CHECK(error_of("perplexity", {{1, 2, 3}, 0, {0, 1}}).find("no multiple") != std::string::npos);
  CHECK(error_of("auc", {{1, 2, 3}, 0}).find("auc needs two classes") != std::string::npos);
  CHECK(error_of("accuracy", {{1, 2}, 2}).find("2 values per sample, a label is 2") != std::string::npos);
  for (const char* bad : {"", "top-", "top-0", "top-x", "recall@", "ndcg@99999999", "f1", "accuracy5"})
    CHECK_MESSAGE(!parse_metric(bad), bad);
}

TEST_CASE("drops are points of a share and percent of an error") {
  CHECK(metric("accuracy").drop(0.92, 0.90) == doctest::Approx(2));
  CHECK(metric("perplexity").drop(6.0, 6.3) == doctest::Approx(5));
  CHECK(metric("mse").drop(2.0, 1.0) == doctest::Approx(-50));
}

TEST_CASE("intervals contain the figure, shrink with samples and do not change") {
  const Metric m = metric("macro-f1");
  std::vector<SampleScore> s(400);
  for (size_t i = 0; i < s.size(); ++i) s[i] = {static_cast<int32_t>(i % 3), static_cast<uint32_t>(i % 5 == 0 ? 0 : i % 3)};
  const auto few = all(60), many = all(400);
  const Interval wide = interval95(m, s, few), narrow = interval95(m, s, many);
  CHECK(narrow.low < figure(m, s, many));
  CHECK(narrow.high > figure(m, s, many));
  CHECK(narrow.high - narrow.low < 0.6 * (wide.high - wide.low));
  CHECK(interval95(m, s, many).low == narrow.low);
  CHECK(interval95(metric("accuracy"), hits_of(263, 81), all(263)).low == doctest::Approx(0.2553).epsilon(0.0005));
}

TEST_CASE("paired tests know equal models, small and large differences") {
  const Metric accuracy = metric("accuracy");
  // 9 samples that only one gets right and 1 that only the other does: 2 (1 + 10) / 2^10.
  std::vector<SampleScore> a(20), b(20);
  for (size_t i = 0; i < 9; ++i) a[i].value = 1;
  b[9].value = 1;
  CHECK(paired_p(accuracy, a, b, all(20)) == doctest::Approx(22.0 / 1024));
  CHECK(paired_p(accuracy, a, a, all(20)) == 1);
  CHECK(paired_p(accuracy, hits_of(5000, 4000), hits_of(5000, 3500), all(5000)) < 1e-6);
  const Metric mse = metric("mse");
  std::vector<SampleScore> good(200), bad(200);
  for (size_t i = 0; i < 200; ++i) good[i].value = static_cast<double>(i % 7), bad[i].value = static_cast<double>(i % 7) + 1;
  CHECK(paired_p(mse, good, good, all(200)) == 1);
  CHECK(paired_p(mse, good, bad, all(200)) < 0.005);
  std::vector<SampleScore> mixed = good;
  for (size_t i = 0; i < 200; ++i) mixed[i].value += i % 2 == 0 ? 1 : -1;
  CHECK(paired_p(mse, good, mixed, all(200)) > 0.5);
}

}  // namespace
}  // namespace lathe
