// Beyond plain quantization: bias correction, adaptive rounding, smoothing, weight scales of least error. What each gains, what it leaves
// alone, and that it leaves the float network as it was where it says so.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "graph/pass.h"
#include "quant/adaround.h"
#include "quant/bias_correction.h"
#include "quant/grid.h"
#include "quant/layer_noise.h"
#include "quant/layers.h"
#include "quant/ptq.h"
#include "quant/smooth.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;
using lathe::test::random_f32;
using lathe::test::run_graph;

namespace {

SampleSource samples(size_t elems, uint64_t count = 32, float low = -1, float high = 1) {
  SampleSource source;
  source.count = count;
  source.fill = [=](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    auto state = static_cast<uint32_t>(i * 7919 + 1);
    for (size_t k = 0; k < elems; ++k) {
      state = state * 1664525 + 1013904223;
      static_cast<float*>(inputs[0])[k] = low + (high - low) * static_cast<float>(state >> 8) / (1 << 24);
    }
    return {};
  };
  return source;
}

Graph lowered(const std::string& body) {
  Graph g = parsed(body);
  const auto done = run_passes(g, lowering_passes());
  REQUIRE_MESSAGE(done, done.error().message);
  return g;
}

Graph int8_of(const Graph& g, const SampleSource& source, bool per_channel = false) {
  const auto c = calibrate(g, source, {});
  REQUIRE_MESSAGE(c, c.error().message);
  auto q = quantize_graph(g, ranges_of(*c), {.per_channel = per_channel});
  REQUIRE_MESSAGE(q, q.error().message);
  return std::move(q->graph);
}

double db(const Graph& g, const Graph& q, const SampleSource& source) {
  const auto sqnr = output_sqnr(g, q, source, {});
  REQUIRE_MESSAGE(sqnr, sqnr.error().message);
  return *sqnr;
}

// Largest difference of an output channel's mean over all samples.
double mean_shift(const Graph& g, const Graph& q, const SampleSource& source, size_t channels) {
  std::vector<double> sum(channels, 0);
  auto a = SampleRunner::create(g, {}), b = SampleRunner::create(q, {});
  REQUIRE(a);
  REQUIRE(b);
  size_t count = 0;
  for (uint64_t i = 0; i < source.count; ++i) {
    REQUIRE(a->run(source, i, [](uint32_t, std::span<float>) {}));
    REQUIRE(b->run(source, i, [](uint32_t, std::span<float>) {}));
    const auto x = a->outputs()[0], y = b->outputs()[0];
    for (size_t k = 0; k < x.size(); ++k) sum[k % channels] += static_cast<double>(y[k]) - static_cast<double>(x[k]);
    count += x.size() / channels;
  }
  double most = 0;
  for (const double s : sum) most = std::max(most, std::fabs(s) / static_cast<double>(count));
  return most;
}

// A wide-ranging depthwise layer between two pointwise ones, all with one scale: small channels lose most of their weights.
const std::string kNarrow = [] {
  std::string depthwise = "constant %w1 : f32[8,3,3,1] = [";
  for (int c = 0; c < 8; ++c)
    for (int i = 0; i < 9; ++i)
      depthwise += (c + i == 0 ? "" : ",") + std::to_string((0.3 + ((c * 7 + i * 5) % 11) / 11.0) * std::pow(2.0, -c));
  return "input %x : f32[N,5,5,4]\n" + random_f32("w0", {8, 1, 1, 4}, 1, 0.0f, 1.0f) + random_f32("b0", {8}, 3) + depthwise + "]\n" +
         random_f32("w2", {6, 1, 1, 8}, 6) + "%a = Conv2d \"a\" (%x, %w0, %b0) {lo=0}\n" +
         "%b = Conv2d \"b\" (%a, %w1) {groups=8, pad=[1,1,1,1], lo=0}\n%c = Conv2d \"c\" (%b, %w2)\noutput %c\n";
}();

}  // namespace

TEST_CASE("a layer's windows are what a convolution sums over, borders and groups included") {
  const Graph g = parsed("input %x : f32[1,3,3,2]\n" + random_f32("w", {2, 2, 2, 1}, 1) +
                         "%y = Conv2d (%x, %w) {groups=2, pad=[1,0,0,1], stride=[2,1]}\noutput %y\n");
  const auto layer = weighted_layer(g, g.order()[0]);
  REQUIRE(layer);
  CHECK(layer->row() == 4);
  const Patches patches(*layer, Shape{{1, 3, 3, 2}, 4});
  REQUIRE(patches.positions() == 2 * 3);
  std::vector<float> x(18), window(4);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  patches.copy(x, 0, 1, window.data());
  CHECK(window == std::vector<float>{0, 0, 2, 4});  // the row above is padding
  patches.copy(x, 5, 0, window.data());
  CHECK(window == std::vector<float>{11, 0, 17, 0});  // the column to the right is padding
}

TEST_CASE("bias correction takes the shift of the mean back, layer by layer") {
  const Graph g = lowered(kNarrow);
  const SampleSource source = samples(100);
  Graph q = int8_of(g, source);
  const double before = mean_shift(g, q, source, 6);
  const auto corrected = correct_biases(g, q, source, {});
  REQUIRE_MESSAGE(corrected, corrected.error().message);
  CHECK(corrected->layers.size() == 3);
  CHECK(corrected->skipped.empty());
  REQUIRE(verify(q));
  CHECK(mean_shift(g, q, source, 6) < before / 3);
  // A second round finds next to nothing.
  const auto again = correct_biases(g, q, source, {});
  REQUIRE(again);
  for (const CorrectedLayer& layer : again->layers) CHECK(layer.shift < 1);
}

TEST_CASE("batch norms say the mean of a layer's input, clipped by its activation") {
  const std::string norm = "constant %g : f32[2] = [1,2]\nconstant %h : f32[2] = [0,1]\nconstant %m : f32[2] = [0,0]\nconstant %v : f32[2] = [1,1]\n";
  const Graph g = lowered("input %x : f32[N,1,1,2]\nconstant %w : f32[2,1,1,2] = [1,0,0,1]\nconstant %u : f32[1,1,1,2] = [1,0.0066]\n" + norm +
                          "%c = Conv2d \"first\" (%x, %w)\n%n = BatchNorm (%c, %g, %h, %m, %v) {axis=3, epsilon=0}\n%r = Clamp (%n) {lo=0}\n"
                          "%y = Conv2d \"second\" (%r, %u)\noutput %y\n");
  REQUIRE(g.node(g.order()[0]).moments != nullptr);
  CHECK(g.node(g.order()[0]).moments->mean == std::vector<float>{0, 1});
  CHECK(g.node(g.order()[0]).moments->deviation == std::vector<float>{1, 2});
  Graph q = int8_of(g, samples(2, 16, -3, 3));
  const auto corrected = correct_biases_from_moments(g, q);
  REQUIRE_MESSAGE(corrected, corrected.error().message);
  REQUIRE(corrected->layers.size() == 1);
  CHECK(corrected->layers[0].node == "second");
  REQUIRE(corrected->skipped.size() == 1);
  CHECK(corrected->skipped[0] == "first: no batch norm says the mean of its input");
  // The small weight is 0.8382 steps of 1/127 and becomes one step: the bias takes back (1 - 0.8382) / 127 times the mean of a normal
  // variable of mean 1 and deviation 2 clipped at 0, which is 1.3955.
  const Node& second = q.node(weighted_layers(q).back().node);
  const double step = static_cast<double>(q.value(second.inputs[0]).quant->scales[0]) * static_cast<double>(q.value(second.inputs[1]).quant->scales[0]);
  CHECK(q.value(second.inputs[2]).constant.as<int32_t>()[0] * step == doctest::Approx(-(1 - 0.8382) / 127 * 1.3955).epsilon(0.1));
}

TEST_CASE("adaptive rounding comes nearer to float than the nearest steps, and is the same every time") {
  const Graph g = lowered(kNarrow);
  const SampleSource source = samples(100);
  const Graph plain = int8_of(g, source);
  Graph q = plain, twin = plain;
  const auto rounded = round_adaptively(g, q, source, {}, {.iterations = 300, .rows = 256});
  REQUIRE_MESSAGE(rounded, rounded.error().message);
  REQUIRE(rounded->size() == 3);
  for (const RoundedLayer& layer : *rounded) CHECK(layer.error_after <= layer.error_before);
  CHECK((*rounded)[1].changed > 0);
  CHECK((*rounded)[1].error_after < 0.85 * (*rounded)[1].error_before);
  REQUIRE(verify(q));
  CHECK(db(g, q, source) > db(g, plain, source));
  // Every weight is one of the two steps around the float one.
  for (const LayerPair& pair : layer_pairs(g, q)) {
    const Value& w = q.value(q.node(pair.integer.node).inputs[pair.integer.weight]);
    const auto real = g.value(g.node(pair.real.node).inputs[pair.real.weight]).constant.as<float>();
    for (size_t i = 0; i < real.size(); ++i)
      CHECK(std::fabs(static_cast<float>(w.constant.as<int8_t>()[i]) - real[i] / w.quant->scales[0]) < 1.001f);
  }
  REQUIRE(round_adaptively(g, twin, source, {}, {.iterations = 300, .rows = 256}));
  CHECK(db(q, twin, source) == INFINITY);
}

TEST_CASE("a norm hands the size of its channels to the layers behind, and float stays the same to the bit") {
  std::string scale = "constant %s : f32[8] = [";
  for (int c = 0; c < 8; ++c) scale += (c == 0 ? "" : ",") + std::string(c == 3 ? "300" : "1");
  const std::string body = "input %x : f32[N,5,8]\n" + scale + "]\n" + random_f32("b", {8}, 2) + random_f32("q", {8, 8}, 3) +
                           random_f32("k", {8, 8}, 4) + "%n = LayerNorm \"norm\" (%x, %s, %b) {axis=2}\n";
  const std::string outputs = "%y = FullyConnected \"q\" (%n, %q)\n%z = FullyConnected \"k\" (%n, %k)\noutput %y\noutput %z\n";
  const Graph g = lowered(body + outputs);
  const SampleSource source = samples(40);
  Graph smoothed = g;
  const auto result = smooth(smoothed, source, {});
  REQUIRE_MESSAGE(result, result.error().message);
  REQUIRE(result->norms.size() == 1);
  CHECK(result->norms[0].readers == 2);
  CHECK(result->norms[0].spread_after < result->norms[0].spread_before / 4);
  REQUIRE(verify(smoothed));
  CHECK(run_graph(g) == run_graph(smoothed));
  CHECK(db(g, int8_of(smoothed, source, true), source) > db(g, int8_of(g, source, true), source));

  Graph residual = lowered(body + "%y = FullyConnected \"q\" (%n, %q)\n%r = Add \"add\" (%y, %n)\n%e = Exp (%r)\noutput %e\n");
  const auto refused = smooth(residual, source, {});
  REQUIRE(refused);
  CHECK(refused->norms.empty());
  REQUIRE(refused->skipped.size() == 1);
  CHECK(refused->skipped[0].find("norm: '") == 0);
}

TEST_CASE("weight scales of least error clip what is rare and large, and nothing else") {
  // Of 100,000 values within half of one that stands alone, each gains more than that one loses.
  std::vector<float> row(100000);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i * 7919 % 10007) / 10007 - 0.5f;
  row[7] = 1;
  const auto error = [&](const QuantizedWeights& q) {
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += std::pow(static_cast<double>(row[i]) - q.values[i] * static_cast<double>(q.scales[0]), 2);
    return sum;
  };
  const auto plain = quantize_weights(row, {}, 1, {}), best = quantize_weights(row, {}, 1, {.least_error = true});
  REQUIRE(plain);
  REQUIRE(best);
  CHECK(error(*best) < error(*plain));
  CHECK(best->scales[0] < plain->scales[0]);
  const std::vector<float> two{1, -1};
  CHECK(quantize_weights(two, {}, 1, {.least_error = true})->scales == quantize_weights(two, {}, 1, {})->scales);
}
