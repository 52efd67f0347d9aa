// Layer normalization kernels: floats against double precision, 8-bit ones against the formula in wide integers and correctly
// rounded steps.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/norm/norm.h"
#include "lathe/arith.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

const uint32_t kSizes[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 384, 1000};
constexpr uint32_t kRows = 3;

struct Vectors {
  std::vector<float> g, b;
};
Vectors random_vectors(std::mt19937& rng, uint32_t n) {
  Vectors v{std::vector<float>(n), std::vector<float>(n)};
  fill_floats(rng, v.g.data(), n, -40, 60);
  fill_floats(rng, v.b.data(), n, -30, 30);
  return v;
}

// ARITHMETIC's layer norm of row x (values in the plan's storage), every float32 step from one of double, which rounds products,
// quotients and square roots of float32 values right when it is rounded again.
std::vector<int> expected_row(const std::vector<int>& x, const Vectors& v, const LayerNormConstants& c) {
  const auto n = static_cast<int64_t>(x.size());
  int64_t sum = 0, squares = 0;
  for (const int q : x) sum += q, squares += int64_t{q} * q;
  const auto variance = static_cast<float>(n * squares - sum * sum);
  const auto shifted = static_cast<float>(static_cast<double>(variance) + static_cast<double>(c.c));
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(shifted)));
  const auto r = static_cast<float>(1.0 / static_cast<double>(root));
  std::vector<int> y;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto normal = static_cast<float>(static_cast<double>(n * x[i] - sum) * static_cast<double>(r));
    const auto scaled = static_cast<float>(static_cast<double>(normal) * static_cast<double>(v.g[i]));
    const auto value = static_cast<double>(static_cast<float>(static_cast<double>(scaled) + static_cast<double>(v.b[i])));
    const double clamped = std::clamp<double>(value, c.lo - c.zero_point, c.hi - c.zero_point);
    y.push_back(static_cast<int>(std::nearbyint(clamped)) + c.zero_point);
  }
  return y;
}

int value_of(Storage s, uint8_t stored) { return s == Storage::kU8 ? stored : static_cast<int8_t>(stored); }

}  // namespace

TEST_CASE("8-bit layer norm is the formula, bit for bit, in place, unaligned and at every tail") {
  std::mt19937 rng(21);
  for_each_kernel<LayerNormS8Fn>(Family::kLayerNormS8, [&](const Kernel& k, LayerNormS8Fn fn, LayerNormS8Fn) {
    CAPTURE(std::string(k.name));
    const int shift = storage_shift(k.storage);
    for (const uint32_t n : kSizes) {
      for (const int z : {-128, -3, 127}) {
        CAPTURE(n);
        CAPTURE(z);
        const Vectors v = random_vectors(rng, n + 1);
        std::vector<uint8_t> x(kRows * n);
        fill_ints(rng, x.data(), x.size(), 0, 255);
        std::fill_n(x.begin() + n, n, uint8_t{0x80});  // no variance
        if (n > 2) x[2 * n] = 0, x[2 * n + 1] = 0x7f, x[2 * n + 2] = 0xff;
        const int lo = z == -3 ? -90 : -128;
        const LayerNormConstants c{static_cast<float>(n) * static_cast<float>(n) * 0.037f, z + shift, lo + shift, 127 + shift};
        Guarded<uint8_t> y(kRows * n, 1);
        std::copy(x.begin(), x.end(), y.data());
        const Vectors shifted{{v.g.begin() + 1, v.g.end()}, {v.b.begin() + 1, v.b.end()}};
        fn({y.data(), v.g.data() + 1, v.b.data() + 1, y.data(), kRows, n, c});
        REQUIRE(y.intact(1, kRows * n, 0));
        for (uint32_t r = 0; r < kRows; ++r) {
          std::vector<int> row;
          for (uint32_t i = 0; i < n; ++i) row.push_back(value_of(k.storage, x[r * n + i]));
          const std::vector<int> expected = expected_row(row, shifted, c);
          for (uint32_t i = 0; i < n; ++i) REQUIRE(value_of(k.storage, y.data()[r * n + i]) == expected[i]);
        }
      }
    }
  });
}

TEST_CASE("8-bit layer norm of the longest row is exact at both ends of its range") {
  std::mt19937 rng(22);
  const Vectors v = random_vectors(rng, kMaxLayerNorm);
  for_each_kernel<LayerNormS8Fn>(Family::kLayerNormS8, [&](const Kernel& k, LayerNormS8Fn fn, LayerNormS8Fn) {
    CAPTURE(std::string(k.name));
    const int shift = storage_shift(k.storage);
    for (const uint32_t lowest : {0u, 1u, 32768u, 65535u}) {  // so many of the lowest value, the rest of the highest
      std::vector<uint8_t> x(kMaxLayerNorm, k.storage == Storage::kU8 ? 255 : 127), y(kMaxLayerNorm);
      std::fill_n(x.begin(), lowest, static_cast<uint8_t>(k.storage == Storage::kU8 ? 0 : 0x80));
      const LayerNormConstants c{1e6f, 5 + shift, -128 + shift, 127 + shift};
      fn({x.data(), v.g.data(), v.b.data(), y.data(), 1, kMaxLayerNorm, c});
      std::vector<int> row;
      for (const uint8_t q : x) row.push_back(value_of(k.storage, q));
      const std::vector<int> expected = expected_row(row, v, c);
      for (uint32_t i = 0; i < kMaxLayerNorm; ++i) REQUIRE(value_of(k.storage, y[i]) == expected[i]);
    }
  });
}

TEST_CASE("float layer norm agrees with double precision, in place and row by row") {
  std::mt19937 rng(23);
  for_each_kernel<LayerNormF32Fn>(Family::kLayerNormF32, [&](const Kernel& k, LayerNormF32Fn fn, LayerNormF32Fn) {
    CAPTURE(std::string(k.name));
    for (const uint32_t n : kSizes) {
      for (const bool biased : {false, true}) {
        CAPTURE(n);
        std::vector<float> x(kRows * n);
        fill_floats(rng, x.data(), x.size(), 20, 26);
        const Vectors v = random_vectors(rng, n);
        Guarded<float> y(kRows * n, 4);
        std::copy(x.begin(), x.end(), y.data());
        fn({y.data(), v.g.data(), biased ? v.b.data() : nullptr, y.data(), kRows, n, 1e-2f});
        REQUIRE(y.intact(1, kRows * n, 0));
        for (uint32_t r = 0; r < kRows; ++r) {
          double mean = 0, variance = 0;
          for (uint32_t i = 0; i < n; ++i) mean += static_cast<double>(x[r * n + i]) / n;
          for (uint32_t i = 0; i < n; ++i) variance += std::pow(static_cast<double>(x[r * n + i]) - mean, 2) / n;
          for (uint32_t i = 0; i < n; ++i) {
            const double normal = (static_cast<double>(x[r * n + i]) - mean) / std::sqrt(variance + 1e-2);
            const double exact = normal * static_cast<double>(v.g[i]) + (biased ? static_cast<double>(v.b[i]) : 0.0);
            REQUIRE(std::fabs(static_cast<double>(y.data()[r * n + i]) - exact) < 1e-3);
          }
        }
        // A row's result does not depend on the rows beside it.
        std::vector<float> alone(n);
        fn({x.data() + n, v.g.data(), biased ? v.b.data() : nullptr, alone.data(), 1, n, 1e-2f});
        REQUIRE(std::memcmp(alone.data(), y.data() + n, n * sizeof(float)) == 0);
      }
    }
  });
}

}  // namespace lathe::kernels
