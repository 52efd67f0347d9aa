// Cross-layer equalization: what it may touch, that the float network stays the same to the bit, and what per-tensor INT8 gains.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "quant/calibrate.h"
#include "quant/equalize.h"
#include "quant/ptq.h"
#include "quant/sensitivity.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;
using lathe::test::random_f32;
using lathe::test::run_graph;

namespace {

// Weights of 8 output channels that differ by up to 2^10; with sign -1 those that undo it in the layer behind.
std::string uneven(const std::string& name, const std::string& dims, int row, int sign) {
  std::string text = "constant %" + name + " : f32[" + dims + "] = [";
  for (int o = 0; o < 8; ++o)
    for (int i = 0; i < row; ++i) {
      const double v = std::ldexp(0.1 + ((o * 7 + i * 5) % 11) / 11.0, sign * ((o * 5) % 11 - 5)) * (i % 2 == 0 ? 1 : -1);
      text += (o + i == 0 ? "" : ",") + std::to_string(v);
    }
  return text + "]\n";
}

// conv, ReLU, depthwise, ReLU, conv; with `hi` as the first activation's bound.
std::string chain(const std::string& hi, const std::string& more = "") {
  return "input %x : f32[N,6,6,4]\n" + uneven("w0", "8,1,1,4", 4, 1) + random_f32("b0", {8}, 3) + uneven("w1", "8,3,3,1", 9, -1) +
         random_f32("b1", {8}, 5) + random_f32("w2", {5, 1, 1, 8}, 6) + "%a = Conv2d \"a\" (%x, %w0, %b0) {lo=0" + hi +
         "}\n%b = Conv2d \"b\" (%a, %w1, %b1) {groups=8, pad=[1,1,1,1], lo=0}\n%c = Conv2d \"c\" (%b, %w2)\noutput %c\n" + more;
}

double int8_db(const Graph& g, const Graph& reference) {
  SampleSource source;
  source.count = 16;
  source.fill = [](uint64_t i, const std::vector<void*>& inputs) -> Result<void> {
    std::vector<float> x(6 * 6 * 4);
    for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>((i * 97 + k * 31) % 101) / 50.0f - 1;
    std::memcpy(inputs[0], x.data(), x.size() * sizeof(float));
    return {};
  };
  const auto calibration = calibrate(g, source, {});
  REQUIRE_MESSAGE(calibration, calibration.error().message);
  const auto q = quantize_graph(g, ranges_of(*calibration), {.per_channel = false});
  REQUIRE_MESSAGE(q, q.error().message);
  const auto layers = int8_layers(reference, {});
  REQUIRE(layers);
  auto runner = SampleRunner::create(reference, {});
  REQUIRE_MESSAGE(runner, runner.error().message);
  const auto e = layer_error(reference, *runner, q->graph, layers->back(), source, {});
  REQUIRE_MESSAGE(e, e.error().message);
  return e->propagated_db;
}

std::string reason(const std::string& body) {
  Graph g = parsed(body);
  const EqualizeResult r = equalize(g);
  REQUIRE(!r.skipped.empty());
  return r.skipped[0];
}

}  // namespace

TEST_CASE("channels are evened out, the float network is the same to the bit, and per-tensor INT8 gains") {
  const Graph before = parsed(chain(""));
  Graph after = before;
  const EqualizeResult r = equalize(after);
  REQUIRE(verify(after));
  REQUIRE(r.pairs.size() == 2);
  CHECK(r.pairs[0].first == "a");
  CHECK(r.pairs[0].second == "b");
  CHECK(r.pairs[1].second == "c");
  for (const EqualizedPair& p : r.pairs) CHECK(p.spread_after < p.spread_before);
  CHECK(r.pairs[0].spread_before > 500);
  CHECK(r.pairs[0].spread_after < 60);
  CHECK(run_graph(after) == run_graph(before));
  CHECK(int8_db(after, before) > int8_db(before, before) + 5);
}

TEST_CASE("what cannot take a factor is skipped with the reason") {
  CHECK(reason(chain(", hi=6")) == "a: its activation is bounded");
  CHECK(reason(chain("", "output %a\n")) == "a: its result is an output of the graph");
  CHECK(reason(chain("", "%d = Exp (%a)\noutput %d\n")) == "a: its result has 2 readers");
  const std::string two = "input %x : f32[N,4]\n" + random_f32("w", {4, 4}, 1) + "%a = FullyConnected \"a\" (%x, %w)\n";
  CHECK(reason(two + "%b = FullyConnected \"b\" (%a, %w)\noutput %b\n") == "a: its weights or its reader's serve several layers");
  CHECK(reason(two + "%b = Softmax (%a)\noutput %b\n") == "a: its reader has no weights of its own");
  const std::string grouped = "input %x : f32[N,2,2,4]\n" + random_f32("w", {4, 1, 1, 4}, 1) + random_f32("v", {4, 1, 1, 2}, 2) +
                              "%a = Conv2d \"a\" (%x, %w)\n%b = Conv2d \"b\" (%a, %v) {groups=2}\noutput %b\n";
  CHECK(reason(grouped) == "a: its reader takes channels in groups");
}
