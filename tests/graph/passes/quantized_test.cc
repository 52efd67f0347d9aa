#include <doctest/doctest.h>

#include "graph/graph_run.h"
#include "graph/passes/fuse_quantized.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

const std::string kX = "input %f : f32[N,6,6,4]\n%x quant(scale=0.03, zero_point=7) = Quantize (%f)\n%r = Dequantize (%x)\n";
const std::string kW = random_s8("w", {4, 3, 3, 4}, 1, "quant(scale=0.01, zero_point=0)") + "%u = Dequantize (%w)\n";
const std::string kQ = " quant(scale=0.05, zero_point=-9) = Quantize ";
const std::string kOut = "%y = Dequantize (%q)\noutput %y\n";

// The graph with the numbers that dequantized constants stand for: weights must be constants to run.
Graph with_float_weights(const std::string& body) {
  Graph graph = parsed(body);
  Rewriter rewriter(graph);
  for (const NodeId n : rewriter.nodes()) {
    const Node node = graph.node(n);
    const Value steps = graph.value(node.inputs[0]);
    if (node.op != Op::kDequantize || steps.kind != ValueKind::kConstant) continue;
    std::vector<float> real;
    const bool wide = steps.type.dtype == DType::kS32;
    for (size_t i = 0; i < steps.constant.bytes.size() / (wide ? 4 : 1); ++i) {
      const int32_t q = wide ? steps.constant.as<int32_t>()[i] : steps.constant.as<int8_t>()[i];
      real.push_back(static_cast<float>(q - steps.quant->zero_points[0]) * steps.quant->scales[0]);
    }
    rewriter.replace(node.outputs[0],
                     rewriter.constant(graph.fresh_name("real"), {DType::kF32, steps.type.dims}, Constant::of(real)));
    rewriter.erase(n);
  }
  return graph;
}

// The pass makes `expected` of it, and the same numbers.
void check_fused(const std::string& body, const std::string& expected) {
  Graph graph = parsed(body);
  Rewriter rewriter(graph);
  const auto done = passes::fuse_quantized(rewriter);
  REQUIRE_MESSAGE(done, done.error().message);
  const auto ok = verify(graph);
  REQUIRE_MESSAGE(ok, ok.error().message);
  CHECK(nodes(graph) == expected);
  CHECK(relative_difference(run_graph(graph), run_graph(with_float_weights(body))) < 1e-5);
}

TEST_CASE("a convolution between Dequantize and Quantize runs on integers, its clamp in it") {
  check_fused(kX + kW + "%c = Conv2d (%r, %u)\n%q" + kQ + "(%c)\n" + kOut,
             "%x = Quantize (%f)\n%c = Conv2d (%x, %w)\n%y = Dequantize (%c)\noutput %y\n");
  check_fused(kX + kW + "%c = Conv2d (%r, %u)\n%k = Clamp (%c) {lo=0, hi=1}\n%q" + kQ + "(%k)\n" + kOut,
             "%x = Quantize (%f)\n%c = Conv2d (%x, %w) {lo=0, hi=1}\n%y = Dequantize (%c)\noutput %y\n");
}

TEST_CASE("weights may have zero points") {
  Graph graph = parsed(kX + random_s8("w", {4, 3, 3, 4}, 1, "quant(scale=0.01, zero_point=20)") +
                       "%u = Dequantize (%w)\n%c = Conv2d (%r, %u)\n%q" + kQ + "(%c)\n" + kOut);
  Rewriter rewriter(graph);
  REQUIRE(passes::fuse_quantized(rewriter));
  CHECK(nodes(graph) == "%x = Quantize (%f)\n%c = Conv2d (%x, %w)\n%y = Dequantize (%c)\noutput %y\n");
}

TEST_CASE("a bias is taken in steps of the sums, whether it is stored so or not") {
  const std::string stored =
      "constant %b : s32[4] quant(scale=0.0003, zero_point=0) = [100, -2000, 30000, 4]\n%v = Dequantize (%b)\n";
  Graph graph = parsed(kX + kW + stored + "%c = Conv2d (%r, %u, %v)\n%q" + kQ + "(%c)\n" + kOut);
  Rewriter rewriter(graph);
  REQUIRE(passes::fuse_quantized(rewriter));
  CHECK(nodes(graph) == "%x = Quantize (%f)\n%c = Conv2d (%x, %w, %b:s32)\n%y = Dequantize (%c)\noutput %y\n");
  const auto steps = graph.value(graph.find_value("b:s32")).constant.as<int32_t>();
  CHECK(std::vector<int32_t>(steps.begin(), steps.end()) == std::vector<int32_t>{100, -2000, 30000, 4});
  check_fused(kX + kW + "constant %b : f32[4] = [0.03, -0.6, 9, 0.0012]\n%c = Conv2d (%r, %u, %b)\n%q" + kQ + "(%c)\n" + kOut,
             "%x = Quantize (%f)\n%c = Conv2d (%x, %w, %b:s32)\n%y = Dequantize (%c)\noutput %y\n");
}

TEST_CASE("a bias and a residual that are added before the Quantize are rounded with the product") {
  const std::string head =
      kX + kW + "input %g : f32[N,4,4,4]\n%z quant(scale=0.02, zero_point=3) = Quantize (%g)\n%s = Dequantize (%z)\n";
  check_fused(head + "%c = Conv2d (%r, %u)\n%a = Add (%s, %c)\n%k = Clamp (%a) {lo=0}\n%q" + kQ + "(%k)\n" + kOut,
              "%x = Quantize (%f)\n%z = Quantize (%g)\n%c = Conv2d (%x, %w, _, %z) {lo=0}\n%y = Dequantize (%c)\noutput %y\n");
  check_fused(kX + kW + "constant %b : s32[4] quant(scale=0.0003, zero_point=0) = [100, -2000, 30000, 4]\n%v = Dequantize (%b)\n"
                        "%c = Conv2d (%r, %u)\n%a = Add (%c, %v)\n%q" + kQ + "(%a)\n" + kOut,
              "%x = Quantize (%f)\n%c = Conv2d (%x, %w, %c.bias:s32)\n%y = Dequantize (%c)\noutput %y\n");
}

TEST_CASE("a constant of bytes that is added stays on its grid") {
  check_fused(
      kX + "constant %k : s8[4] quant(scale=0.5, zero_point=3) = [1, 2, -3, 4]\n%s = Dequantize (%k)\n%a = Add (%r, %s)\n%q" +
          kQ + "(%a)\n" + kOut,
      "%x = Quantize (%f)\n%a = Add (%x, %k)\n%y = Dequantize (%a)\noutput %y\n");
}

TEST_CASE("sums, products with one number, concatenations and functions run on integers") {
  const std::string two =
      kX + "input %g : f32[N,6,6,4]\n%z quant(scale=0.02, zero_point=3) = Quantize (%g)\n%s = Dequantize (%z)\n";
  check_fused(two + "%a = Add (%r, %s)\n%q" + kQ + "(%a)\n" + kOut,
             "%x = Quantize (%f)\n%z = Quantize (%g)\n%a = Add (%x, %z)\n%y = Dequantize (%a)\noutput %y\n");
  check_fused(kX + "constant %k : f32[] = [-0.7]\n%a = Mul (%r, %k)\n%q" + kQ + "(%a)\n" + kOut,
             "%x = Quantize (%f)\n%a = Mul (%x, %k:s8)\n%y = Dequantize (%a)\noutput %y\n");
  check_fused(two + "%a = Concat (%r, %s) {axis=3}\n%q" + kQ + "(%a)\n" + kOut,
             "%x = Quantize (%f)\n%z = Quantize (%g)\n%a = Concat (%x, %z) {axis=3}\n%y = Dequantize (%a)\noutput %y\n");
  check_fused(kX + "%a = Sigmoid (%r)\n%q quant(scale=0.005, zero_point=-100) = Quantize (%a)\n" + kOut,
             "%x = Quantize (%f)\n%a = Sigmoid (%x)\n%y = Dequantize (%a)\noutput %y\n");
}

TEST_CASE("data moves as integers, whichever side of the border it stood on") {
  check_fused(kX + "%t = Transpose (%r) {perm=[0,3,1,2]}\noutput %t\n",
             "%x = Quantize (%f)\n%t.1 = Transpose \"t\" (%x) {perm=[0,3,1,2]}\n%t = Dequantize \"r.1\" (%t.1)\noutput %t\n");
  check_fused(kX + kW + "%c = Conv2d (%r, %u)\n%m = MaxPool2d (%c) {kernel=[2,2]}\n%q" + kQ + "(%m)\n" + kOut,
             "%x = Quantize (%f)\n%c = Conv2d (%x, %w)\n%m = MaxPool2d (%c) {kernel=[2,2]}\n%y = Dequantize (%m)\noutput %y\n");
  check_fused(kX + "%p = Pad (%r) {before=[0,1,1,0], after=[0,1,1,0]}\n%q" + kQ + "(%p)\n" + kOut,
              "%x = Quantize (%f)\n%p = Pad (%x) {before=[0,1,1,0], after=[0,1,1,0]}\n%q = Regrid (%p)\n%y = Dequantize "
              "(%q)\noutput %y\n");
}

TEST_CASE("flattening integers moves the columns of their weights, whose scales stay") {
  check_pass(passes::fold_flatten,
             "input %f : f32[N,2,3,4]\n%x quant(scale=0.03, zero_point=7) = Quantize (%f)\n%t = Transpose (%x) {perm=[0,3,1,2]}\n"
             "constant %s : s64[2] = [-1, 24]\n%g = Reshape (%t, %s)\n" +
                 random_s8("w", {2, 24}, 1, "quant(axis=0, scales=[0.01, 0.02])") + "%q quant(scale=0.05, zero_point=-9) = "
                 "FullyConnected (%g, %w)\n" + kOut,
             "%x = Quantize (%f)\n%g = Reshape (%x, %s)\n%q = FullyConnected (%g, %w.1)\n%y = Dequantize (%q)\noutput %y\n");
}

TEST_CASE("integers that leave and come back on the same grid never left") {
  Graph graph = parsed(kX + "%i = ToInteger (%x) {to=5}\n%t = Transpose (%i) {perm=[0,3,1,2]}\n"
                            "%b quant(scale=0.03, zero_point=7) = FromInteger (%t)\n%y = Dequantize (%b)\noutput %y\n");
  Rewriter rewriter(graph);
  REQUIRE(passes::fuse_quantized(rewriter));
  CHECK(nodes(graph) == "%x = Quantize (%f)\n%t = Transpose (%x) {perm=[0,3,1,2]}\n%y = Dequantize (%t)\noutput %y\n");
}

// What must stay in float, and what is said about it.
void check_float(const std::string& body, const std::string& node, const std::string& why) {
  check_untouched(passes::fuse_quantized, body);
  const Graph graph = parsed(body);
  for (const NodeId n : graph.order())
    if (graph.node(n).name == node) CHECK(passes::integer_obstacle(graph, n) == why);
}

TEST_CASE("ops that would lose something stay in float and say why") {
  const std::string conv = kX + kW + "%c = Conv2d (%r, %u)\n";
  check_float(kX + "%a = Exp (%r)\n%d = Sqrt (%a)\noutput %d\n", "a", "its result is also read as floats, by 'd'");
  check_float(kX + "%c = Softmax (%r) {axis=3}\n%q" + kQ + "(%c)\n" + kOut, "c",
              "the integer kernel has another grid, of scale 0.003906 and zero point -128");
  check_float(kX + "input %h : f32[N,6,6,4]\n%a = Add (%r, %h)\n%q" + kQ + "(%a)\n" + kOut, "a", "operand 'h' is not quantized");
  check_float(kX + "%p = Pad (%r) {before=[0,1,1,0], after=[0,1,1,0], value=0.041}\noutput %p\n", "p", "no integer kernel");
  const auto stays = [](const std::string& body, const std::string& why) {
    Graph graph = parsed(body);
    Rewriter rewriter(graph);
    REQUIRE(passes::fuse_quantized(rewriter));
    const NodeId c = graph.value(graph.find_value("c")).producer;
    CHECK(graph.value(graph.find_value("c")).type.dtype == DType::kF32);
    CHECK(passes::integer_obstacle(parsed(body), parsed(body).value(parsed(body).find_value("c")).producer) == why);
    CHECK(graph.node(c).op == Op::kConv2d);
  };
  const std::string zeroed = random_s8("w", {4, 3, 3, 4}, 1, "quant(scale=0.01, zero_point=2)") + "%u = Dequantize (%w)\n";
  const Graph transposed = parsed(kX + zeroed + "%c = ConvTranspose2d (%r, %u)\n%q" + kQ + "(%c)\n" + kOut);
  CHECK(passes::integer_obstacle(transposed, transposed.value(transposed.find_value("c")).producer) ==
        "weight 'w' has zero points");
  stays(conv + "%q" + kQ + "(%c)\n" + kOut + "output %c\n", "its result is an output of the model");
  stays(conv + "%q" + kQ + "(%c)\n%o quant(scale=0.1, zero_point=0) = Quantize (%c)\n%z = Dequantize (%o)\noutput %z\n" + kOut,
        "its result is quantized to different grids");
  stays(kX + random_f32("u", {4, 3, 3, 4}, 1) + "%c = Conv2d (%r, %u)\n%q" + kQ + "(%c)\n" + kOut, "weight 'u' is not quantized");
}

// x, a weight of 3 by 2, and the nodes up to a product of both in real numbers.
std::string dynamic(const std::string& weight, const std::string& zero, const std::string& scale) {
  return "input %x : f32[N,3]\nconstant %w : " + weight + " = [1, -2, 3, 4, -5, 6]\nconstant %z : " + zero +
         "\nconstant %s : " + scale +
         "\n%q, %qs, %qz = DynamicQuantizeLinear (%x)\n%i = MatMulInteger (%q, %w, %qz, %z)\n%r = Cast (%i) {to=1}\n"
         "%m = Mul (%qs, %s)\n";
}

TEST_CASE("a product of activations that are quantized on the fly becomes one op, its bias in it") {
  const auto fused = [](const std::string& body) {
    Graph graph = parsed(body);
    Rewriter rewriter(graph);
    REQUIRE(passes::fuse_dynamic(rewriter));
    const auto ok = verify(graph);
    REQUIRE_MESSAGE(ok, ok.error().message);
    return nodes(graph);
  };
  const std::string plain = dynamic("s8[3,2]", "s8[] = [0]", "f32[2] = [0.5, 0.25]");
  CHECK(fused(plain + "%y = Mul (%r, %m)\noutput %y\n") == "%y = DynamicFullyConnected (%x, %w.1)\noutput %y\n");
  CHECK(fused(plain + "constant %b : f32[2] = [1, 2]\n%p = Mul (%m, %r)\n%y = Add (%b, %p)\noutput %y\n") ==
        "%y = DynamicFullyConnected \"p\" (%x, %w.1, %b)\noutput %y\n");
  const auto stays = [&](const std::string& body) { CHECK(fused(body).find("MatMulInteger") != std::string::npos); };
  stays(dynamic("s8[3,2]", "s8[] = [1]", "f32[] = [0.5]") + "%y = Mul (%r, %m)\noutput %y\n");       // another zero point
  stays(dynamic("s8[3,2]", "s8[] = [0]", "f32[1,2] = [0.5, 0.25]") + "%y = Mul (%m, %m)\n%o = Mul (%r, %y)\noutput %o\n");
  stays(dynamic("s8[3,2]", "s8[] = [0]", "f32[] = [-0.5]") + "%y = Mul (%r, %m)\noutput %y\n");      // no scale
  stays(plain + "%y = Mul (%r, %m) {lo=0}\noutput %y\n");
}

}  // namespace
}  // namespace lathe::test
