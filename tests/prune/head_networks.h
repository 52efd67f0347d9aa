// Transformers for tests of heads: random weights that a test then bends so that what each head does is known.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "prune/head_moments.h"
#include "prune/networks.h"

namespace lathe::test {

inline constexpr int64_t kHeadWidth = 16, kHeadTokens = 6, kHeadDepth = 4;  // four query heads

struct AttentionOptions {
  int64_t kv_heads = 4;
  bool bias = true;  // of the output projection
};
// Layer norm, Q, K and V, attention, the output projection NAME_proj, and the shortcut: NAME.
std::string attention_block(Net& n, const std::string& name, const std::string& x, const AttentionOptions& options = {});
// x [N, 6, 16] through `layers` attention blocks a0, a1, ... and a classifier.
Graph attention_network(size_t layers, const AttentionOptions& options = {});

// The graph with another constant: change(row, column, value) of its [rows, columns].
using Change = std::function<float(size_t row, size_t column, float value)>;
Graph changed(const Graph& graph, const std::string& constant, const Change& change);
// Head `to` becomes the same as head `from`: rows of Q, K and V of block `name`.
Graph with_equal_heads(const Graph& graph, const std::string& name, size_t from, size_t to);

// Runs `samples` random inputs; all are of each of the user groups.
prune::HeadSource random_source(uint64_t samples, std::vector<std::string> groups = {});

}  // namespace lathe::test
