// Embedding tables quantized row by row: what comes out of each row, and where it is left alone.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/dynamic.h"
#include "quant/embedding.h"
#include "quant/sample_runner.h"
#include "quant/sensitivity.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::nodes;
using lathe::test::parsed;

namespace {

constexpr int kRows = 5, kWidth = 8;

// Row r holds values up to 10^(r - 4): one scale for all would make the first rows zeros. The last row is all zeros.
float element(int r, int i) { return r == kRows - 1 ? 0.0f : std::pow(10.0f, static_cast<float>(r - 4)) * static_cast<float>(i - 3) / 4; }

std::string table(const std::string& name) {
  std::string text = "constant %" + name + " : f32[5,8] = [";
  for (int i = 0; i < kRows * kWidth; ++i) text += (i == 0 ? "" : ",") + std::to_string(element(i / kWidth, i % kWidth));
  return text + "]\n";
}

// Rows, a product behind them that can be INT8, and a short table.
Graph encoder() {
  return parsed("input %t : s64[N,3]\n" + table("words") + test::random_f32("w", {4, 8}, 1) + "constant %short : f32[5,2] = splat 1\n" +
                "%e = Gather \"tokens\" (%words, %t) {axis=0}\n%s = Gather \"types\" (%short, %t) {axis=0}\n"
                "%y = FullyConnected \"head\" (%e, %w)\noutput %y\noutput %s\noutput %e\n");
}

SampleSource indices(std::vector<int64_t> values) {
  SampleSource source;
  source.count = 1;
  source.fill = [values](uint64_t, const std::vector<void*>& inputs) -> Result<void> {
    std::memcpy(inputs[0], values.data(), values.size() * sizeof(int64_t));
    return {};
  };
  return source;
}

const QuantizeRow& row(const QuantizeResult& r, const std::string& name) {
  const auto it = std::find_if(r.rows.begin(), r.rows.end(), [&](const QuantizeRow& q) { return q.node == name; });
  REQUIRE(it != r.rows.end());
  return *it;
}

void check_rows(const Graph& g) {
  auto runner = SampleRunner::create(g, {});
  REQUIRE_MESSAGE(runner, runner.error().message);
  for (const std::vector<int64_t>& picked : {std::vector<int64_t>{0, 1, 2}, {3, 4, -1}}) {
    REQUIRE(runner->run(indices(picked), 0, [](uint32_t, std::span<float>) {}));
    const std::span<const float> got = runner->outputs()[2];
    REQUIRE(got.size() == 3 * kWidth);
    for (int k = 0; k < 3; ++k) {
      const int r = static_cast<int>(picked[static_cast<size_t>(k)] + kRows) % kRows;
      const float step = std::fabs(element(r, kWidth - 1)) / 127;
      for (int i = 0; i < kWidth; ++i) CHECK(std::fabs(got[static_cast<size_t>(k * kWidth + i)] - element(r, i)) <= step * 0.501f);
    }
  }
}

}  // namespace

TEST_CASE("every row of an embedding keeps its own resolution, calibrated or dynamic") {
  const Graph g = encoder();
  const auto c = calibrate(g, indices({0, 3, 4}), {});
  REQUIRE_MESSAGE(c, c.error().message);
  const auto calibrated = quantize_graph(g, ranges_of(*c), {});
  REQUIRE_MESSAGE(calibrated, calibrated.error().message);
  const auto dynamic = quantize_dynamic(g, {});
  REQUIRE_MESSAGE(dynamic, dynamic.error().message);
  for (const QuantizeResult* r : {&*calibrated, &*dynamic}) {
    CHECK(row(*r, "tokens").int8);
    CHECK(!row(*r, "types").int8);  // rows too short to gain
    CHECK(row(*r, "head").int8);
    CAPTURE(nodes(r->graph));
    const Value& e = r->graph.value(r->graph.find_value("e"));
    CHECK(r->graph.node(e.producer).name == "tokens");
    CHECK(r->graph.node(e.producer).op == Op::kMul);
    for (ValueId v = 0; v < r->graph.value_count(); ++v) CHECK((r->graph.value(v).dead || r->graph.value(v).name != "words"));
    check_rows(r->graph);
  }
}

TEST_CASE("an embedding that is kept float, or whose rows are picked by constants, is left alone") {
  const Graph g = encoder();
  const auto kept = quantize_dynamic(g, {.keep_float = {"tokens"}});
  REQUIRE(kept);
  CHECK(row(*kept, "tokens").reason == "kept float on request");
  CHECK(kept->graph.node(kept->graph.value(kept->graph.find_value("e")).producer).op == Op::kGather);
  const Graph fixed = parsed("input %x : f32[N,8]\n" + table("words") + "constant %t : s64[1] = [2]\n" +
                             "%e = Gather \"tokens\" (%words, %t) {axis=0}\n%y = Add (%x, %e)\noutput %y\n");
  CHECK(!takes_embedding_rows(fixed, fixed.node(fixed.order()[0])));
  const Graph columns = parsed("input %t : s64[N,3]\n" + table("words") + "%e = Gather \"tokens\" (%words, %t) {axis=1}\noutput %e\n");
  CHECK(!takes_embedding_rows(columns, columns.node(columns.order()[0])));
}

TEST_CASE("a sensitivity study names embeddings and measures them like other layers") {
  const Graph g = encoder();
  const auto layers = int8_layers(g, {});
  REQUIRE(layers);
  REQUIRE(layers->size() == 2);
  CHECK((*layers)[0].name == "tokens");
  CHECK((*layers)[0].part == LayerPart::kEmbedding);
  const auto c = calibrate(g, indices({0, 3, 4}), {});
  REQUIRE(c);
  for (const Isolation isolation : {Isolation::kAlone, Isolation::kWithout}) {
    const auto one = quantize_isolated(g, ranges_of(*c), {}, *layers, 0, isolation);
    REQUIRE(one);
    CHECK(row(*one, "tokens").int8 == (isolation == Isolation::kAlone));
    CHECK(row(*one, "head").int8 == (isolation == Isolation::kWithout));
  }
}
