#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "quant/grid.h"
#include "quant/observer.h"
#include "quant/range_search.h"

using namespace lathe;

namespace {

uint64_t mass(const Histogram& h) {
  uint64_t n = 0;
  for (int32_t i = -Histogram::kHalf; i < Histogram::kHalf; ++i) n += h.count(i);
  return n;
}

bool equal(const Histogram& a, const Histogram& b) {
  if (a.width() != b.width() || a.min() != b.min() || a.max() != b.max()) return false;
  for (int32_t i = -Histogram::kHalf; i < Histogram::kHalf; ++i)
    if (a.count(i) != b.count(i)) return false;
  return true;
}

std::vector<float> random_values(size_t n, float scale, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> dist(0, scale);
  std::vector<float> v(n);
  for (float& x : v) x = dist(rng);
  return v;
}

}  // namespace

TEST_CASE("a histogram that sees 1e-6 and then 10 keeps its bins and its mass") {
  Histogram h;
  h.add(std::vector<float>(1000, 1e-6f));
  h.add(std::vector<float>{10.0f, -10.0f});
  CHECK(mass(h) == 1002);
  CHECK(h.total() == 1002);
  CHECK(h.max() == 10.0f);
  CHECK(h.width() * Histogram::kHalf > 10.0);
  CHECK(h.width() * Histogram::kHalf <= 20.0);
}

TEST_CASE("a histogram does not depend on order or batching") {
  const auto small = random_values(5000, 1e-3f, 1), large = random_values(100, 7.0f, 2);
  Histogram a, b, c;
  a.add(small);
  a.add(large);
  for (size_t i = large.size(); i-- > 0;) b.add(std::span(&large[i], 1));
  b.add(small);
  CHECK(equal(a, b));
  Histogram part;
  part.add(small);
  c.add(large);
  c.merge(part);
  CHECK(equal(a, c));
}

TEST_CASE("zeros before, after and without other values land in bin 0") {
  Histogram zeros, mixed;
  const std::vector<float> z(7, 0.0f), v{-0.5f, 3.0f};
  zeros.add(z);
  CHECK(zeros.count(0) == 7);
  CHECK(zeros.width() == 0);
  mixed.add(z);
  mixed.add(v);
  mixed.add(z);
  CHECK(mixed.count(0) == 14);
  CHECK(mass(mixed) == 16);
}

TEST_CASE("values at the edge of the bins stay inside: powers of two, subnormals, the largest float") {
  for (const float v : {1.0f, -1.0f, 2048.0f, -2048.0f, 1e-42f, -1e-42f, 3.4e38f, -3.4e38f}) {
    CAPTURE(v);
    Histogram h;
    h.add(std::vector<float>{v});
    CHECK(mass(h) == 1);
    h.add(std::vector<float>{0.25f});
    CHECK(mass(h) == 2);
  }
}

TEST_CASE("a percentile range cuts outliers and is clamped to what was seen") {
  auto values = random_values(100000, 1.0f, 3);
  values.push_back(1000.0f);
  Observer observer({.kind = ObserverKind::kPercentile, .percentile = 99.9});
  observer.add(values);
  std::sort(values.begin(), values.end());
  const Range r = observer.range();
  CHECK(r.max < 5.0);
  CHECK(r.max >= values[values.size() - values.size() / 2000 - 1]);
  CHECK(r.min <= values[values.size() / 2000]);
  Observer all({.kind = ObserverKind::kPercentile, .percentile = 100.0});
  all.add(values);
  CHECK(all.range().max == values.back());
  CHECK(all.range().min == values.front());
}

TEST_CASE("a percentile of values with a spike of zeros keeps the positive side") {
  std::vector<float> values(9000, 0.0f);
  const auto positive = random_values(1000, 1.0f, 4);
  for (const float v : positive) values.push_back(std::fabs(v));
  Observer observer({.kind = ObserverKind::kPercentile, .percentile = 99.9});
  observer.add(values);
  CHECK(observer.range().min == 0.0);
  CHECK(observer.range().max > 2.0);
}

TEST_CASE("moving average follows the samples in order") {
  Observer observer({.kind = ObserverKind::kMovingAverage, .momentum = 0.5});
  observer.add(std::vector<float>{-1.0f, 1.0f});
  observer.add(std::vector<float>{-3.0f, 5.0f});
  CHECK(observer.range().min == -2.0);
  CHECK(observer.range().max == 3.0);
}

TEST_CASE("entropy cuts what is rare and far, and keeps what is not") {
  auto values = random_values(200000, 1.0f, 5);
  values.push_back(400.0f);
  Observer far({.kind = ObserverKind::kEntropy});
  far.add(values);
  CHECK(far.range().max < 40.0);
  CHECK(far.range().max > 2.0);
  CHECK(far.range().min == *std::min_element(values.begin(), values.end()));
  std::vector<float> uniform(100000);
  for (size_t i = 0; i < uniform.size(); ++i) uniform[i] = static_cast<float>(i) / 50000.0f;
  Observer even({.kind = ObserverKind::kEntropy});
  even.add(uniform);
  CHECK(even.range().min == 0.0);
  CHECK(even.range().max > 1.9);
}

TEST_CASE("no other observer's range has less squared error than mse's") {
  for (const float power : {1.0f, 2.0f, 3.0f}) {
    CAPTURE(power);
    Observer o({.kind = ObserverKind::kMse});
    auto values = random_values(50000, 1.0f, 6);
    for (float& v : values) v = std::copysign(std::pow(std::fabs(v), power), v);
    o.add(values);
    const double least = quantization_error(o.histogram(), o.range());
    for (const ObserverKind kind : kRangeKinds) CHECK(least <= quantization_error(o.histogram(), o.range(kind)));
    if (power == 3) CHECK(least < 0.99 * quantization_error(o.histogram(), o.range(ObserverKind::kMinMax)));
  }
}

TEST_CASE("every observer gives a range for constants, zeros, one value and one sign") {
  for (const ObserverKind kind : kRangeKinds)
    for (const std::vector<float>& values : {std::vector<float>(10, 0.0f), std::vector<float>(10, 3.0f), std::vector<float>{-2.5f},
                                             std::vector<float>{-4, -3, -2, -1}, std::vector<float>{1e-42f, 2e-42f}}) {
      CAPTURE(observer_name(kind));
      CAPTURE(values[0]);
      Observer o({.kind = kind});
      o.add(values);
      const Range r = o.range();
      CHECK(r.min <= r.max);
      CHECK(r.min >= *std::min_element(values.begin(), values.end()));
      CHECK(r.max <= *std::max_element(values.begin(), values.end()));
      CHECK(activation_params(r).scale > 0);
    }
}

TEST_CASE("the error of a grid is what its steps and its ends cost") {
  Histogram h;
  h.add(std::vector<float>{0.0f, 0.0f, 255.0f, 255.0f});
  // Bins are 1/8 wide: 0 stands for 1/16, 255 for itself, the largest value seen.
  CHECK(quantization_error(h, {0, 255}) == doctest::Approx(1.0 / 512));
  CHECK(quantization_error(h, {0, 127.5}) > 8000);
  CHECK(mse_range(h).max == 255.0);
}

TEST_CASE("activation grids contain zero and never have an unusable scale") {
  const QuantParams p = activation_params({0.5, 2.0});
  CHECK(p.zero_point == -128);
  CHECK(p.scale == doctest::Approx(2.0 / 255));
  CHECK(activation_params({-2.0, -1.0}).zero_point == 127);
  CHECK(activation_params({0.0, 0.0}) == QuantParams{1.0f, 0, -128, 127});
  CHECK(activation_params({0.0, 1e-42}) == QuantParams{1.0f, 0, -128, 127});
  CHECK(activation_params({3.0, 3.0}).scale == doctest::Approx(3.0 / 255));
  const QuantParams both = activation_params({-1.0, 1.0});
  CHECK(both.zero_point == 0);  // -128 + 127.5 rounds half to even
}

TEST_CASE("weights are symmetric per channel, and an all-zero channel keeps its bias") {
  const std::vector<float> w{1.0f, -0.5f, 0.0f, 0.0f, 0.1f, 0.2f}, b{0.25f, 0.3f, -1.0f};
  const auto q = quantize_weights(w, b, 3, {.per_channel = true, .input_scale = 0.05f});
  REQUIRE(q);
  CHECK(q->values == std::vector<int8_t>{127, -64, 0, 0, 64, 127});
  REQUIRE(q->scales.size() == 3);
  for (size_t c = 0; c < 3; ++c) CHECK(q->bias[c] * double(q->scales[c]) * 0.05 == doctest::Approx(b[c]).epsilon(1e-4));
}

TEST_CASE("a bias that would overflow widens its channel's scale instead of being clipped") {
  const std::vector<float> w{1e-7f, -1e-7f, 1.0f, 0.5f}, b{5.0f, -4.5f};
  const auto q = quantize_weights(w, b, 2, {.per_channel = true, .input_scale = 0.5f});
  REQUIRE(q);
  CHECK(q->widened_channels == 1);
  CHECK(std::abs(int64_t(q->bias[0])) <= 1073741824);
  CHECK(q->bias[0] * double(q->scales[0]) * 0.5 == doctest::Approx(5.0));
  CHECK(q->bias[1] * double(q->scales[1]) * 0.5 == doctest::Approx(-4.5));
}

TEST_CASE("a channel's factor is the same float32 whether it is rounded once or after each step") {
  constexpr uint32_t kChannels = 200;
  constexpr float kInput = 0.0371f, kOutput = 0.0213f;
  std::vector<float> w;
  for (uint32_t c = 0; c < kChannels; ++c) w.push_back(0.1f + 0.003f * static_cast<float>(c));
  const auto q = quantize_weights(w, std::vector<float>{}, kChannels, {.input_scale = kInput, .output_scale = kOutput});
  REQUIRE(q);
  uint32_t moved = 0;
  for (uint32_t c = 0; c < kChannels; ++c) {
    const float s = q->scales[c];
    CHECK(static_cast<float>(double{kInput} * double{s} / double{kOutput}) == kInput * s / kOutput);
    CHECK(s == doctest::Approx(w[c] / 127).epsilon(1e-5));
    moved += s != w[c] / 127;
  }
  CHECK(moved > 0);
}

TEST_CASE("per-tensor weights share one scale that ignores all-zero rows") {
  const auto q = quantize_weights(std::vector<float>{0, 0, 0.02f, -0.015f}, std::vector<float>{}, 2, {.per_channel = false});
  REQUIRE(q);
  CHECK(q->scales == std::vector<float>{0.02f / 127});
  CHECK(q->values == std::vector<int8_t>{0, 0, 127, -95});
}

TEST_CASE("a weight that is not finite is an error that names the element") {
  const auto q = quantize_weights(std::vector<float>{0, NAN}, std::vector<float>{}, 1, {});
  REQUIRE_FALSE(q);
  CHECK(q.error().message == "weight element 1 is not finite");
}

TEST_CASE("an unknown observer lists the known ones") {
  const auto k = parse_observer("entropie");
  REQUIRE_FALSE(k);
  CHECK(k.error().message == "unknown observer 'entropie' (minmax, moving-average, percentile, entropy, mse, auto)");
  CHECK(parse_observer("percentile") == ObserverKind::kPercentile);
}
