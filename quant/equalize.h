// Cross-layer equalization: weights of neighbouring layers trade a factor per channel, so that no channel is lost on the grid of
// another. Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019), section 4.1.
#pragma once
#include <string>
#include <vector>

#include "graph/ir.h"

namespace lathe {

struct EqualizedPair {
  std::string first, second;  // nodes
  // Largest range of a channel's weights over the smallest, of the first's outputs and the second's inputs.
  double spread_before = 0, spread_after = 0;
};

struct EqualizeResult {
  std::vector<EqualizedPair> pairs;
  std::vector<std::string> skipped;  // "node: why" for layers with weights whose result goes to none that can take a factor
};

// Scales weights and biases of `graph`, which went through lowering_passes(), in place. For a channel whose weights reach r1 in the
// first layer and r2 in the second, both come to sqrt(r1 r2) within a factor of sqrt(2): factors are powers of two, so the float
// network computes the same bits. Only through an identity or a ReLU to a single reader; a bounded activation, a residual operand,
// shared weights and grouped layers other than depthwise ones are skipped, with the reason.
EqualizeResult equalize(Graph& graph);

}  // namespace lathe
