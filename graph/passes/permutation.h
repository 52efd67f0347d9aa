// Permutations of axes, as Transpose has them: y.dims[i] = x.dims[perm[i]].
#pragma once
#include <vector>

#include "graph/ir.h"

namespace lathe::passes {

Ints inverse(const Ints& perm);
// The one Transpose that equals a Transpose by `first` followed by one by `second`.
Ints compose(const Ints& first, const Ints& second);
bool is_identity(const Ints& perm);
// Whether a Transpose of a tensor of these dims moves nothing but axes of size 1: its result has the bytes of its operand.
bool moves_only_ones(const DimTable& dims, const TensorType& operand, const Ints& perm);

// The perm of a live Transpose node, else null.
const Ints* transpose_perm(const Graph& graph, NodeId node);
const Ints* transpose_perm(const Node* node);

// Bytes of a dense tensor after a Transpose.
Constant permuted(const Constant& constant, uint32_t elem_bytes, const std::vector<int64_t>& dims, const Ints& perm);

}  // namespace lathe::passes
