// Importers wrap every convolution-like op in Transposes (NCHW in, NHWC inside). This pass makes them few: it composes
// neighbours, drops identities and duplicates, folds those of constants, bypasses those that a Reshape or a reduction does not
// see, and moves whole regions of layout-free ops to the other order of axes where that removes more Transposes than it inserts
// (graph/passes/transpose_region.h).
//
// It ends, because every step lowers (number of Transposes, their distance from the graph's outputs), in this order. That can take
// the cube of the number of nodes, which a file can be made for, so the work is bounded; what is left undone only costs time.
#include "graph/op_def.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/passes/permutation.h"
#include "graph/passes/transpose_region.h"

namespace lathe::passes {
namespace {

// All rules take a live Transpose node and return whether they changed the graph.

bool fold_constant_operand(Rewriter& rewriter, NodeId n, const Ints& perm) {
  Graph& graph = rewriter.graph();
  const ValueId in = graph.node(n).inputs[0], out = graph.node(n).outputs[0];
  const Value value = graph.value(in);
  const std::optional<std::vector<int64_t>> dims = known_dims(graph, in);
  if (value.kind != ValueKind::kConstant || !dims || (value.quant && value.quant->axis >= 0) || graph.is_output(out))
    return false;
  const Constant moved = permuted(value.constant, dtype_bytes(value.type.dtype), *dims, perm);
  rewriter.replace(out, rewriter.constant(graph.fresh_name(value.name), graph.value(out).type, moved, value.quant));
  rewriter.erase(n);
  return true;
}

bool drop_identity(Rewriter& rewriter, NodeId n, const Ints& perm) {
  Graph& graph = rewriter.graph();
  const ValueId in = graph.node(n).inputs[0], out = graph.node(n).outputs[0];
  if (!is_identity(perm)) return false;
  if (graph.is_output(out) && (graph.value(in).kind != ValueKind::kTemporary || graph.is_output(in))) return false;
  rewriter.replace(out, in);
  rewriter.erase(n);
  return true;
}

bool compose_with_producer(Rewriter& rewriter, NodeId n, const Ints& perm) {
  Graph& graph = rewriter.graph();
  const Node* above = graph.producer(graph.node(n).inputs[0]);
  const Ints* first = transpose_perm(above);
  if (first == nullptr) return false;
  rewriter.substitute(n, Op::kTranspose, PermAttrs{compose(*first, perm)}, {above->inputs[0]});
  return true;
}

bool merge_with_twin(Rewriter& rewriter, NodeId n, const Ints& perm) {
  Graph& graph = rewriter.graph();
  const ValueId out = graph.node(n).outputs[0];
  for (NodeId other : graph.consumers(graph.node(n).inputs[0])) {
    const Ints* p = transpose_perm(graph, other);
    if (other == n) return false;  // the first of the twins stays
    if (p == nullptr || !(*p == perm)) continue;
    const ValueId twin = graph.node(other).outputs[0];
    if (graph.is_output(out) && graph.is_output(twin)) continue;
    rewriter.replace(out, twin);
    rewriter.erase(n);
    return true;
  }
  return false;
}

// A reduction that drops its axes gives the same from the operand of a Transpose if the axes that stay keep their order.
bool bypass_reduction(Rewriter& rewriter, NodeId reader, ValueId transposed, ValueId from, const Ints& perm) {
  const Node& node = rewriter.graph().node(reader);
  const OpDef& def = op_def(node.op);
  if (!def.layout_free || def.permute == nullptr || node.op == Op::kTranspose || node.inputs[0] != transposed ||
      node.inputs.size() != 1)
    return false;
  Attrs attrs = node.attrs;
  const Ints left = def.permute(attrs, perm);
  if (left.count >= perm.count || !is_identity(left)) return false;
  rewriter.substitute(reader, node.op, attrs, {from});
  return true;
}

// Readers that give the same from the operand of the Transpose. The Transpose goes with its last reader.
bool bypass_readers(Rewriter& rewriter, NodeId n, const Ints& perm) {
  Graph& graph = rewriter.graph();
  const ValueId in = graph.node(n).inputs[0], out = graph.node(n).outputs[0];
  const bool same_bytes = moves_only_ones(graph.dims(), graph.value(in).type, perm);
  bool changed = false;
  for (NodeId reader : graph.consumers(out)) {
    if (same_bytes && graph.node(reader).op == Op::kReshape && graph.node(reader).inputs[0] == out) {
      rewriter.set_input(reader, 0, in);
      changed = true;
    } else {
      changed = bypass_reduction(rewriter, reader, out, in, perm) || changed;
    }
  }
  return changed;
}

// A Transpose of a Reshape's result that moves only axes of size 1 is a Reshape to the final dims, or nothing.
bool merge_into_reshape(Rewriter& rewriter, NodeId n, const Ints& perm) {
  Graph& graph = rewriter.graph();
  const Node* above = graph.producer(graph.node(n).inputs[0]);
  if (above == nullptr || above->op != Op::kReshape) return false;
  if (!moves_only_ones(graph.dims(), graph.value(above->outputs[0]).type, perm)) return false;
  const ValueId out = graph.node(n).outputs[0], from = above->inputs[0];
  if (graph.value(from).type == graph.value(out).type && !graph.is_output(out)) {
    rewriter.replace(out, from);
    rewriter.erase(n);
    return true;
  }
  std::vector<int64_t> shape;
  int unknown = 0;
  for (Dim d : graph.value(out).type.dims) {
    shape.push_back(graph.dims().value(d).value_or(-1));
    unknown += shape.back() < 0 ? 1 : 0;
  }
  if (unknown > 1) return false;
  const ValueId target = new_s64_constant(rewriter, graph.value(out).name + ".shape", shape);
  rewriter.substitute(n, Op::kReshape, NoAttrs{}, {from, target});
  return true;
}

// Transposes that nobody reads would count in the next decision.
bool erase_unread(Rewriter& rewriter, NodeId n) {
  const Graph& graph = rewriter.graph();
  const ValueId out = graph.node(n).outputs[0];
  if (graph.is_output(out) || !graph.consumers(out).empty()) return false;
  rewriter.erase(n);
  return true;
}

bool apply_simple_rules(Rewriter& rewriter, NodeId n) {
  const Ints perm = *transpose_perm(rewriter.graph(), n);
  return erase_unread(rewriter, n) || fold_constant_operand(rewriter, n, perm) || drop_identity(rewriter, n, perm) ||
         compose_with_producer(rewriter, n, perm) || merge_with_twin(rewriter, n, perm) || bypass_readers(rewriter, n, perm) ||
         merge_into_reshape(rewriter, n, perm);
}

bool convert_if_better(Rewriter& rewriter, NodeId seed, const Ints& q) {
  const Graph& graph = rewriter.graph();
  if (seed == kNoId || !can_permute(graph, seed, q)) return false;
  for (const Region& region : {grow_region(graph, seed, q), single_region(seed, q)}) {
    const RegionCost cost = region_cost(graph, region);
    if (cost.gain() <= 0 && !cost.sinks()) continue;
    convert_region(rewriter, region);
    return true;
  }
  return false;
}

bool move_regions(Rewriter& rewriter, NodeId n) {
  const Graph& graph = rewriter.graph();
  const Ints perm = *transpose_perm(graph, n);
  if (is_identity(perm)) return false;  // a second name for an output
  for (NodeId reader : graph.consumers(graph.node(n).outputs[0])) {
    if (convert_if_better(rewriter, reader, perm)) return true;
  }
  return convert_if_better(rewriter, graph.value(graph.node(n).inputs[0]).producer, inverse(perm));
}

// Applies simple rules until none matches.
void simplify(Rewriter& rewriter) {
  bool changed = true;
  while (changed && rewriter.ok()) {
    changed = false;
    for (NodeId n : rewriter.nodes()) {
      if (transpose_perm(rewriter.graph(), n) != nullptr) changed = apply_simple_rules(rewriter, n) || changed;
    }
  }
}

// Moves one region; costs are compared on simplified graphs only.
bool move_one_region(Rewriter& rewriter) {
  for (NodeId n : rewriter.nodes()) {
    if (transpose_perm(rewriter.graph(), n) != nullptr && move_regions(rewriter, n)) return true;
  }
  return false;
}

}  // namespace

Result<void> cancel_transposes_within(Rewriter& rewriter, uint64_t pairs) {
  // A round looks for the readers of every Transpose among all nodes, and an edit walks through them.
  uint64_t used = 0;
  int edits = rewriter.edits();
  do {
    simplify(rewriter);
    const uint64_t nodes = rewriter.graph().order().size(), edited = static_cast<uint64_t>(rewriter.edits() - edits);
    used += nodes * (nodes + 8 * edited);
    edits = rewriter.edits();
  } while (rewriter.ok() && used < pairs && move_one_region(rewriter));
  rewriter.sweep();
  return rewriter.ok();
}

Result<void> cancel_transposes(Rewriter& rewriter) {
  // Some twenty seconds. Networks of a few hundred nodes use a thousandth of it.
  return cancel_transposes_within(rewriter, uint64_t{1} << 34);
}

}  // namespace lathe::passes
