// Layers one by one: which of two is hurt by INT8, and that leaving one float changes that one alone.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "quant/half.h"
#include "quant/layer_noise.h"
#include "quant/sensitivity.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;
using lathe::test::random_f32;

namespace {

// Three products; the weights of the middle one have a row that makes one result a thousand times as large as all others.
Graph three_products() {
  std::string middle = "constant %w1 : f32[8,8] = [";
  for (int i = 0; i < 64; ++i) middle += (i == 0 ? "" : ",") + std::string(i < 8 ? "1000" : i % 9 == 0 ? "1" : "0");
  return parsed("input %x : f32[N,8]\n" + random_f32("w0", {8, 8}, 1) + middle + "]\n" + random_f32("w2", {8, 8}, 2) +
                "%a = FullyConnected \"first\" (%x, %w0)\n%b = FullyConnected \"middle\" (%a, %w1)\n"
                "%c = FullyConnected \"last\" (%b, %w2)\noutput %c\n");
}

SampleSource samples() {
  SampleSource source;
  source.count = 8;
  source.fill = [](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    float x[8];
    for (size_t k = 0; k < 8; ++k) x[k] = static_cast<float>((i * 31 + k * 17) % 23) / 23.0f - 0.4f;
    std::memcpy(inputs[0], x, sizeof x);
    return {};
  };
  return source;
}

RangeTable ranges(const Graph& g) {
  const auto c = calibrate(g, samples(), {});
  REQUIRE_MESSAGE(c, c.error().message);
  return ranges_of(*c);
}

}  // namespace

TEST_CASE("layers are named in order, with the first and the classifier") {
  const auto layers = int8_layers(three_products(), {});
  REQUIRE(layers);
  REQUIRE(layers->size() == 3);
  CHECK((*layers)[0].part == LayerPart::kFirst);
  CHECK((*layers)[1].part == LayerPart::kInner);
  CHECK((*layers)[2].part == LayerPart::kClassifier);
  CHECK((*layers)[1].name == "middle");
  CHECK((*layers)[1].macs_share == doctest::Approx(1.0 / 3));
  CHECK(std::string(part_name((*layers)[2].part)) == "classifier");
}

TEST_CASE("one layer alone in INT8, or all but one") {
  const Graph g = three_products();
  const auto layers = int8_layers(g, {});
  REQUIRE(layers);
  for (const Isolation isolation : {Isolation::kAlone, Isolation::kWithout}) {
    const auto result = quantize_isolated(g, ranges(g), {}, *layers, 1, isolation);
    REQUIRE_MESSAGE(result, result.error().message);
    for (const QuantizeRow& row : result->rows) CHECK(row.int8 == ((row.node == "middle") == (isolation == Isolation::kAlone)));
  }
}

TEST_CASE("the layer that INT8 hurts has the lowest SQNR, at its own result and at the outputs") {
  const Graph g = three_products();
  const auto layers = int8_layers(g, {});
  REQUIRE(layers);
  auto reference = SampleRunner::create(g, {});
  REQUIRE_MESSAGE(reference, reference.error().message);
  std::vector<LayerError> errors;
  for (size_t i = 0; i < 3; ++i) {
    const auto alone = quantize_isolated(g, ranges(g), {}, *layers, i, Isolation::kAlone);
    REQUIRE_MESSAGE(alone, alone.error().message);
    const auto e = layer_error(g, *reference, alone->graph, (*layers)[i], samples(), {});
    REQUIRE_MESSAGE(e, e.error().message);
    errors.push_back(*e);
    CHECK(e->local_db > 15);
    CHECK(e->kl >= 0);
  }
  CHECK(errors[0].local_db > 35);
  const auto exact = layer_error(g, *reference, g, (*layers)[0], samples(), {});
  REQUIRE(exact);
  CHECK(std::isinf(exact->local_db));
  CHECK(std::isinf(exact->propagated_db));
  CHECK(exact->kl == 0);
}

TEST_CASE("the noise of every layer's result is seen in 8-bit and half precision, and is none between equal graphs") {
  const Graph g = three_products();
  const auto same = layer_noise(g, g, samples(), {});
  REQUIRE(same);
  REQUIRE(same->size() == 3);
  for (const LayerNoise& n : *same) CHECK(std::isinf(n.sqnr_db));
  const auto int8 = quantize_graph(g, ranges(g), {});
  REQUIRE(int8);
  const auto noise = layer_noise(g, int8->graph, samples(), {});
  REQUIRE(noise);
  std::vector<std::string> names;
  for (const LayerNoise& n : *noise) {
    names.push_back(n.node);
    CAPTURE(n.node);
    CHECK(n.sqnr_db > 20);
    CHECK(n.sqnr_db < 70);
  }
  // The input on its grid counts, too. The last layer's 8-bit result and what its Dequantize makes of it are both there, and are the same values.
  std::string all;
  for (const std::string& n : names) all += n + " ";
  CHECK(all == "x:s8:quantize first middle last c:dequantize ");
  CHECK((*noise)[3].sqnr_db == doctest::Approx((*noise)[4].sqnr_db));
  const auto half = half_graph(g, {});
  REQUIRE(half);
  const auto rounded = layer_noise(g, half->graph, samples(), {});
  REQUIRE(rounded);
  REQUIRE(rounded->size() >= 3);
  for (const LayerNoise& n : *rounded) CHECK(n.sqnr_db > 50);
}
