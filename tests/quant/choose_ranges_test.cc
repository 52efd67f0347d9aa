// Observer auto: which range it takes for a tensor depends on what the network makes of it.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "quant/calibrate.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;

namespace {

constexpr size_t kWidth = 8;

// Samples of 8 values around 0; the last one is 20 times as large in one of 20 samples.
SampleSource rare_outlier(std::vector<std::vector<float>>* samples) {
  std::mt19937 rng(7);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < 400; ++i) {
    samples->emplace_back();
    for (size_t k = 0; k < kWidth; ++k) samples->back().push_back(normal(rng));
    if (i % 20 == 0) samples->back().back() *= 20;
  }
  SampleSource source;
  source.count = samples->size();
  source.fill = [samples](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    std::memcpy(inputs[0], (*samples)[i].data(), kWidth * sizeof(float));
    return {};
  };
  return source;
}

// y = W x, where W weighs the last column by `last`.
Calibration calibrated(const std::string& last, ObserverKind kind) {
  const Graph g = parsed("input %x : f32[N,8]\nconstant %w : f32[2,8] = [1,1,1,1,1,1,1," + last + ",1,-1,1,-1,1,-1,1," + last +
                         "]\n%y = FullyConnected \"fc\" (%x, %w)\noutput %y\n");
  std::vector<std::vector<float>> samples;
  const SampleSource source = rare_outlier(&samples);
  auto c = calibrate(g, source, {.observer = {.kind = kind, .percentile = 99.0}});
  REQUIRE_MESSAGE(c, c.error().message);
  return std::move(*c);
}

}  // namespace

TEST_CASE("outliers that nobody reads are cut, and those that the result is made of are kept") {
  const Calibration ignored = calibrated("0", ObserverKind::kAuto), wanted = calibrated("1", ObserverKind::kAuto);
  const Range cut = ignored.tensors.at("x").range(), kept = wanted.tensors.at("x").range();
  CHECK(cut.max - cut.min < 25);
  CHECK(kept.max - kept.min > 50);
  // Both tensors held the same values, so whatever looks at the tensor alone takes one range for both.
  CHECK(calibrated("0", ObserverKind::kMse).tensors.at("x").range().max ==
        calibrated("1", ObserverKind::kMse).tensors.at("x").range().max);
}

TEST_CASE("what auto chooses is one of the other observers' ranges, and it says whose") {
  const Calibration automatic = calibrated("0", ObserverKind::kAuto);
  const Observer& chosen = automatic.tensors.at("x");
  CHECK(chosen.kind() != ObserverKind::kAuto);
  const Calibration single = calibrated("0", chosen.kind());
  const Range same = single.tensors.at("x").range(), r = chosen.range();
  CHECK(r.min == same.min);
  CHECK(r.max == same.max);
}
