// What is kept of head outputs while samples run: sums of products, so that memory does not grow with the samples.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/ir.h"
#include "prune/head_blocks.h"

namespace lathe::prune {

// First and second moments of rows x of `width` numbers.
struct Moments {
  uint64_t rows = 0;
  std::vector<double> sum;   // of x, [width]
  std::vector<double> gram;  // of x x^T, [width, width]
};

// Of one block. A row is the outputs of all heads at one token.
struct HeadMoments {
  size_t width = 0;
  Moments all;
  std::vector<Moments> groups;  // by user group
  std::vector<double> norms;    // by head: sum over rows of the length of its contribution
  double sum_squares = 0;       // of all elements of HeadBlock::sum
  std::vector<float> weight;    // the projection's, [width, outputs]
  size_t outputs = 0;
};

// The values of one sample, in the order that was asked for, and the user groups that it belongs to.
using SampleSink = std::function<void(const std::vector<std::span<const float>>& values, std::span<const uint32_t> groups)>;
// Runs the samples one at a time.
struct HeadSource {
  std::vector<std::string> groups;  // names of the user groups
  std::function<Result<void>(const Graph& graph, std::span<const ValueId> values, const SampleSink& sink)> run;
};

// By block; refused blocks have none (width 0). Errors: the source's; no samples.
Result<std::vector<HeadMoments>> observe_heads(const Graph& graph, std::span<const HeadBlock> blocks, const HeadSource& source);

}  // namespace lathe::prune
