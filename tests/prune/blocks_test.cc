// Blocks of weights that sparse kernels leave out.
#include "prune/blocks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "graph/graph_run.h"
#include "graph/lineage.h"
#include "tests/prune/networks.h"

namespace lathe::test {
namespace {

using kernels::SparseShape;

// 20 channels, so that the second panel has 4, and 10 k, so that the last quad has 2: 2 panels x 3 quads.
constexpr SparseShape kShape{20, 1, 10, 1};

// Every element of block b is `value[b]`.
std::vector<float> filled(const std::vector<float>& value) {
  std::vector<float> w;
  for (uint32_t c = 0; c < kShape.n; ++c)
    for (uint32_t k = 0; k < kShape.seg_k; ++k) w.push_back(value[c / 16 * 3 + k / 4]);
  return w;
}

std::vector<float> blocks_of(const std::vector<float>& w) { return {w[0], w[4], w[8], w[160], w[164], w[168]}; }

TEST_CASE("the blocks of smallest norm become zero, whole, and of equal ones the first") {
  // Norms: 64 elements, 64, 32; then 16, 16, 8.
  std::vector<float> w = filled({1, -3, 2, 2, 1, 1});
  CHECK(prune::zero_smallest_blocks(w, kShape, 0.5) == 3);  // 8 x 1, 16 x 1, and of 64 x 1 and 16 x 4 the first
  CHECK(w == filled({0, -3, 2, 2, 0, 0}));
  CHECK(prune::zero_smallest_blocks(w, kShape, 0.5) == 3);  // zeros count
  CHECK(prune::zero_smallest_blocks(w, kShape, 0) == 3);
  CHECK(prune::zero_smallest_blocks(w, kShape, 0.6) == 4);
  CHECK(blocks_of(w) == std::vector<float>{0, -3, 2, 0, 0, 0});
  CHECK(prune::zero_smallest_blocks(w, kShape, 1) == 6);
  CHECK(w == filled({0, 0, 0, 0, 0, 0}));
}

TEST_CASE("a block with a NaN stays") {
  std::vector<float> w = filled({1, 1, 1, 1, 1, 1});
  w[163] = std::numeric_limits<float>::quiet_NaN();
  CHECK(prune::zero_smallest_blocks(w, kShape, 0.8) == 5);
  CHECK(std::isnan(w[163]));
  CHECK(blocks_of(w) == std::vector<float>{0, 0, 0, 1, 0, 0});
}

// A convolution that pays, one of short k, a depthwise and a grouped one, and a small head.
Graph network() {
  Net net;
  std::string x = net.input("x", "f32[N,8,8,4]");
  x = net.block("short", x, 4, 32, {.kernel = 1});
  x = net.block("wide", x, 32, 40);
  x = net.block("depthwise", x, 40, 40, {.groups = 40});
  x = net.block("grouped", x, 40, 40, {.groups = 2});
  net.head(x, 40);
  return net.graph();
}

std::vector<float> weight(const Graph& g, const std::string& name) {
  const auto w = g.value(g.find_value(name)).constant.as<float>();
  return {w.begin(), w.end()};
}

TEST_CASE("only weights that sparse kernels would run faster lose blocks") {
  const Graph before = network();
  const auto blocked = prune::zero_blocks(before, 0.5);
  REQUIRE_MESSAGE(blocked, blocked.error().message);
  const Graph& g = blocked->graph;
  CHECK(g.metadata.at("lineage_root") == lineage_root(before));
  std::string pruned;
  for (const prune::BlockRow& r : blocked->rows) {
    INFO(r.node);
    if (r.pruned) {
      pruned += r.node + " ";
      CHECK(r.zeros * 2 == r.blocks);
      CHECK(r.energy > 0.3);  // uniform weights: somewhat less than half
      CHECK(r.energy < 0.5);
      CHECK(weight(g, r.weight) != weight(before, r.weight));
    } else {
      CHECK(r.zeros == 0);
      CHECK(weight(g, r.weight) == weight(before, r.weight));
    }
  }
  CHECK(blocked->rows.size() == 3);  // neither the depthwise nor the grouped one
  CHECK(pruned == "wide ");
  // At a quarter none of them would be faster.
  const auto quarter = prune::zero_blocks(before, 0.25);
  REQUIRE(quarter);
  for (const prune::BlockRow& r : quarter->rows) {
    CHECK_FALSE(r.pruned);
    CHECK(weight(quarter->graph, r.weight) == weight(before, r.weight));
  }
}

TEST_CASE("a share outside of 0 and 1 and a quantized network are errors") {
  const Graph g = network();
  for (const double ratio : {0.0, 1.0, -0.5, std::nan("")})
    CHECK(prune::zero_blocks(g, ratio).error().message.find("must be between 0 and 1") != std::string::npos);
  const Graph q = parsed("input %x : s8[N,8,8,4] quant(scale=0.5, zero_point=-7)\n" +
                   random_s8("w", {16, 1, 1, 4}, 3, "quant(scale=0.25, zero_point=0)") +
                   "%y : s8[N,8,8,16] quant(scale=4, zero_point=-100) = Conv2d (%x, %w)\noutput %y\n");
  CHECK(prune::zero_blocks(q, 0.5).error().message ==
        "the model is quantized already ('w'): prune the float model first, then quantize");
}

}  // namespace
}  // namespace lathe::test
