#include "lathe/float16.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/eltwise/eltwise.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

// From the definition of the format, in double.
double value_of(uint16_t h) {
  const int exponent = (h >> 10) & 31, fraction = h & 0x3ff;
  const double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (h & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_nan(uint16_t h) { return (h & 0x7fff) > 0x7c00; }

constexpr uint16_t kInfinity = 0x7c00;

}  // namespace

TEST_CASE("every half is the float that the format defines, and comes back from it") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t h = static_cast<uint16_t>(bits);
    const float f = half_to_float(h);
    if (is_nan(h)) {
      REQUIRE(std::isnan(f));
      REQUIRE(float_to_half(f) == (h | 0x200));  // quiet, same payload
    } else if ((h & 0x7fff) == kInfinity) {
      REQUIRE(f == ((h & 0x8000) != 0 ? -INFINITY : INFINITY));
      REQUIRE(float_to_half(f) == h);
    } else {
      REQUIRE(static_cast<double>(f) == value_of(h));
      REQUIRE(std::signbit(f) == ((h & 0x8000) != 0));
      REQUIRE(float_to_half(f) == h);
    }
  }
}

TEST_CASE("narrowing rounds to the nearest half and to the even one of two") {
  for (uint16_t h = 0; h < kInfinity; ++h) {
    const double next = h + 1 == kInfinity ? 65536.0 : value_of(static_cast<uint16_t>(h + 1));
    const float middle = static_cast<float>((value_of(h) + next) / 2);  // exact: 12 bits
    const uint16_t up = static_cast<uint16_t>(h + 1);
    REQUIRE(float_to_half(middle) == (h % 2 == 0 ? h : up));
    REQUIRE(float_to_half(std::nextafterf(middle, 0.0f)) == h);
    REQUIRE(float_to_half(std::nextafterf(middle, INFINITY)) == up);
    REQUIRE(float_to_half(-middle) == (0x8000 | (h % 2 == 0 ? h : up)));
  }
  CHECK(float_to_half(1e30f) == kInfinity);
  CHECK(float_to_half(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(float_to_half(-1e-30f) == 0x8000);
}

TEST_CASE("every kernel that widens halves equals the reference for every half and touches nothing else") {
  std::vector<uint16_t> x(0x10000);
  for (uint32_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint16_t>(i);
  for_each_kernel<WidenF16Fn>(Family::kWidenF16, [&](const Kernel& k, WidenF16Fn fn, WidenF16Fn) {
    CAPTURE(std::string(k.name));
    std::vector<float> y(x.size());
    fn({x.data(), y.data(), static_cast<uint32_t>(x.size())});
    for (uint32_t i = 0; i < x.size(); ++i)
      REQUIRE(std::bit_cast<uint32_t>(y[i]) == std::bit_cast<uint32_t>(half_to_float(x[i])));
    for (const uint32_t n : {0u, 1u, 7u, 8u, 9u, 31u, 67u}) {
      Guarded<float> part(n, 4);
      fn({x.data() + 0x3c01, part.data(), n});
      REQUIRE(part.intact(1, n, n));
      for (uint32_t i = 0; i < n; ++i) REQUIRE(part.data()[i] == half_to_float(x[0x3c01 + i]));
    }
  });
}

TEST_CASE("every kernel that narrows floats equals the reference and touches nothing else") {
  std::mt19937 rng(11);
  std::vector<float> x;
  for (uint32_t i = 0; i < 200000; ++i) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng())));
  for (uint16_t h = 0; h < kInfinity; ++h) {
    const float f = half_to_float(h), half_unit = (half_to_float(static_cast<uint16_t>(h + 1)) - f) / 2;
    x.insert(x.end(), {f, f + half_unit, -std::nextafterf(f + half_unit, 0.0f), std::nextafterf(f + half_unit, INFINITY)});
  }
  for_each_kernel<NarrowF16Fn>(Family::kNarrowF16, [&](const Kernel& k, NarrowF16Fn fn, NarrowF16Fn) {
    CAPTURE(std::string(k.name));
    std::vector<uint16_t> y(x.size());
    fn({x.data(), y.data(), static_cast<uint32_t>(x.size())});
    for (size_t i = 0; i < x.size(); ++i) REQUIRE(y[i] == float_to_half(x[i]));
    for (const uint32_t n : {0u, 1u, 7u, 8u, 9u, 31u, 67u}) {
      Guarded<uint16_t> part(n, 2);
      fn({x.data() + 3, part.data(), n});
      REQUIRE(part.intact(1, n, n));
      for (uint32_t i = 0; i < n; ++i) REQUIRE(part.data()[i] == float_to_half(x[3 + i]));
    }
  });
}

}  // namespace lathe::kernels
