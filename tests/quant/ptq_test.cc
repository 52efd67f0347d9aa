#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "graph/ir.h"
#include "graph/op_def.h"
#include "quant/decide.h"
#include "quant/ptq.h"

using namespace lathe;

namespace {

ValueId constant(Graph& g, const char* name, std::vector<int64_t> dims, std::vector<float> values) {
  TensorType type{DType::kF32, {}};
  for (const int64_t d : dims) type.dims.push_back(g.dims().constant(d));
  return g.add_constant(name, std::move(type), Constant::of(values));
}

ValueId node(Graph& g, Op op, std::vector<ValueId> inputs, const char* name, Attrs attrs) {
  const auto n = g.add_node(op, std::move(attrs), std::move(inputs), std::string(name) + "_node", {name});
  REQUIRE_MESSAGE(n, n.error().message);
  return g.node(*n).outputs[0];
}
ValueId node(Graph& g, Op op, std::vector<ValueId> inputs, const char* name) {
  return node(g, op, std::move(inputs), name, default_attrs(op));
}

ValueId image(Graph& g, std::vector<int64_t> hwc) {
  DimTable& d = g.dims();
  return g.add_input("x", {DType::kF32, {d.symbol("N"), d.constant(hwc[0]), d.constant(hwc[1]), d.constant(hwc[2])}});
}

// x -> conv 1x1 (2 to 2 channels) -> mean -> fully connected -> softmax, with ranges for all.
struct Classifier {
  Graph g;
  RangeTable ranges;
  Classifier() {
    const ValueId x = image(g, {4, 4, 2});
    const ValueId w = constant(g, "w", {2, 1, 1, 2}, {0.5f, -0.25f, 1.0f, 0.125f}), b = constant(g, "b", {2}, {0.5f, -1.0f});
    const ValueId y = node(g, Op::kConv2d, {x, w, b}, "y");
    const ValueId m = node(g, Op::kMean, {y}, "m", ReduceAttrs{.axes = {2, {1, 2}}, .keep_dims = 0});
    const ValueId fw = constant(g, "fw", {3, 2}, {1, 2, 3, 4, 5, 6});
    const ValueId logits = node(g, Op::kFullyConnected, {m, fw}, "logits");
    g.add_output(node(g, Op::kSoftmax, {logits}, "p", AxisAttrs{1}));
    for (const char* name : {"x", "y", "m", "logits", "p"}) ranges[name] = {-1.0, 1.0};
  }
};

const Node& named(const Graph& g, const std::string& name) {
  for (const NodeId n : g.order())
    if (g.node(n).name == name) return g.node(n);
  FAIL("no node " << name);
  return g.node(0);
}

size_t count(const Graph& g, Op op) {
  return static_cast<size_t>(std::count_if(g.order().begin(), g.order().end(), [&](NodeId n) { return g.node(n).op == op; }));
}

const QuantizeRow& row(const QuantizeResult& r, const std::string& name) {
  const auto it = std::find_if(r.rows.begin(), r.rows.end(), [&](const QuantizeRow& q) { return q.node == name; });
  REQUIRE(it != r.rows.end());
  return *it;
}

}  // namespace

TEST_CASE("a classifier becomes integer up to its last weighted op, with one quantize and one dequantize") {
  Classifier c;
  const auto r = quantize_graph(c.g, c.ranges, {});
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(count(r->graph, Op::kQuantize) == 1);
  CHECK(count(r->graph, Op::kDequantize) == 1);
  CHECK(row(*r, "y_node").int8);
  CHECK(row(*r, "m_node").int8);
  CHECK(row(*r, "logits_node").int8);
  CHECK_FALSE(row(*r, "p_node").int8);
  CHECK(row(*r, "p_node").reason == "after the last weighted op");
  CHECK(row(*r, "y_node").share == doctest::Approx(64.0 / 70));
  const Node& conv = named(r->graph, "y_node");
  CHECK(r->graph.value(conv.inputs[1]).type.dtype == DType::kS8);
  CHECK(r->graph.value(conv.inputs[1]).quant->axis == 0);
  CHECK(r->graph.value(conv.inputs[1]).quant->scales.size() == 2);
  CHECK(r->graph.value(conv.inputs[2]).type.dtype == DType::kS32);
  CHECK(r->graph.value(r->graph.outputs()[0]).name == "p");
}

TEST_CASE("layer norm becomes integer with float scale and bias, unless they are computed") {
  for (const bool computed : {false, true}) {
    Graph g;
    DimTable& d = g.dims();
    const ValueId x = g.add_input("x", {DType::kF32, {d.symbol("N"), d.constant(2)}});
    const ValueId w = constant(g, "w", {2, 2}, {1, 0.5f, -1, 2}), bias = constant(g, "b", {2}, {0.25f, -1});
    const ValueId scale = computed ? g.add_input("s", {DType::kF32, {d.constant(2)}}) : constant(g, "s", {2}, {1, -2});
    const ValueId n = node(g, Op::kLayerNorm, {node(g, Op::kFullyConnected, {x, w}, "h"), scale, bias}, "n");
    g.add_output(node(g, Op::kFullyConnected, {node(g, Op::kGelu, {n}, "a"), w}, "y"));
    RangeTable ranges;
    for (const char* name : {"x", "h", "n", "a", "y"}) ranges[name] = {-1.0, 1.0};
    const auto r = quantize_graph(g, ranges, {});
    REQUIRE_MESSAGE(r, r.error().message);
    CHECK(row(*r, "n_node").int8 != computed);
    CHECK(row(*r, "a_node").int8);
    const Node& norm = named(r->graph, "n_node");
    CHECK(r->graph.value(norm.inputs[0]).type.dtype == (computed ? DType::kF32 : DType::kS8));
    CHECK(r->graph.value(norm.inputs[1]).type.dtype == DType::kF32);
    CHECK(r->graph.value(norm.inputs[2]).type.dtype == DType::kF32);
    CHECK_FALSE(r->graph.value(norm.inputs[1]).quant);
  }
}

TEST_CASE("an integer graph's output keeps the float graph's name and type") {
  Graph g;
  const ValueId x = image(g, {4, 4, 2});
  const ValueId w = constant(g, "w", {2, 1, 1, 2}, {1, 0, 0, 1});
  g.add_output(node(g, Op::kConv2d, {x, w}, "y"));
  const auto r = quantize_graph(g, {{"x", {-1, 1}}, {"y", {-1, 1}}}, {});
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(r->graph.value(r->graph.outputs()[0]).name == "y");
  CHECK(r->graph.value(r->graph.outputs()[0]).type.dtype == DType::kF32);
}

TEST_CASE("keep-float takes node names, patterns and op types, and refuses what matches nothing") {
  Classifier c;
  for (const char* keep : {"y_node", "y_*", "conv2d", "?_NODE"}) {
    CAPTURE(keep);
    const auto r = quantize_graph(c.g, c.ranges, {.keep_float = {keep}});
    REQUIRE(r);
    CHECK_FALSE(row(*r, "y_node").int8);
    CHECK(row(*r, "y_node").reason == "kept float on request");
    CHECK(row(*r, "logits_node").int8);
  }
  const auto bad = quantize_graph(c.g, c.ranges, {.keep_float = {"layer9*"}});
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message == "keep-float entry 'layer9*' matches no node name or op type");
}

TEST_CASE("a quantized model is not quantized again") {
  Classifier c;
  const auto once = quantize_graph(c.g, c.ranges, {});
  REQUIRE(once);
  const auto twice = quantize_graph(once->graph, c.ranges, {});
  REQUIRE_FALSE(twice);
  CHECK(twice.error().message.find("already quantized") != std::string::npos);
}

TEST_CASE("a tensor without a range is an error that names it") {
  Classifier c;
  c.ranges.erase("y");
  const auto r = quantize_graph(c.g, c.ranges, {});
  REQUIRE_FALSE(r);
  CHECK(r.error().message == "node 'y_node': calibration has no range for tensor 'y'");
}

TEST_CASE("movement between an input and an integer op is done on bytes; movement of float data stays float") {
  Graph g;
  DimTable& d = g.dims();
  const ValueId x = g.add_input("x", {DType::kF32, {d.symbol("N"), d.constant(2), d.constant(4), d.constant(4)}});
  const ValueId t = node(g, Op::kTranspose, {x}, "t", PermAttrs{.perm = {4, {0, 2, 3, 1}}});
  const ValueId w = constant(g, "w", {2, 1, 1, 2}, {1, 2, 3, 4});
  const ValueId y = node(g, Op::kConv2d, {t, w}, "y");
  const ValueId u = node(g, Op::kTranspose, {y}, "u", PermAttrs{.perm = {4, {0, 3, 1, 2}}});
  const ValueId e = node(g, Op::kExp, {u}, "e");
  g.add_output(node(g, Op::kTranspose, {e}, "v", PermAttrs{.perm = {4, {0, 2, 3, 1}}}));
  const auto r = quantize_graph(g, {{"x", {-1, 1}}, {"y", {-2, 2}}}, {});
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(row(*r, "t_node").int8);
  CHECK(row(*r, "u_node").int8);
  CHECK_FALSE(row(*r, "v_node").int8);
  CHECK(row(*r, "v_node").reason == "moves float data");
  const Value& moved = r->graph.value(named(r->graph, "t_node").outputs[0]);
  CHECK(moved.quant->scales[0] == doctest::Approx(2.0 / 255));
}

TEST_CASE("one weight in two layers with different input scales gets integers and a bias of its own in each") {
  Graph g;
  const ValueId x = image(g, {2, 2, 2});
  const ValueId w = constant(g, "w", {2, 1, 1, 2}, {1, 2, 3, 4}), b = constant(g, "b", {2}, {1.0f, 2.0f});
  const ValueId y = node(g, Op::kConv2d, {x, w, b}, "y");
  g.add_output(node(g, Op::kConv2d, {y, w, b}, "z"));
  const auto r = quantize_graph(g, {{"x", {-1, 1}}, {"y", {-8, 8}}, {"z", {-30, 30}}}, {});
  REQUIRE_MESSAGE(r, r.error().message);
  const auto& first = r->graph.value(named(r->graph, "y_node").inputs[2]);
  const auto& second = r->graph.value(named(r->graph, "z_node").inputs[2]);
  CHECK(std::abs(first.constant.as<int32_t>()[0] - 8 * second.constant.as<int32_t>()[0]) <= 8);
}

TEST_CASE("per-tensor weights have one scale") {
  Classifier c;
  const auto r = quantize_graph(c.g, c.ranges, {.per_channel = false});
  REQUIRE_MESSAGE(r, r.error().message);
  const auto& w = r->graph.value(named(r->graph, "y_node").inputs[1]);
  CHECK(w.quant->axis == -1);
  CHECK(w.quant->scales.size() == 1);
}

TEST_CASE("patterns match any case, any run and any one character") {
  CHECK(matches_pattern("layer1.*", "layer1.0.conv"));
  CHECK(matches_pattern("*conv?", "Block/Conv2"));
  CHECK(matches_pattern("", ""));
  CHECK_FALSE(matches_pattern("", "a"));
  CHECK_FALSE(matches_pattern("conv", "conv2d"));
  CHECK_FALSE(matches_pattern("a*b*c", "a-c-b"));
}

namespace {

// Two inputs, of which the second is multiplied behind a reshape; `make` may put an op before it.
template <class F> Graph product_graph(const F& make) {
  Graph g;
  DimTable& d = g.dims();
  const ValueId a = g.add_input("a", {DType::kF32, {d.constant(4), d.constant(6)}});
  const ValueId b = g.add_input("b", {DType::kF32, {d.constant(3), d.constant(12)}});
  const ValueId shape =
      g.add_constant("shape", {DType::kS64, {d.constant(2)}}, Constant::of(std::vector<int64_t>{6, 6}));
  const ValueId r = node(g, Op::kReshape, {make(g, b), shape}, "r");
  g.add_output(node(g, Op::kMatMul, {a, r}, "y"));
  return g;
}

}  // namespace

TEST_CASE("the second operand of a product gets a grid with zero point 0, from where its bytes are made") {
  const Graph g = product_graph([](Graph&, ValueId b) { return b; });
  const auto r = quantize_graph(g, {{"a", {-1, 3}}, {"b", {-1, 2}}, {"y", {-4, 8}}}, {});
  REQUIRE_MESSAGE(r, r.error().message);
  const Node& product = named(r->graph, "y_node");
  const Quant &left = *r->graph.value(product.inputs[0]).quant, &right = *r->graph.value(product.inputs[1]).quant;
  CHECK(left.zero_points[0] == -64);
  CHECK(right.zero_points[0] == 0);
  CHECK(right.scales[0] == static_cast<float>(2.0 / 127));
  CHECK(count(r->graph, Op::kRegrid) == 0);
}

TEST_CASE("a second operand whose op fixes its grid is regridded") {
  const Graph g = product_graph([](Graph& graph, ValueId b) { return node(graph, Op::kSigmoid, {b}, "s"); });
  const auto r = quantize_graph(g, {{"a", {-1, 3}}, {"b", {-1, 2}}, {"s", {0, 1}}, {"y", {-4, 8}}}, {});
  REQUIRE_MESSAGE(r, r.error().message);
  CHECK(count(r->graph, Op::kRegrid) == 1);
  const Quant& right = *r->graph.value(named(r->graph, "y_node").inputs[1]).quant;
  CHECK(right.zero_points[0] == 0);
  CHECK(right.scales[0] == static_cast<float>(1.0 / 127));
}
