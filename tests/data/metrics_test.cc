#include "data/metrics.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lathe {
namespace {

TEST_CASE("Wilson's interval has the published values and stays within 0 and 1") {
  // Newcombe 1998, table I: 81 of 263 and 15 of 148.
  CHECK(wilson95(81, 263).low == doctest::Approx(0.2553).epsilon(0.0005));
  CHECK(wilson95(81, 263).high == doctest::Approx(0.3662).epsilon(0.0005));
  CHECK(wilson95(15, 148).low == doctest::Approx(0.0624).epsilon(0.001));
  CHECK(wilson95(0, 20).low == 0);
  CHECK(wilson95(0, 20).high == doctest::Approx(0.1611).epsilon(0.001));
  CHECK(wilson95(29, 29).low == doctest::Approx(0.8830).epsilon(0.001));
  CHECK(wilson95(29, 29).high == doctest::Approx(1));
  CHECK(wilson95(0, 0).high == 1);
}

TEST_CASE("argmax and top-k break ties by index and put NaN last") {
  const std::vector<float> s = {1, 3, NAN, 3, -INFINITY};
  CHECK(argmax(s) == 1);
  CHECK(top_k(s, 3) == std::vector<uint32_t>{1, 3, 0});
  CHECK(top_k(s, 9) == std::vector<uint32_t>{1, 3, 0, 4, 2});
  CHECK(in_top_k(s, 3, 2));
  CHECK_FALSE(in_top_k(s, 3, 1));
  CHECK_FALSE(in_top_k(s, 5, 5));
  const std::vector<float> only_nan = {NAN, 0};
  CHECK(argmax(only_nan) == 1);
}

TEST_CASE("accuracy, confusion and macro F1 agree with a count by hand") {
  ClassificationScore score(4);
  // label: predictions. Class 3 never occurs and does not count.
  for (const auto& [label, predicted] : {std::pair(0, 0), {0, 0}, {0, 1}, {1, 1}, {1, 2}, {2, 2}, {2, 7}})
    score.add(static_cast<uint32_t>(label), static_cast<uint32_t>(predicted));
  CHECK(score.samples() == 7);
  CHECK(score.hits() == 4);
  CHECK(score.accuracy() == doctest::Approx(4.0 / 7));
  CHECK(score.confusion(0, 1) == 1);
  CHECK(score.confusion(1, 0) == 0);
  // F1: class 0 2*2/(3+2), class 1 2*1/(2+2), class 2 2*1/(2+2).
  CHECK(score.macro_f1() == doctest::Approx((0.8 + 0.5 + 0.5) / 3));
  CHECK(ClassificationScore(3).macro_f1() == 0);
  CHECK(ClassificationScore(3).accuracy() == 0);
}

TEST_CASE("output differences are those of their definitions") {
  OutputDifference d;
  const std::vector<float> a = {3, -4, 0}, b = {3.5f, -4, 0};
  d.add(a, b);
  CHECK(d.max_abs() == 0.5);
  CHECK(d.max_rel() == 0.125);
  CHECK(d.sqnr_db() == doctest::Approx(20));  // 25 / 0.25
  d.add(a, a);
  CHECK(d.sqnr_db() == doctest::Approx(10 * std::log10(50 / 0.25)));
  CHECK(d.elems() == 6);
  OutputDifference equal;
  equal.add(a, a);
  CHECK(std::isinf(equal.sqnr_db()));
  CHECK(equal.max_rel() == 0);
  OutputDifference zero;
  zero.add(std::vector<float>{0}, std::vector<float>{1});
  CHECK(std::isinf(zero.max_rel()));
}

TEST_CASE("values that are not finite are counted where the outputs disagree") {
  OutputDifference d;
  d.add(std::vector<float>{NAN, INFINITY, INFINITY, 1, 2}, std::vector<float>{NAN, INFINITY, -INFINITY, NAN, 2});
  CHECK(d.non_finite() == 2);
  CHECK(d.max_abs() == 0);
}

}  // namespace
}  // namespace lathe
