// Softmax kernels against double precision, and 8-bit ones against the formula in integers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/softmax/softmax.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

const uint32_t kSizes[] = {1, 2, 7, 8, 9, 10, 15, 16, 17, 31, 33, 64, 97, 128, 1000, 2049};

std::vector<uint16_t> make_table(double scale) {
  std::vector<uint16_t> table(257);
  for (int d = 0; d < 256; ++d)
    table[static_cast<size_t>(d)] = static_cast<uint16_t>(std::nearbyint(65535 * std::exp(-scale * d)));
  return table;
}

}  // namespace

TEST_CASE("float softmax agrees with double precision, in place and row by row") {
  std::mt19937 rng(11);
  for_each_kernel<SoftmaxF32Fn>(Family::kSoftmaxF32, [&](const Kernel& k, SoftmaxF32Fn fn, SoftmaxF32Fn) {
    for (const uint32_t n : kSizes) {
      CAPTURE(std::string(k.name));
      CAPTURE(n);
      constexpr uint32_t kRows = 3;
      std::vector<float> x(kRows * n);
      fill_floats(rng, x.data(), x.size(), -30, 90);
      Guarded<float> y(kRows * n, 4);
      std::memcpy(y.data(), x.data(), x.size() * sizeof(float));
      fn({y.data(), y.data(), kRows, n});
      REQUIRE(y.intact(1, kRows * n, 0));
      for (uint32_t r = 0; r < kRows; ++r) {
        double highest = -1e300, sum = 0;
        for (uint32_t i = 0; i < n; ++i) highest = std::fmax(highest, x[r * n + i]);
        for (uint32_t i = 0; i < n; ++i) sum += std::exp(x[r * n + i] - highest);
        for (uint32_t i = 0; i < n; ++i) REQUIRE(std::fabs(y.data()[r * n + i] - std::exp(x[r * n + i] - highest) / sum) < 1e-6);
      }
      // A row's result does not depend on the rows beside it.
      std::vector<float> alone(n);
      fn({x.data() + n, alone.data(), 1, n});
      REQUIRE(std::memcmp(alone.data(), y.data() + n, n * sizeof(float)) == 0);
    }
  });
}

TEST_CASE("float softmax of -infinity is 0, and a NaN spoils its own row alone") {
  for_each_kernel<SoftmaxF32Fn>(Family::kSoftmaxF32, [&](const Kernel& k, SoftmaxF32Fn fn, SoftmaxF32Fn) {
    CAPTURE(std::string(k.name));
    std::vector<float> x(2 * 19, 1.0f), y(2 * 19);
    x[3] = -std::numeric_limits<float>::infinity();
    x[19 + 18] = std::numeric_limits<float>::quiet_NaN();
    fn({x.data(), y.data(), 2, 19});
    CHECK(y[3] == 0);
    CHECK(y[4] == doctest::Approx(1.0 / 18));
    for (uint32_t i = 0; i < 19; ++i) CHECK(std::isnan(y[19 + i]));
  });
}

TEST_CASE("8-bit softmax is the table formula, bit for bit") {
  std::mt19937 rng(12);
  for_each_kernel<SoftmaxS8Fn>(Family::kSoftmaxS8, [&](const Kernel& k, SoftmaxS8Fn fn, SoftmaxS8Fn) {
    // Tables without zeros, with zeros from 240, 128, 112 on, and with hardly any terms.
    for (const double scale : {0.001, 0.05, 0.0924, 0.11, 0.9}) {
      const std::vector<uint16_t> table = make_table(scale);
      for (const uint32_t n : kSizes) {
        CAPTURE(std::string(k.name));
        CAPTURE(n);
        constexpr uint32_t kRows = 3;
        std::vector<uint8_t> x(kRows * n);
        fill_ints(rng, x.data(), x.size(), 0, 255);
        if (n > 16)
          std::memset(x.data() + n, k.storage == Storage::kU8 ? 0 : 0x80, n - 1),
              x[2 * n - 1] = k.storage == Storage::kU8 ? 255 : 127;
        Guarded<uint8_t> y(kRows * n, 1);
        std::memcpy(y.data(), x.data(), x.size());
        fn({y.data(), y.data(), kRows, n, table.data()});
        REQUIRE(y.intact(1, kRows * n, 0));
        const auto value = [&](uint8_t v) { return k.storage == Storage::kU8 ? v - 128 : static_cast<int8_t>(v); };
        for (uint32_t r = 0; r < kRows; ++r) {
          int highest = -128;
          uint32_t sum = 0;
          for (uint32_t i = 0; i < n; ++i) highest = std::max(highest, static_cast<int>(value(x[r * n + i])));
          for (uint32_t i = 0; i < n; ++i) sum += table[static_cast<size_t>(highest - value(x[r * n + i]))];
          for (uint32_t i = 0; i < n; ++i) {
            const float factor = 256.0f / static_cast<float>(sum);
            const float v = static_cast<float>(table[static_cast<size_t>(highest - value(x[r * n + i]))]) * factor;
            REQUIRE(value(y.data()[r * n + i]) == static_cast<int>(std::nearbyint(std::fmin(v, 255.0f))) - 128);
          }
        }
      }
    }
  });
}

TEST_CASE("8-bit softmax of the longest row has an exact sum") {
  const std::vector<uint16_t> table = make_table(0.0);
  for_each_kernel<SoftmaxS8Fn>(Family::kSoftmaxS8, [&](const Kernel& k, SoftmaxS8Fn fn, SoftmaxS8Fn) {
    std::vector<uint8_t> x(65536, 7), y(65536, 7);
    fn({x.data(), y.data(), 1, 65536, table.data()});
    // 65535 / (65536 * 65535) of 256 steps rounds to 0.
    const uint8_t lowest = k.storage == Storage::kU8 ? 0 : 0x80;
    CHECK_MESSAGE(std::all_of(y.begin(), y.end(), [&](uint8_t v) { return v == lowest; }), std::string(k.name));
  });
}

}  // namespace lathe::kernels
