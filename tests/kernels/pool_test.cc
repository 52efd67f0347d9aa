// Pooling and means: scalar kernels against plain loops in wider arithmetic, every other list entry against the scalar one.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "kernels/pool/pool.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

int value_of(Storage s, uint8_t stored) { return s == Storage::kU8 ? stored : static_cast<int8_t>(stored); }
int lowest(Storage s) { return s == Storage::kU8 ? 0 : -128; }

struct PoolCase {
  PoolGeometry g;
  CountRule rule;
};

// in_h, in_w, c, out_h, out_w, kernel, stride, dilation, pad. The last window of each ceil-mode case reaches past the padding.
const PoolCase kCases[] = {
    {{4, 4, 16, 2, 2, 2, 2, 2, 2, 1, 1, 0, 0}, {0, 0, 0}},
    {{7, 5, 33, 4, 3, 3, 3, 2, 2, 1, 1, 1, 1}, {0, 1, 1}},
    {{7, 5, 9, 4, 3, 3, 3, 2, 2, 1, 1, 1, 1}, {1, 1, 1}},
    {{6, 6, 24, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0}, {1, 0, 0}},
    {{9, 8, 65, 5, 4, 3, 3, 1, 1, 2, 2, 0, 0}, {0, 0, 0}},
    {{9, 8, 65, 5, 4, 3, 3, 2, 2, 1, 1, 1, 1}, {0, 1, 1}},
    {{5, 7, 130, 5, 7, 3, 3, 1, 1, 1, 1, 1, 1}, {0, 1, 1}},
    {{3, 3, 1, 5, 5, 3, 3, 1, 1, 1, 1, 2, 2}, {0, 2, 2}},
    {{2, 2, 40, 6, 6, 1, 1, 1, 1, 1, 1, 2, 2}, {0, 2, 2}},
    {{5, 11, 7, 1, 1, 5, 11, 1, 1, 1, 1, 0, 0}, {0, 0, 0}},
};

// f(channel, taps inside x as flat positions, all counted taps) for every output element, written without pool.h's own
// arithmetic.
template <class F> void each_output(const PoolCase& p, const F& f) {
  const PoolGeometry& g = p.g;
  const auto i = [](uint32_t v) { return static_cast<int>(v); };
  for (int oh = 0; oh < i(g.out_h); ++oh) {
    for (int ow = 0; ow < i(g.out_w); ++ow) {
      std::vector<uint32_t> taps;
      int counted = 0;
      for (int kh = 0; kh < i(g.kernel_h); ++kh) {
        for (int kw = 0; kw < i(g.kernel_w); ++kw) {
          const int h = oh * i(g.stride_h) - i(g.pad_top) + kh * i(g.dilation_h),
                    w = ow * i(g.stride_w) - i(g.pad_left) + kw * i(g.dilation_w);
          const bool inside = h >= 0 && h < i(g.in_h) && w >= 0 && w < i(g.in_w);
          if (inside) taps.push_back(static_cast<uint32_t>(h * i(g.in_w) + w) * g.c);
          const bool padded = h < i(g.in_h + p.rule.pad_bottom) && w < i(g.in_w + p.rule.pad_right);
          counted += inside || (p.rule.count_pad != 0 && padded) ? 1 : 0;
        }
      }
      for (uint32_t c = 0; c < g.c; ++c) f(static_cast<uint32_t>(oh * i(g.out_w) + ow) * g.c + c, c, taps, counted);
    }
  }
}

uint32_t in_elems(const PoolGeometry& g) { return g.in_h * g.in_w * g.c; }
uint32_t out_elems(const PoolGeometry& g) { return g.out_h * g.out_w * g.c; }

int expected_round(float v, int z, int lo, int hi) {
  return std::clamp(static_cast<int>(std::nearbyint(std::clamp(static_cast<double>(v), -1e6, 1e6))) + z, lo, hi);
}

}  // namespace

TEST_CASE("max pooling takes the largest tap, or the lowest value where a window is all padding") {
  for (const PoolCase& p : kCases) {
    std::mt19937 rng(21);
    for_each_kernel<MaxPoolS8Fn>(Family::kMaxPoolS8, [&](const Kernel& k, MaxPoolS8Fn fn, MaxPoolS8Fn) {
      CAPTURE(std::string(k.name));
      std::vector<uint8_t> x(in_elems(p.g));
      fill_ints(rng, x.data(), x.size(), 0, 255);
      Guarded<uint8_t> y(out_elems(p.g), 1);
      const int low = lowest(k.storage) + 4;
      for (uint32_t row = 0; row < p.g.out_h; ++row) fn({p.g, x.data(), y.data(), row, row + 1, low});
      REQUIRE(y.intact(1, out_elems(p.g), 0));
      each_output(p, [&](uint32_t at, uint32_t c, const std::vector<uint32_t>& taps, int) {
        int best = low;
        for (const uint32_t t : taps) best = std::max(best, value_of(k.storage, x[t + c]));
        REQUIRE(value_of(k.storage, y.data()[at]) == best);
      });
    });
    for_each_kernel<MaxPoolF32Fn>(Family::kMaxPoolF32, [&](const Kernel& k, MaxPoolF32Fn fn, MaxPoolF32Fn) {
      CAPTURE(std::string(k.name));
      std::vector<float> x(in_elems(p.g));
      fill_floats(rng, x.data(), x.size(), -9, -1);
      Guarded<float> y(out_elems(p.g), 4);
      fn({p.g, x.data(), y.data(), 0, p.g.out_h});
      REQUIRE(y.intact(1, out_elems(p.g), 0));
      each_output(p, [&](uint32_t at, uint32_t c, const std::vector<uint32_t>& taps, int) {
        float best = -INFINITY;
        for (const uint32_t t : taps) best = std::max(best, x[t + c]);
        REQUIRE(y.data()[at] == best);
      });
    });
  }
}

TEST_CASE("average pooling divides by the taps it counts") {
  for (const PoolCase& p : kCases) {
    std::mt19937 rng(22);
    for_each_kernel<AvgPoolF32Fn>(Family::kAvgPoolF32, [&](const Kernel& k, AvgPoolF32Fn fn, AvgPoolF32Fn reference) {
      CAPTURE(std::string(k.name));
      std::vector<float> x(in_elems(p.g)), expected(out_elems(p.g));
      fill_floats(rng, x.data(), x.size(), -2, 5);
      Guarded<float> y(out_elems(p.g), 4);
      fn({p.g, p.rule, x.data(), y.data(), 0, p.g.out_h});
      reference({p.g, p.rule, x.data(), expected.data(), 0, p.g.out_h});
      REQUIRE(y.intact(1, out_elems(p.g), 0));
      REQUIRE(std::memcmp(y.data(), expected.data(), expected.size() * sizeof(float)) == 0);
      each_output(p, [&](uint32_t at, uint32_t c, const std::vector<uint32_t>& taps, int counted) {
        double sum = 0;
        for (const uint32_t t : taps) sum += x[t + c];
        REQUIRE(y.data()[at] == doctest::Approx(counted == 0 ? 0 : sum / counted).epsilon(1e-5));
      });
    });
  }
}

TEST_CASE("8-bit average pooling rounds the exact sum once, padding worth the zero point") {
  for (const PoolCase& p : kCases) {
    std::mt19937 rng(23);
    for_each_kernel<AvgPoolS8Fn>(Family::kAvgPoolS8, [&](const Kernel& k, AvgPoolS8Fn fn, AvgPoolS8Fn) {
      CAPTURE(std::string(k.name));
      const int low = lowest(k.storage);
      for (const int x_zero : {low, low + 131, low + 255}) {
        AvgPoolConstants c{x_zero, low + 77, low + 2, low + 250, 0, {}, {}};
        each_output(p, [&](uint32_t, uint32_t, const std::vector<uint32_t>&, int counted) {
          const auto n = static_cast<uint32_t>(counted);
          if (n == 0 || std::find(c.counts, c.counts + c.count_entries, n) != c.counts + c.count_entries) return;
          c.m[c.count_entries] = static_cast<float>(1.37 / counted);
          c.counts[c.count_entries++] = n;
        });
        std::vector<uint8_t> x(in_elems(p.g));
        fill_ints(rng, x.data(), x.size(), 0, 255);
        Guarded<uint8_t> y(out_elems(p.g), 1);
        fn({p.g, p.rule, x.data(), y.data(), 0, p.g.out_h, &c});
        REQUIRE(y.intact(1, out_elems(p.g), 0));
        each_output(p, [&](uint32_t at, uint32_t channel, const std::vector<uint32_t>& taps, int counted) {
          int sum = 0;
          for (const uint32_t t : taps) sum += value_of(k.storage, x[t + channel]) - x_zero;
          const float v = counted == 0 ? 0.0f : static_cast<float>(sum) * static_cast<float>(1.37 / counted);
          REQUIRE(value_of(k.storage, y.data()[at]) == expected_round(v, low + 77, low + 2, low + 250));
        });
      }
    });
  }
}

TEST_CASE("float means agree with double precision and do not depend on their neighbours") {
  std::mt19937 rng(24);
  for_each_kernel<MeanF32Fn>(Family::kMeanF32, [&](const Kernel& name, MeanF32Fn fn, MeanF32Fn reference) {
    CAPTURE(std::string(name.name));
    for (const uint32_t n : {1u, 3u, 8u, 17u, 40u}) {
      for (const uint32_t k : {1u, 7u, 16u, 17u, 49u, 100u}) {
        for (const bool columns : {true, false}) {
          // k 1 with one column is a row too; both orders are the same then.
          const uint32_t step = columns ? 1 : k + 1, k_step = columns ? n + 1 : 1;
          std::vector<float> x((n - 1) * step + (k - 1) * k_step + 1), expected(n);
          fill_floats(rng, x.data(), x.size(), -1, 3);
          Guarded<float> y(n, 4);
          fn({x.data(), y.data(), n, k, step, k_step});
          reference({x.data(), expected.data(), n, k, step, k_step});
          REQUIRE(y.intact(1, n, 0));
          REQUIRE(std::memcmp(y.data(), expected.data(), n * sizeof(float)) == 0);
          for (uint32_t i = 0; i < n; ++i) {
            double sum = 0;
            for (uint32_t j = 0; j < k; ++j) sum += x[i * step + j * k_step];
            REQUIRE(y.data()[i] == doctest::Approx(sum / k).epsilon(1e-5));
          }
        }
      }
    }
  });
}

TEST_CASE("8-bit means round the exact sum once") {
  std::mt19937 rng(25);
  for_each_kernel<MeanS8Fn>(Family::kMeanS8, [&](const Kernel& name, MeanS8Fn fn, MeanS8Fn) {
    CAPTURE(std::string(name.name));
    const int low = lowest(name.storage);
    for (const uint32_t n : {1u, 3u, 8u, 31u, 32u, 33u, 75u}) {
      for (const uint32_t k : {1u, 7u, 31u, 32u, 49u, 100u, 3000u}) {
        for (const bool columns : {true, false}) {
          const uint32_t step = columns ? 1 : k + 1, k_step = columns ? n + 1 : 1;
          std::vector<uint8_t> x((n - 1) * step + (k - 1) * k_step + 1);
          fill_ints(rng, x.data(), x.size(), 0, 255);
          if (k == 3000) std::fill(x.begin(), x.end(), static_cast<uint8_t>(low + 255));
          const MeanConstants c{low + 19, static_cast<float>(0.83 / k), low + 33, low + 1, low + 254};
          Guarded<uint8_t> y(n, 1);
          fn({x.data(), y.data(), n, k, step, k_step, c});
          REQUIRE(y.intact(1, n, 0));
          for (uint32_t i = 0; i < n; ++i) {
            int sum = 0;
            for (uint32_t j = 0; j < k; ++j) sum += value_of(name.storage, x[i * step + j * k_step]) - c.x_zero;
            REQUIRE(value_of(name.storage, y.data()[i]) ==
                    expected_round(static_cast<float>(sum) * c.m, c.zero_point, c.lo, c.hi));
          }
        }
      }
    }
  });
}

}  // namespace lathe::kernels
