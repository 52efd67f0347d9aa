// Weights with zero points: what becomes of the layer, and that its sums stay exact. All scales are powers of two, so that a
// float layer on the same integers gives the same results: no sum reaches 2^24.
#include <doctest/doctest.h>

#include <random>

#include "graph/graph_run.h"
#include "graph/passes/passes.h"

namespace lathe::test {
namespace {

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string s;
  for (const int64_t d : dims) s += (s.empty() ? "" : ",") + std::to_string(d);
  return s;
}

// Weights in [-128, 127], the extremes among them, as an s8 constant with `zero_points` and as the real numbers that they stand
// for.
struct Weights {
  Weights(const std::vector<int64_t>& dims, const std::vector<int32_t>& zero_points) {
    int64_t elems = 1;
    for (const int64_t d : dims) elems *= d;
    std::mt19937 random(11);
    std::string integers, reals;
    for (int64_t i = 0; i < elems; ++i) {
      const int q = i < 2 ? (i == 0 ? -128 : 127) : static_cast<int>(random() % 256) - 128;
      const int32_t z = zero_points[zero_points.size() == 1 ? 0 : static_cast<size_t>(i / (elems / dims[0]))];
      integers += (i == 0 ? "" : ", ") + std::to_string(q);
      reals += (i == 0 ? "" : ", ") + std::to_string(q - z);
    }
    std::string quant = "quant(scale=1, zero_point=" + std::to_string(zero_points[0]) + ")";
    if (zero_points.size() > 1) {
      std::string scales, list;
      for (const int32_t z : zero_points)
        scales += (scales.empty() ? "1" : ", 1"), list += (list.empty() ? "" : ", ") + std::to_string(z);
      quant = "quant(axis=0, scales=[" + scales + "], zero_points=[" + list + "])";
    }
    quantized = "constant %w : s8[" + dims_text(dims) + "] " + quant + " = [" + integers + "]\n";
    real = "constant %w : f32[" + dims_text(dims) + "] = [" + reals + "]\n";
  }
  std::string quantized, real;
};

constexpr const char* kGrid = " quant(scale=2048, zero_point=-7)";

// `layer` is "Conv2d (%x, %w) {..}" and the like; in both graphs.
void check_sums(const std::string& input_dims, const std::string& layer, const std::string& output_dims, const Weights& w) {
  const std::string input = "input %x : s8[" + input_dims + "] quant(scale=1, zero_point=3)\n";
  Graph graph = parsed(input + w.quantized + "%y : s8[" + output_dims + "]" + kGrid + " = " + layer + "\noutput %y\n");
  Rewriter rewriter(graph);
  REQUIRE(passes::split_weights(rewriter).has_value());
  REQUIRE(verify(graph).has_value());
  std::string real_layer = layer;
  real_layer.replace(real_layer.find("%x"), 2, "%r");
  const Graph reference = parsed(input + w.real + "%r = Dequantize (%x)\n%f = " + real_layer + "\n%y : s8[" + output_dims +
                                 "]" + kGrid + " = Quantize (%f)\noutput %y\n");
  CHECK(run_graph(graph) == run_graph(reference));
}

TEST_CASE("layers on weights with zero points have exact sums") {
  for (const std::vector<int32_t>& z : {std::vector<int32_t>{5}, {-128}, {127}}) {
    CAPTURE(z[0]);
    check_sums("1,7,6,5", "Conv2d (%x, %w) {stride=[2,2], pad=[0,1,1,1]}", "1,3,3,4", Weights({4, 3, 3, 5}, z));
    check_sums("2,5,4,3", "Conv2d (%x, %w) {stride=[1,2], pad=[1,0,1,1], groups=3}", "2,5,2,6", Weights({6, 3, 3, 1}, z));
    check_sums("1,4,4,4", "Conv2d (%x, %w) {groups=2}", "1,2,2,4", Weights({4, 3, 3, 2}, z));
    check_sums("3,9", "FullyConnected (%x, %w)", "3,4", Weights({4, 9}, z));
    check_sums("1,3,4,5", "ConvTranspose2d (%x, %w) {stride=[2,2]}", "1,7,9,2", Weights({2, 3, 3, 5}, z));
  }
}

TEST_CASE("every channel may have a zero point of its own") {
  check_sums("2,9", "FullyConnected (%x, %w)", "2,3", Weights({3, 9}, {0, -128, 77}));
  check_sums("1,5,5,3", "Conv2d (%x, %w) {groups=3}", "1,3,3,3", Weights({3, 3, 3, 1}, {127, 1, -4}));
}

void check_nodes(const std::string& constant, const std::string& expected) {
  Graph graph = parsed("input %x : s8[N,2] quant(scale=1, zero_point=3)\n" + constant + "%y : s8[N,2]" + kGrid +
                       " = FullyConnected (%x, %w)\noutput %y\n");
  Rewriter rewriter(graph);
  REQUIRE(passes::split_weights(rewriter).has_value());
  CHECK(nodes(graph) == expected);
}

TEST_CASE("the input is read twice only where a difference needs more than 8 bits, and symmetric weights stay") {
  check_nodes("constant %w : s8[2,2] quant(scale=1, zero_point=-100) = [27, 1, 2, 3]\n",
              "%y = FullyConnected (%x, %w.symmetric)\noutput %y\n");
  check_nodes("constant %w : s8[2,2] quant(scale=1, zero_point=-100) = [28, 1, 2, 3]\n",
              "%y.repeated = Concat (%x, %x) {axis=1}\n%y = FullyConnected (%y.repeated, %w.symmetric)\noutput %y\n");
  check_nodes("constant %w : s8[2,2] quant(scale=1, zero_point=-128) = [127, 1, 2, 3]\n",
              "%y.repeated = Concat (%x, %x, %x) {axis=1}\n%y = FullyConnected (%y.repeated, %w.symmetric)\noutput %y\n");
  check_nodes("constant %w : s8[2,2] quant(scale=1, zero_point=0) = [-128, 127, 2, 3]\n",
              "%y = FullyConnected (%x, %w)\noutput %y\n");
}

}  // namespace
}  // namespace lathe::test
