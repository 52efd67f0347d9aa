#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "graph/ir.h"
#include "quant/dynamic.h"
#include "tests/graph/graph_run.h"

using namespace lathe;
using lathe::test::parsed;

namespace {

const std::string kMlp =
    "input %x : f32[N,4]\nconstant %w : f32[2,4] = [1,2,3,-4,0.5,0.25,0.125,1]\nconstant %b : f32[2] = [1,2]\n"
    "constant %v : f32[3,2] = splat 1\n%h = FullyConnected (%x, %w, %b) {lo=0}\n%e = Exp (%h)\n"
    "%y = FullyConnected (%e, %v)\noutput %y\n";

const QuantizeRow& row(const QuantizeResult& r, const std::string& name) {
  const auto it = std::find_if(r.rows.begin(), r.rows.end(), [&](const QuantizeRow& q) { return q.node == name; });
  REQUIRE(it != r.rows.end());
  return *it;
}

}  // namespace

TEST_CASE("fully connected layers become dynamic, with INT8 weights per channel and everything else as it was") {
  const auto r = quantize_dynamic(parsed(kMlp), {});
  REQUIRE_MESSAGE(r, r.error().message);
  const Graph& g = r->graph;
  const Node& h = g.node(g.value(g.find_value("h")).producer);
  CHECK(h.op == Op::kDynamicFullyConnected);
  CHECK(h.name == "h");
  CHECK(std::get<DynamicFullyConnectedAttrs>(h.attrs).lo == 0.0f);
  CHECK(std::get<DynamicFullyConnectedAttrs>(h.attrs).per_token == 1);
  const Value& w = g.value(h.inputs[1]);
  CHECK(w.quant->scales == std::vector<float>{4.0f / 127, 1.0f / 127});
  CHECK(w.constant.as<int8_t>()[3] == -127);
  CHECK(w.constant.as<int8_t>()[7] == 127);
  CHECK(g.value(h.inputs[2]).type.dtype == DType::kF32);
  CHECK(row(*r, "h").int8);
  CHECK_FALSE(row(*r, "e").int8);
  CHECK(g.value(g.outputs()[0]).name == "y");
}

TEST_CASE("per tensor is an attribute, and kept layers stay float") {
  const auto r = quantize_dynamic(parsed(kMlp), {.per_token = false, .keep_float = {"h"}});
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(row(*r, "h").reason == "kept float on request");
  const Node& y = r->graph.node(r->graph.value(r->graph.outputs()[0]).producer);
  CHECK(std::get<DynamicFullyConnectedAttrs>(y.attrs).per_token == 0);
}

TEST_CASE("networks without matrix products, quantized ones and patterns that match nothing are refused") {
  const auto conv = quantize_dynamic(
      parsed("input %x : f32[N,4,4,2]\nconstant %w : f32[3,1,1,2] = splat 1\n%y = Conv2d (%x, %w)\noutput %y\n"), {});
  REQUIRE_FALSE(conv);
  CHECK(conv.error().message.find("no operator can be quantized dynamically") == 0);
  const auto once = quantize_dynamic(parsed(kMlp), {});
  REQUIRE(once);
  CHECK_FALSE(quantize_dynamic(once->graph, {}));
  CHECK_FALSE(quantize_dynamic(parsed(kMlp), {.keep_float = {"nothing"}}));
}
