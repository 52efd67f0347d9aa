#include "graph/passes/permutation.h"

#include <cstring>

namespace lathe::passes {

Ints inverse(const Ints& perm) {
  Ints out = perm;
  for (int32_t i = 0; i < perm.count; ++i) out.values[perm[i]] = i;
  return out;
}

Ints compose(const Ints& first, const Ints& second) {
  Ints out = second;
  for (int32_t i = 0; i < second.count; ++i) out.values[i] = first[second[i]];
  return out;
}

bool is_identity(const Ints& perm) {
  for (int32_t i = 0; i < perm.count; ++i) {
    if (perm[i] != i) return false;
  }
  return true;
}

bool moves_only_ones(const DimTable& dims, const TensorType& operand, const Ints& perm) {
  int32_t last = -1;
  for (int32_t i = 0; i < perm.count; ++i) {
    if (dims.is(operand.dims[static_cast<size_t>(perm[i])], 1)) continue;
    if (perm[i] < last) return false;
    last = perm[i];
  }
  return true;
}

const Ints* transpose_perm(const Node* node) {
  if (node == nullptr || node->dead || node->op != Op::kTranspose) return nullptr;
  return &std::get<PermAttrs>(node->attrs).perm;
}

const Ints* transpose_perm(const Graph& graph, NodeId node) { return transpose_perm(&graph.node(node)); }

Constant permuted(const Constant& constant, uint32_t elem_bytes, const std::vector<int64_t>& dims, const Ints& perm) {
  const size_t rank = dims.size();
  std::vector<size_t> stride(rank, elem_bytes);
  for (size_t i = rank; i-- > 1;) stride[i - 1] = stride[i] * static_cast<size_t>(dims[i]);
  std::vector<std::byte> out(constant.bytes.size());
  std::vector<int64_t> index(rank, 0);  // of the result
  for (size_t at = 0; at < out.size(); at += elem_bytes) {
    size_t from = 0;
    for (size_t i = 0; i < rank; ++i)
      from += static_cast<size_t>(index[i]) * stride[static_cast<size_t>(perm[static_cast<int32_t>(i)])];
    std::memcpy(out.data() + at, constant.bytes.data() + from, elem_bytes);
    for (size_t i = rank; i-- > 0;) {
      if (++index[i] < dims[static_cast<size_t>(perm[static_cast<int32_t>(i)])]) break;
      index[i] = 0;
    }
  }
  return Constant::copy(out);
}

}  // namespace lathe::passes
