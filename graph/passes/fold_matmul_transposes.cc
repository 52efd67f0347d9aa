// Transposes around a MatMul become its permutations, float or quantized: it reads rows of a and writes rows of its result
// wherever they lie, and packs b whatever its order. So those of a and of the result go if they leave the last axis in place,
// those of b always. A Transpose that others read as well stays for them; one of the result must be its only reader.
#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/passes/permutation.h"

namespace lathe::passes {
namespace {

// A Transpose by `first`, then by `second`; the empty perm moves nothing.
Ints after(const Ints& first, const Ints& second) {
  const Ints both = first.count == 0 ? second : second.count == 0 ? first : compose(first, second);
  return is_identity(both) ? Ints{} : both;
}

bool keeps_last(const Ints& perm) { return perm.count == 0 || perm[perm.count - 1] == perm.count - 1; }

// Takes the Transpose that makes operand `i` into `perm`.
bool fold_operand(const Graph& graph, std::vector<ValueId>* inputs, size_t i, Ints* perm) {
  const Node* above = graph.producer((*inputs)[i]);
  const Ints* moved = transpose_perm(above);
  if (moved == nullptr) return false;
  const Ints folded = after(*moved, *perm);
  if (i == 0 && !keeps_last(folded)) return false;
  *perm = folded;
  (*inputs)[i] = above->inputs[0];
  return true;
}

void fold_operands(Rewriter& rewriter, NodeId n) {
  const Graph& graph = rewriter.graph();
  auto attrs = std::get<MatMulAttrs>(graph.node(n).attrs);
  std::vector<ValueId> inputs = graph.node(n).inputs;
  const bool a = fold_operand(graph, &inputs, 0, &attrs.a_perm), b = fold_operand(graph, &inputs, 1, &attrs.b_perm);
  if (a || b) rewriter.set_node(n, attrs, inputs);
}

void fold_result(Rewriter& rewriter, NodeId n) {
  Graph& graph = rewriter.graph();
  const ValueId result = graph.node(n).outputs[0];
  if (!read_once(graph, result)) return;
  const NodeId below = graph.consumers(result)[0];
  const Ints* moved = transpose_perm(graph, below);
  auto attrs = std::get<MatMulAttrs>(graph.node(n).attrs);
  if (moved == nullptr) return;
  attrs.y_perm = after(attrs.y_perm, *moved);
  if (!keeps_last(attrs.y_perm)) return;
  const ValueId out = graph.node(below).outputs[0];
  const std::string name = graph.node(n).name;
  const ValueId made =
      rewriter.insert(below, Op::kMatMul, attrs, graph.node(n).inputs, graph.fresh_name(name), graph.value(out).quant);
  rewriter.replace(out, made);
  rewriter.erase(below);
  rewriter.erase(n);
  rewriter.rename_producer(made, name);
}

}  // namespace

Result<void> fold_matmul_transposes(Rewriter& rewriter) {
  const Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    if (graph.node(n).dead || graph.node(n).op != Op::kMatMul) continue;
    fold_operands(rewriter, n);
    fold_result(rewriter, n);
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
