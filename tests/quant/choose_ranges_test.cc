// Observer auto: which range it takes for a tensor depends on what the network makes of it.
#include <doctest/doctest.h>

#include <cstring>
#include <random>

#include "data/metrics.h"
#include "quant/calibrate.h"
#include "quant/ptq.h"
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

namespace {

// A classifier of ten noisy prototypes whose hidden layer has a detector beside its own units: nobody reads it, and it fires in one
// sample of 40, about 0.1 % of the layer's values, a thousand times as far as the others go.
struct PlantedNet {
  static constexpr size_t kIn = 16, kHidden = 23, kClasses = 10;
  std::string text;
  std::vector<std::vector<float>> samples;
  std::vector<uint32_t> labels;

  PlantedNet() {
    std::mt19937 rng(11);
    std::normal_distribution<float> normal;
    std::vector<std::vector<float>> prototypes(kClasses, std::vector<float>(kIn));
    for (auto& p : prototypes)
      for (float& v : p) v = normal(rng);
    // Hidden units project at random and keep both signs; the read-out is each prototype's own hidden image.
    std::vector<std::vector<float>> project(kHidden, std::vector<float>(kIn + 1));
    for (auto& row : project)
      for (size_t i = 0; i < kIn; ++i) row[i] = normal(rng);
    std::string w1, w2, b2;
    for (const auto& row : project)
      for (const float v : row) w1 += std::to_string(v) + ",";
    for (size_t i = 0; i < kIn; ++i) w1 += "0,";
    w1 += "10000";  // the detector reads the last input alone
    for (const auto& p : prototypes) {
      float norm = 0;
      for (const auto& row : project) {
        float h = 0;
        for (size_t i = 0; i < kIn; ++i) h += row[i] * p[i];
        w2 += std::to_string(h / 100) + ",";
        norm += h * h / 200;
      }
      w2 += "0,";
      b2 += std::to_string(-norm) + ",";
    }
    w2.pop_back();
    b2.pop_back();
    text = "input %x : f32[N,17]\nconstant %w : f32[24,17] = [" + w1 + "]\n%h = FullyConnected (%x, %w)\nconstant %v : f32[10,24] = [" + w2 +
           "]\nconstant %b : f32[10] = [" + b2 + "]\n%y = FullyConnected (%h, %v, %b)\noutput %y\n";
    for (size_t i = 0; i < 2000; ++i) {
      labels.push_back(static_cast<uint32_t>(i % kClasses));
      samples.emplace_back();
      for (const float v : prototypes[labels.back()]) samples.back().push_back(v + 0.9f * normal(rng));
      samples.back().push_back(i % 40 == 0 ? 1.0f : 0.0f);
    }
  }

  SampleSource source(size_t first, size_t count) const {
    SampleSource s;
    s.count = count;
    s.fill = [this, first](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
      std::memcpy(inputs[0], samples[first + i].data(), samples[0].size() * sizeof(float));
      return {};
    };
    return s;
  }

  // Percent of the samples from `first` on.
  double accuracy(const Graph& g, size_t first) const {
    const SampleSource s = source(first, samples.size() - first);
    auto runner = SampleRunner::create(g, {});
    REQUIRE_MESSAGE(runner, runner.error().message);
    size_t hits = 0;
    for (uint64_t i = 0; i < s.count; ++i) {
      REQUIRE(runner->run(s, i, [](uint32_t, std::span<float>) {}));
      hits += argmax(runner->outputs()[0]) == labels[first + i];
    }
    return 100.0 * static_cast<double>(hits) / static_cast<double>(s.count);
  }
};

}  // namespace

TEST_CASE("planted outliers, 0.1 % of an activation, cost minmax over 3 points and auto at most 0.5") {
  const PlantedNet net;
  constexpr size_t kCalibration = 400;
  const Graph g = parsed(net.text);
  const double reference = net.accuracy(g, kCalibration);
  CHECK(reference > 85);
  const auto drop = [&](ObserverKind kind) {
    const auto c = calibrate(g, net.source(0, kCalibration), {.observer = {.kind = kind}});
    REQUIRE_MESSAGE(c, c.error().message);
    const auto q = quantize_graph(g, ranges_of(*c), {});
    REQUIRE_MESSAGE(q, q.error().message);
    return reference - net.accuracy(q->graph, kCalibration);
  };
  const double minmax = drop(ObserverKind::kMinMax), chosen = drop(ObserverKind::kAuto);
  MESSAGE("float " << reference << " %, minmax loses " << minmax << " points, auto " << chosen);
  CHECK(minmax >= 3);
  CHECK(chosen <= 0.5);
}
