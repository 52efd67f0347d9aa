#include "quant/mixed.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "graph/pass.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr Precision kI = Precision::kInt8, kH = Precision::kHalf, kF = Precision::kFloat;

// The network of a known failure: a stem of 3 channels, convolutions of 16, neighbours that stay float.
Graph network() {
  return parsed("input %x : f32[1,12,12,3]\n" + random_f32("w0", {16, 3, 3, 3}, 1) + random_f32("w1", {16, 3, 3, 16}, 2) +
                random_f32("w2", {16, 3, 3, 16}, 3) + random_f32("w3", {8, 16}, 4) +
                "%s = Conv2d (%x, %w0) {pad=[1,1,1,1], lo=0}\n"
                "%a = Conv2d (%s, %w1) {pad=[1,1,1,1], lo=0}\n"
                "%b = Conv2d (%a, %w2) {pad=[1,1,1,1], lo=0}\n"
                "%m = Mean (%b) {axes=[1,2], keep_dims=0}\n"
                "%y = FullyConnected (%m, %w3)\noutput %y\n");
}

// A table as a device might give it: INT8, FP16, FP32 of the five nodes, and one price for every conversion.
MixedCosts table(const Graph& g, std::vector<PrecisionCosts> nodes, double border) {
  return {std::move(nodes), std::vector<BorderCosts>(g.value_count(), {border, border, border, border})};
}

}  // namespace

TEST_CASE("a stem of 3 channels, convolutions of 16 channels and float neighbours stay float where float is faster") {
  const Graph g = network();
  // INT8 saves 1 us in each convolution, loses in the stem, and its two conversions cost 3 us each.
  const MixedCosts slow = table(g, {{9, 8, 5}, {4, 6, 5}, {4, 6, 5}, {kImpossible, 2, 1}, {3, 2, 1}}, 3);
  CHECK(fastest_assignment(g, slow) == Assignment{kF, kF, kF, kF, kF});
  // Where conversions cost nearly nothing, the convolutions pay, and the stem still does not.
  const MixedCosts cheap = table(g, {{9, 8, 5}, {4, 6, 5}, {4, 6, 5}, {kImpossible, 2, 1}, {3, 2, 1}}, 0.5);
  CHECK(fastest_assignment(g, cheap) == Assignment{kF, kI, kI, kF, kF});
  CHECK(predicted_us(g, cheap, fastest_assignment(g, cheap)) == doctest::Approx(5 + 4 + 4 + 1 + 1 + 0.5 + 0.5));
}

TEST_CASE("a lone node in another precision goes unless it earns its borders") {
  const Graph g = network();
  std::vector<PrecisionCosts> nodes(5, {1, 3, 4});
  nodes[1] = {2.0, 1.0, 4};  // FP16 is 1 us faster here, between INT8 neighbours
  CHECK(fastest_assignment(g, table(g, nodes, 0.3)) == Assignment(5, kI));
  CHECK(fastest_assignment(g, table(g, nodes, 0.2)) == Assignment{kI, kH, kI, kI, kI});
}

TEST_CASE("the prediction counts one conversion per value and precision that is asked for") {
  const Graph g = parsed("input %x : f32[4,8]\n%a = Sigmoid (%x)\n%b = Exp (%a)\n%c = Tanh (%a)\n%d = Sqrt (%a)\n"
                         "output %b\noutput %c\noutput %d\n");
  MixedCosts costs = table(g, std::vector<PrecisionCosts>(4, {0, 0, 0}), 0);
  for (BorderCosts& b : costs.borders) b = {1, 10, 100, 1000};
  CHECK(predicted_us(g, costs, {kF, kF, kF, kF}) == 0);
  CHECK(predicted_us(g, costs, {kI, kI, kI, kI}) == 1 + 3 * 10);
  CHECK(predicted_us(g, costs, {kH, kH, kH, kH}) == 100 + 3 * 1000);
  // a is quantized; b takes it as it is, c and d need float and half: one dequantize, one narrowing.
  CHECK(predicted_us(g, costs, {kI, kI, kF, kH}) == 1 + 10 + 100 + 10 + 1000);
  CHECK(predicted_us(g, costs, {kH, kI, kI, kF}) == 100 + 1000 + 1 + 10 + 10);
}

TEST_CASE("what only moves data goes with the result that it moves") {
  const Graph g = parsed("input %x : f32[2,3,4]\n%a = Sigmoid (%x)\n%t = Transpose (%a) {perm=[0,2,1]}\n%b = Exp (%t)\n"
                         "output %b\n");
  MixedCosts costs = table(g, {{1, 5, 5}, {1, 0, 0}, {5, 5, 1}}, 0);
  CHECK(fastest_assignment(g, costs) == Assignment{kI, kI, kF});
  costs.nodes[1][0] = kImpossible;
  CHECK(fastest_assignment(g, costs) == Assignment{kF, kF, kF});
}

TEST_CASE("a network of three precisions computes what the float one does, and says what each node became") {
  const Graph g = network();
  RangeTable ranges{{"x", {-1, 1}}};
  ranges["s"] = {0, 10};
  ranges["a"] = {0, 60};
  const auto r = mixed_graph(g, ranges, {}, {kF, kI, kH, kF, kH});
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(r->actual == Assignment{kF, kI, kH, kF, kH});
  const auto dtype = [&](const char* v) { return r->graph.value(r->graph.find_value(v)).type.dtype; };
  CHECK(dtype("s") == DType::kF32);
  CHECK(dtype("a") == DType::kS8);
  CHECK(dtype("b") == DType::kF16);
  CHECK(dtype("y") == DType::kF32);
  const double difference = relative_difference(run_graph(r->graph), run_graph(g));
  CHECK(difference < 0.1);
  CHECK(difference > 1e-5);
  CHECK(r->not_int8[0] == "kept float on request");

  const auto all_float = mixed_graph(g, {}, {}, Assignment(5, kF));
  REQUIRE_MESSAGE(all_float, all_float.error().message);
  CHECK(relative_difference(run_graph(all_float->graph), run_graph(g)) == 0);
}
