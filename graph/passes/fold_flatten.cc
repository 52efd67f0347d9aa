// FullyConnected(Reshape(Transpose(x))) that flattens an image reads x's own order instead: the columns of the constant weights
// are permuted once.
//
// The Transpose keeps axis 0, the Reshape keeps it too and flattens all others. With t = Transpose(x, perm), column k of the
// weights belongs to one element of t's axes 1.., which is an element of x's: w'[n, x axes] = Transpose(w[n, t axes],
// inverse(perm)).
#include <functional>
#include <numeric>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/passes/permutation.h"

namespace lathe::passes {
namespace {

struct Flatten {
  NodeId reshape;
  ValueId from;  // operand of the Transpose
  Ints perm;
  std::vector<int64_t> weight_dims;  // [n, axes 1.. of the transposed tensor]
};

// Axes 1.. of v as numbers; axis 0 may be symbolic.
std::optional<std::vector<int64_t>> inner_dims(const Graph& graph, ValueId v) {
  std::vector<int64_t> dims;
  for (size_t i = 1; i < graph.value(v).type.dims.size(); ++i) {
    const std::optional<int64_t> d = graph.dims().value(graph.value(v).type.dims[i]);
    if (!d) return std::nullopt;
    dims.push_back(*d);
  }
  return dims;
}

// Float, or integers with one scale or one per channel: columns have no parameters of their own.
bool is_weight(const Graph& graph, ValueId v) {
  const Value& w = graph.value(v);
  return w.kind == ValueKind::kConstant && (is_float(graph, v) || (w.type.dtype == DType::kS8 && w.quant && w.quant->axis <= 0));
}

std::optional<Flatten> match(const Graph& graph, const Node& node) {
  const Node* reshape = graph.producer(node.inputs[0]);
  if (reshape == nullptr || reshape->op != Op::kReshape || !read_once(graph, node.inputs[0])) return std::nullopt;
  const ValueId transposed = reshape->inputs[0], flat = reshape->outputs[0];
  const Ints* perm = transpose_perm(graph.producer(transposed));
  if (perm == nullptr || (*perm)[0] != 0) return std::nullopt;
  const std::vector<Dim>&t = graph.value(transposed).type.dims, &f = graph.value(flat).type.dims;
  if (f.size() != 2 || !(f[0] == t[0]) || !is_weight(graph, node.inputs[1])) return std::nullopt;
  std::optional<std::vector<int64_t>> dims = inner_dims(graph, transposed);
  if (!dims) return std::nullopt;
  // An empty batch can be flattened to any number of columns.
  const std::optional<int64_t> columns = graph.dims().value(f[1]);
  if (!columns || std::accumulate(dims->begin(), dims->end(), int64_t{1}, std::multiplies<>()) != *columns) return std::nullopt;
  dims->insert(dims->begin(), out_channels(graph, node));
  return Flatten{graph.value(flat).producer, graph.producer(transposed)->inputs[0], *perm, std::move(*dims)};
}

}  // namespace

Result<void> fold_flatten(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || node.op != Op::kFullyConnected) continue;
    const std::optional<Flatten> found = match(graph, node);
    if (!found) continue;
    const Value weights = graph.value(node.inputs[1]);
    const Constant moved = permuted(weights.constant, dtype_bytes(weights.type.dtype), found->weight_dims, inverse(found->perm));
    rewriter.set_input(found->reshape, 0, found->from);
    rewriter.set_input(n, 1, rewriter.constant(graph.fresh_name(weights.name), weights.type, moved, weights.quant));
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
