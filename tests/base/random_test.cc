#include "base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace lathe {
namespace {

struct Moments {
  double mean = 0, variance = 0;
};

template <class Draw>
Moments moments(const Draw& draw) {
  constexpr int kDraws = 40000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double v = draw();
    sum += v;
    squares += v * v;
  }
  return {sum / kDraws, squares / kDraws - (sum / kDraws) * (sum / kDraws)};
}

TEST_CASE("the generator gives SplitMix64's published values") {
  Random random(1234567);
  for (const uint64_t expected : {6457827717110365317u, 3203168211198807973u, 9817491932198370423u, 4593380528125082431u})
    CHECK(random.next() == expected);
}

TEST_CASE("every list of words has a stream of its own") {
  std::set<uint64_t> first;
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (uint64_t a = 0; a < 8; ++a)
      for (uint64_t b = 0; b < 8; ++b) first.insert(Random(seed, {a, b}).next());
  CHECK(first.size() == 512);
  CHECK(Random(1, {2, 3}).next() == Random(1, {2, 3}).next());
  CHECK(Random(1, {2}).next() != Random(1, {2, 0}).next());
}

TEST_CASE("distributions have their means and variances") {
  Random random(7);
  const Moments uniform = moments([&] { return random.uniform(); });
  CHECK(uniform.mean == doctest::Approx(0.5).epsilon(0.01));
  CHECK(uniform.variance == doctest::Approx(1.0 / 12).epsilon(0.02));
  const Moments normal = moments([&] { return random.normal(); });
  CHECK(std::abs(normal.mean) < 0.02);
  CHECK(normal.variance == doctest::Approx(1).epsilon(0.03));
  for (const double a : {0.2, 1.0, 3.5}) {
    const Moments gamma = moments([&] { return random.gamma(a); });
    CHECK(gamma.mean == doctest::Approx(a).epsilon(0.04));
    CHECK(gamma.variance == doctest::Approx(a).epsilon(0.08));
    const Moments beta = moments([&] { return random.beta(a, a); });
    CHECK(beta.mean == doctest::Approx(0.5).epsilon(0.02));
    CHECK(beta.variance == doctest::Approx(1 / (4 * (2 * a + 1))).epsilon(0.04));
  }
  for (int i = 0; i < 1000; ++i) {
    const double tiny = random.beta(1e-3, 1e-3);
    CHECK((tiny >= 0 && tiny <= 1));
  }
}

TEST_CASE("a permutation holds everything once and no order twice as often as others") {
  std::vector<int> counts(6);
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    const auto p = permutation(3, Random(seed));
    REQUIRE(p.size() == 3);
    std::vector<uint32_t> sorted = p;
    std::sort(sorted.begin(), sorted.end());
    REQUIRE(sorted == std::vector<uint32_t>{0, 1, 2});
    ++counts[p[0] * 2 + (p[1] > p[2] ? 1 : 0)];
  }
  for (const int c : counts) CHECK(std::abs(c - 1000) < 150);
  CHECK(permutation(0, Random(1)).empty());
}

}  // namespace
}  // namespace lathe
