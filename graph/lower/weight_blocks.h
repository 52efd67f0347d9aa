// The blocks of 4 k x 16 channels that a node's weights are packed in where block-sparse kernels exist (kernels/gemm_sparse):
// what lowering looks for, and what whoever makes weights sparse must zero whole. Thread-safe: no state.
#pragma once
#include <optional>

#include "graph/ir.h"
#include "runtime/exec/conv_geometry.h"

namespace lathe {

struct WeightBlocks {
  ValueId weight;               // a constant [n][...], float or s8
  kernels::SparseShape shape;   // of its elements as they lie
  uint64_t pixels;              // rows of the result that are known before symbols are: 1 for each symbol
  // Whether hosts store the weight sparse if so many blocks are not zero.
  bool pays(uint64_t blocks) const { return kernels::gemm_sparse_s8_pays(shape, pixels, blocks); }
};
// Nothing if no kernel could leave out blocks of the node's weights.
std::optional<WeightBlocks> weight_blocks(const Graph& graph, const Node& node);

}  // namespace lathe
