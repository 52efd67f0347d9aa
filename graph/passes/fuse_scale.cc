// A constant positive factor around a MatMul becomes its scale: Mul or Div of its result, or of an operand, by one number (an
// attention's 1 / sqrt(d)). The value between is float and read by the other node alone; a clamp between stays where it is.
#include <cmath>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

struct Scaled {
  ValueId value;  // what is multiplied
  float factor;
};

// `node` as a multiplication by one number above 0, without a clamp.
std::optional<Scaled> as_scaled(const Graph& graph, const Node& node) {
  if (node.op != Op::kMul && node.op != Op::kDiv) return std::nullopt;
  const ClampBounds c = *clamp_of(node.attrs);
  if (c.lo != -kInfinity || c.hi != kInfinity) return std::nullopt;
  for (const size_t side : {size_t{1}, size_t{0}}) {
    const std::optional<std::vector<float>> number = f32_constant(graph, node.inputs[side]);
    if (!number || number->size() != 1 || (side == 0 && node.op == Op::kDiv)) continue;
    const ValueId other = node.inputs[1 - side];
    // The number may have more axes than the other operand.
    if (!is_float(graph, other) || !(graph.value(other).type == graph.value(node.outputs[0]).type)) return std::nullopt;
    const float factor = node.op == Op::kDiv ? 1.0f / (*number)[0] : (*number)[0];
    if (!std::isnormal(factor) || factor < 0) return std::nullopt;
    return Scaled{other, factor};
  }
  return std::nullopt;
}

bool multiply(MatMulAttrs* attrs, float factor) {
  attrs->scale *= factor;
  return std::isnormal(attrs->scale);
}

void take_operand(Rewriter& rewriter, NodeId n, size_t i) {
  const Graph& graph = rewriter.graph();
  const ValueId in = graph.node(n).inputs[i];
  const Node* above = graph.producer(in);
  if (above == nullptr || !read_once(graph, in)) return;
  const std::optional<Scaled> scaled = as_scaled(graph, *above);
  auto attrs = std::get<MatMulAttrs>(graph.node(n).attrs);
  if (!scaled || !multiply(&attrs, scaled->factor)) return;
  rewriter.set_attrs(n, attrs);
  rewriter.set_input(n, i, scaled->value);
}

void take_reader(Rewriter& rewriter, NodeId n) {
  const Graph& graph = rewriter.graph();
  const ValueId result = graph.node(n).outputs[0];
  if (!read_once(graph, result)) return;
  const NodeId below = graph.consumers(result)[0];
  const std::optional<Scaled> scaled = as_scaled(graph, graph.node(below));
  auto attrs = std::get<MatMulAttrs>(graph.node(n).attrs);
  if (!scaled || scaled->value != result || attrs.lo != -kInfinity || attrs.hi != kInfinity) return;
  if (!multiply(&attrs, scaled->factor)) return;
  const ValueId out = graph.node(below).outputs[0];
  rewriter.set_attrs(n, attrs);
  rewriter.replace(out, result);
  rewriter.erase(below);
}

}  // namespace

Result<void> fuse_scale(Rewriter& rewriter) {
  const Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || node.op != Op::kMatMul || !is_float(graph, node.outputs[0])) continue;
    take_operand(rewriter, n, 0);
    take_operand(rewriter, n, 1);
    take_reader(rewriter, n);
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
