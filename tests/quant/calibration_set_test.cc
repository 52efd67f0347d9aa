// Building a calibration set: what is picked, that order does not matter, and what is left out.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "quant/calibrate.h"
#include "quant/calibration_set.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;

namespace {

constexpr const char* kNet =
    "input %x : f32[N,2]\nconstant %w : f32[2,2] = [1,0.5,-0.25,1]\n%h = FullyConnected (%x, %w)\n%y = Exp (%h)\noutput %y\n";

struct Sample {
  float a, b;
  uint32_t stratum;
};

// 600 samples, of which 6 are of a second stratum and four times as large, and one of the first is the largest of it.
std::vector<Sample> skewed() {
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Sample> out;
  for (int i = 0; i < 600; ++i) {
    const float gain = i % 100 == 7 ? 4.0f : i == 50 ? 2.0f : 1.0f;
    out.push_back({gain * uniform(rng), gain, i % 100 == 7 ? 1u : 0u});
  }
  return out;
}

SamplePool pool_of(const std::vector<Sample>& samples) {
  SamplePool pool;
  pool.source.count = samples.size();
  pool.source.fill = [&samples](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    auto* x = static_cast<float*>(inputs[0]);
    x[0] = samples[i].a;
    x[1] = samples[i].b;
    return {};
  };
  for (const Sample& s : samples) {
    const float values[] = {s.a, s.b};
    pool.contents.push_back(hash128(std::as_bytes(std::span(values))));
    pool.strata.push_back(s.stratum);
  }
  pool.names = {"size=common", "size=rare"};
  return pool;
}

BuiltSet built(const std::vector<Sample>& samples, const BuildOptions& options) {
  const auto set = build_calibration_set(parsed(kNet), pool_of(samples), options);
  REQUIRE_MESSAGE(set, set.error().message);
  return *set;
}

std::vector<float> picked_values(const std::vector<Sample>& samples, const BuiltSet& set) {
  std::vector<float> out;
  for (const uint32_t i : set.picked) out.push_back(samples[i].a);
  return out;
}

}  // namespace

TEST_CASE("a built set holds the whole rare group, the extremes, and covers what a random set misses") {
  const std::vector<Sample> samples = skewed();
  const BuiltSet set = built(samples, {.size = 40});
  REQUIRE(set.picked.size() == 40);
  CHECK(std::set<uint32_t>(set.picked.begin(), set.picked.end()).size() == 40);
  CHECK(std::count_if(set.picked.begin(), set.picked.end(), [&](uint32_t i) { return samples[i].stratum == 1; }) == 6);
  CHECK(std::count(set.picked.begin(), set.picked.end(), 50u) == 1);
  CHECK(set.curve.front().samples == 25);
  CHECK(set.curve.back().samples == 40);
  CHECK(set.curve.back().built == 1.0);
  CHECK(set.curve.back().random < set.curve.back().built);
  // A tenth of the common stratum had no part in it, none of the six rare ones.
  REQUIRE(set.held_out.size() == 59);
  for (const HeldOutSample& h : set.held_out) {
    CHECK(samples[h.sample].stratum == 0);
    CHECK(std::count(set.picked.begin(), set.picked.end(), h.sample) == 0);
    CHECK(h.values == 6);
  }
}

TEST_CASE("a smaller set is the beginning of a larger one, and held-out samples show what it misses") {
  const std::vector<Sample> samples = skewed();
  const BuiltSet small = built(samples, {.size = 3}), large = built(samples, {.size = 30});
  CHECK(std::equal(small.picked.begin(), small.picked.end(), large.picked.begin()));
  uint64_t beyond = 0;
  for (const HeldOutSample& h : small.held_out) beyond += h.beyond;
  CHECK(beyond > 0);
}

TEST_CASE("the largest of a stratum is in the set or was held out before") {
  const std::vector<Sample> samples = skewed();
  // Of the seeds some hold the largest common sample out.
  int held = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const BuiltSet set = built(samples, {.size = 40, .seed = seed});
    for (const HeldOutSample& h : set.held_out) held += h.sample == 50;
    CHECK((std::count(set.picked.begin(), set.picked.end(), 50u) == 1) !=
          std::any_of(set.held_out.begin(), set.held_out.end(), [](const HeldOutSample& h) { return h.sample == 50; }));
  }
  CHECK(held > 0);
}

TEST_CASE("a built set depends on contents and seed, not on the order of the pool or on threads") {
  std::vector<Sample> samples = skewed();
  SessionOptions threads;
  threads.threads = 2;
  const BuiltSet first = built(samples, {.size = 40});
  const std::vector<float> values = picked_values(samples, first);
  CHECK(built(samples, {.size = 40, .session = threads}).picked == first.picked);
  CHECK(built(samples, {.size = 40, .seed = 1}).picked != first.picked);
  std::shuffle(samples.begin(), samples.end(), std::mt19937(3));
  CHECK(picked_values(samples, built(samples, {.size = 40})) == values);
}

TEST_CASE("samples that overflow inside the network are refused by the tensor") {
  std::vector<Sample> samples = skewed();
  samples[20].b = 1000;  // exp overflows
  const BuiltSet set = built(samples, {.size = 600});
  REQUIRE(set.refused.size() == 1);
  CHECK(set.refused[0].sample == 20);
  CHECK(set.refused[0].tensor == "y");
  CHECK(set.picked.size() == 599);
  CHECK(set.held_out.empty());
}

TEST_CASE("more strata than samples, and an empty pool, are errors") {
  const std::vector<Sample> samples = skewed();
  CHECK(build_calibration_set(parsed(kNet), pool_of(samples), {.size = 1}).error().message.find("2 strata for a set of 1") == 0);
  CHECK_FALSE(build_calibration_set(parsed(kNet), pool_of({}), {}));
}

TEST_CASE("calibration names a sample that holds NaN or overflows, or skips and counts it") {
  std::vector<Sample> samples = skewed();
  samples[3].a = NAN;
  samples[8].b = 1000;
  const SamplePool pool = pool_of(samples);
  const auto failed = calibrate(parsed(kNet), pool.source, {});
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message == "calibration sample 3: tensor 'x' holds NaN or infinity");
  const auto skipped = calibrate(parsed(kNet), pool.source, {.observer = {.kind = ObserverKind::kAuto}, .skip_non_finite = true});
  REQUIRE_MESSAGE(skipped, skipped.error().message);
  CHECK(skipped->samples == 598);
  REQUIRE(skipped->skipped.size() == 2);
  CHECK(skipped->skipped[0].index == 3);
  CHECK(skipped->skipped[1].index == 8);
  CHECK(skipped->skipped[1].tensor == "y");
  CHECK(skipped->tensors.at("x").range().max == 4.0);  // nothing of the skipped ones was observed
  const std::vector<Sample> bad{{NAN, 0, 0}};
  CHECK_FALSE(calibrate(parsed(kNet), pool_of(bad).source, {.skip_non_finite = true}));
}
