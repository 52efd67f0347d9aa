// Activations that a model quantizes when it runs: DynamicQuantizeLinear, MatMulInteger, Cast and a Mul by both scales become a
// DynamicFullyConnected, with an Add of a bias behind them in it. Legal for a constant matrix of bytes whose zero points are the
// middle of their range, with one scale or one per column.
//
// Not the same to the last step: the op quantizes every row to its own symmetric grid, where the model takes one asymmetric grid
// for all rows. Both have 8 bits of the largest value; a row's result no longer depends on the others.
#include <algorithm>
#include <cmath>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/passes/permutation.h"

namespace lathe::passes {
namespace {

struct Match {
  ValueId x = kNoId;
  ValueId weight = kNoId;
  std::vector<float> scales;
};

// The node that makes v, if it is `op` and only what is being matched reads v.
const Node* made_by(const Graph& graph, ValueId v, Op op) {
  const Node* n = graph.producer(v);
  return n != nullptr && n->op == op ? n : nullptr;
}

// Zero points of bytes `t` that leave their range symmetric.
bool is_middle(const Graph& graph, ValueId zero, DType t) {
  const uint8_t middle = t == DType::kU8 ? 128 : 0;
  if (zero == kNoId) return middle == 0;
  if (graph.value(zero).kind != ValueKind::kConstant) return false;
  const auto bytes = graph.value(zero).constant.as<uint8_t>();
  return std::all_of(bytes.begin(), bytes.end(), [&](uint8_t b) { return b == middle; });
}

ValueId operand(const Node& node, size_t i) { return i < node.inputs.size() ? node.inputs[i] : kNoId; }

// `scale`: the product of the activation's and the weight's.
bool match_scale(const Graph& graph, ValueId scale, ValueId activation, Match* m) {
  const Node* product = made_by(graph, scale, Op::kMul);
  if (product == nullptr) return false;
  for (size_t i = 0; i < 2; ++i) {
    const auto values = f32_constant(graph, product->inputs[1 - i]);
    if (product->inputs[i] != activation || !values) continue;
    m->scales = *values;
    return std::all_of(values->begin(), values->end(), [](float s) { return std::isnormal(s) && s > 0; });
  }
  return false;
}

bool match_product(const Graph& graph, ValueId sum, ValueId scale, Match* m) {
  const Node* cast = made_by(graph, sum, Op::kCast);
  const Node* product = cast == nullptr ? nullptr : made_by(graph, cast->inputs[0], Op::kMatMulInteger);
  const Node* quantize = product == nullptr ? nullptr : made_by(graph, product->inputs[0], Op::kDynamicQuantizeLinear);
  if (quantize == nullptr || product->inputs[0] != quantize->outputs[0] || operand(*product, 2) != quantize->outputs[2])
    return false;
  m->x = quantize->inputs[0];
  m->weight = product->inputs[1];
  const Value& w = graph.value(m->weight);
  const auto dims = known_dims(graph, m->weight);
  if (w.kind != ValueKind::kConstant || !dims || dims->size() != 2 || !is_middle(graph, operand(*product, 3), w.type.dtype))
    return false;
  if (!match_scale(graph, scale, quantize->outputs[1], m)) return false;
  return m->scales.size() == 1 || m->scales.size() == static_cast<size_t>((*dims)[1]);
}

// The weight as [n, k] in s8.
ValueId new_weight(Rewriter& rewriter, const Match& m) {
  Graph& graph = rewriter.graph();
  const Value w = graph.value(m.weight);
  const Constant moved = permuted(w.constant, 1, *known_dims(graph, m.weight), Ints{2, {1, 0}});
  std::vector<uint8_t> bytes(moved.as<uint8_t>().begin(), moved.as<uint8_t>().end());
  if (w.type.dtype == DType::kU8)
    for (uint8_t& b : bytes) b ^= 0x80;
  const Quant quant{m.scales, std::vector<int32_t>(m.scales.size(), 0), m.scales.size() == 1 ? -1 : 0, -128, 127};
  return rewriter.constant(graph.fresh_name(w.name), {DType::kS8, {w.type.dims[1], w.type.dims[0]}}, Constant::of(bytes), quant);
}

// The Add of a constant vector that alone reads `v`, or kNoId; and the vector.
NodeId bias_of(const Graph& graph, ValueId v, int64_t n, ValueId* bias) {
  if (!read_once(graph, v)) return kNoId;
  const NodeId reader = graph.consumers(v)[0];
  const Node& add = graph.node(reader);
  if (add.op != Op::kAdd || clamp_of(add.attrs)->lo != -kInfinity || clamp_of(add.attrs)->hi != kInfinity) return kNoId;
  *bias = add.inputs[0] == v ? add.inputs[1] : add.inputs[0];
  const auto dims = known_dims(graph, *bias);
  return f32_constant(graph, *bias) && dims && *dims == std::vector<int64_t>{n} ? reader : kNoId;
}

bool fuse(Rewriter& rewriter, NodeId n) {
  Graph& graph = rewriter.graph();
  const Node node = graph.node(n);
  Match m;
  if (node.op != Op::kMul || clamp_of(node.attrs)->lo != -kInfinity || clamp_of(node.attrs)->hi != kInfinity ||
      (!match_product(graph, node.inputs[0], node.inputs[1], &m) &&
       !match_product(graph, node.inputs[1], node.inputs[0], &m)))
    return false;
  std::vector<ValueId> inputs = {m.x, new_weight(rewriter, m)};
  ValueId bias = kNoId;
  const NodeId add = bias_of(graph, node.outputs[0], (*known_dims(graph, m.weight))[1], &bias);
  const NodeId last = add == kNoId ? n : add;
  if (add != kNoId) inputs.push_back(bias);
  const ValueId made =
      rewriter.insert(last, Op::kDynamicFullyConnected, DynamicFullyConnectedAttrs{}, inputs, graph.fresh_name(node.name));
  rewriter.replace(graph.node(last).outputs[0], made);
  rewriter.erase(last);
  if (add != kNoId) rewriter.erase(n);
  rewriter.rename_producer(made, node.name);
  return true;
}

}  // namespace

Result<void> fuse_dynamic(Rewriter& rewriter) {
  for (const NodeId n : rewriter.nodes())
    if (!rewriter.graph().node(n).dead) fuse(rewriter, n);
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
