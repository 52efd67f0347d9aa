#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tools/latency.h"

using lathe::tools::LatencyHistogram;

TEST_CASE("quantiles are within 0.4 % of the sorted values, from nanoseconds to minutes") {
  std::mt19937_64 random(7);
  for (const double top : {200.0, 3e4, 5e6, 6e10}) {
    CAPTURE(top);
    LatencyHistogram h;
    std::vector<int64_t> all;
    std::uniform_real_distribution<double> log_value(0, std::log(top));
    for (int i = 0; i < 5000; ++i) {
      all.push_back(static_cast<int64_t>(std::exp(log_value(random))));
      h.add(all.back());
    }
    std::sort(all.begin(), all.end());
    for (const double q : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
      CAPTURE(q);
      const auto rank = std::max<size_t>(1, static_cast<size_t>(std::ceil(q * 5000)));
      CHECK(h.quantile_us(q) * 1e3 == doctest::Approx(static_cast<double>(all[rank - 1])).epsilon(0.004));
    }
    double sum = 0;
    for (const int64_t v : all) sum += static_cast<double>(v);
    CHECK(h.mean_us() * 1e3 == doctest::Approx(sum / 5000).epsilon(1e-9));
    CHECK(h.max_us() * 1e3 == doctest::Approx(static_cast<double>(all.back())).epsilon(1e-9));
  }
}

TEST_CASE("merged histograms are those of all values") {
  LatencyHistogram a, b;
  for (int i = 1; i <= 60; ++i) a.add(i);
  for (int i = 61; i <= 100; ++i) b.add(i);
  a.merge(b);
  CHECK(a.count() == 100);
  CHECK(a.quantile_us(0.5) == doctest::Approx(0.050));
  CHECK(a.quantile_us(0.99) == doctest::Approx(0.099));
  CHECK(a.mean_us() == doctest::Approx(0.0505));
}

TEST_CASE("an empty histogram and extreme values are no trouble") {
  LatencyHistogram h;
  CHECK(h.quantile_us(0.99) == 0);
  CHECK(h.mean_us() == 0);
  h.add(-5);
  CHECK(h.quantile_us(1) == 0);
  h.add(INT64_MAX);
  CHECK(h.quantile_us(1) * 1e3 == doctest::Approx(static_cast<double>(INT64_MAX)).epsilon(0.004));
}
