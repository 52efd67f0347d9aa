// Layer normalization that exporters write out becomes one op:
//
//   d = x - Mean(x);  y = d / Sqrt(Mean(d * d) + epsilon) * scale [+ bias]
//
// over the last axis, with constant scale and bias per element of it. All values between are float and read by nothing else; d
// may be computed twice (files from older exporters do).
#include <algorithm>
#include <cmath>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

bool no_clamp(const Node& node) {
  const std::optional<ClampBounds> c = clamp_of(node.attrs);
  return !c || (c->lo == -kInfinity && c->hi == kInfinity);
}

const Node* made_by(const Graph& graph, ValueId v, Op op) {
  const Node* node = graph.producer(v);
  return node != nullptr && node->op == op && is_float(graph, v) && no_clamp(*node) ? node : nullptr;
}

// The operand of a mean over the last axis that keeps it, or kNoId.
ValueId averaged(const Graph& graph, ValueId v) {
  const Node* mean = made_by(graph, v, Op::kMean);
  if (mean == nullptr) return kNoId;
  const auto& attrs = std::get<ReduceAttrs>(mean->attrs);
  const auto last = static_cast<int32_t>(graph.value(mean->inputs[0]).type.dims.size()) - 1;
  return attrs.keep_dims != 0 && attrs.axes.count == 1 && attrs.axes[0] == last ? mean->inputs[0] : kNoId;
}

// x of v = x - Mean(x), or kNoId.
ValueId centred(const Graph& graph, ValueId v) {
  const Node* difference = made_by(graph, v, Op::kSub);
  if (difference == nullptr || averaged(graph, difference->inputs[1]) != difference->inputs[0]) return kNoId;
  return difference->inputs[0];
}

struct Normalized {
  ValueId x;
  float epsilon;
  std::vector<ValueId> between;  // what only this pattern may read
};

// v = Sqrt(Mean(d * d) + epsilon), with d = x - Mean(x).
std::optional<Normalized> deviation(const Graph& graph, ValueId v) {
  const Node* root = made_by(graph, v, Op::kSqrt);
  const Node* sum = root == nullptr ? nullptr : made_by(graph, root->inputs[0], Op::kAdd);
  if (sum == nullptr) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const std::optional<std::vector<float>> epsilon = f32_constant(graph, sum->inputs[1 - side]);
    const ValueId squares = averaged(graph, sum->inputs[side]);
    const Node* square = squares == kNoId ? nullptr : made_by(graph, squares, Op::kMul);
    if (!epsilon || epsilon->size() != 1 || !(epsilon->front() >= 0) || square == nullptr) continue;
    const ValueId d = square->inputs[0], x = d == square->inputs[1] ? centred(graph, d) : kNoId;
    if (x != kNoId) return Normalized{x, epsilon->front(), {v, root->inputs[0], sum->inputs[side], squares}};
  }
  return std::nullopt;
}

// `node` = d / deviation, read by nothing but the pattern.
std::optional<Normalized> quotient(const Graph& graph, const Node& node) {
  if (node.op != Op::kDiv || !no_clamp(node)) return std::nullopt;
  const ValueId x = centred(graph, node.inputs[0]);
  std::optional<Normalized> n = x == kNoId ? std::nullopt : deviation(graph, node.inputs[1]);
  if (!n || n->x != x) return std::nullopt;
  for (ValueId v : n->between) {
    if (!read_once(graph, v)) return std::nullopt;
  }
  return n;
}

// The one reader of v and its constant per element of the last axis, if it is an `op`.
struct Affine1 {
  NodeId node;
  std::vector<float> values;
};
std::optional<Affine1> applied(const Graph& graph, ValueId v, Op op, int64_t n) {
  if (!read_once(graph, v)) return std::nullopt;
  const NodeId reader = graph.consumers(v)[0];
  const Node& node = graph.node(reader);
  if (node.op != op || !(graph.value(node.outputs[0]).type == graph.value(v).type)) return std::nullopt;
  std::optional<std::vector<float>> values = per_channel_constant(graph, node.inputs[node.inputs[0] == v ? 1 : 0], n);
  return values ? std::optional<Affine1>({reader, std::move(*values)}) : std::nullopt;
}

void fuse(Rewriter& rewriter, NodeId div) {
  const Graph& graph = rewriter.graph();
  const std::optional<Normalized> found = quotient(graph, graph.node(div));
  if (!found) return;
  const std::vector<Dim> dims = graph.value(found->x).type.dims;
  const int64_t n = graph.dims().value(dims.back()).value_or(0);
  const std::optional<Affine1> scale = applied(graph, graph.node(div).outputs[0], Op::kMul, n);
  if (!scale || !no_clamp(graph.node(scale->node))) return;
  NodeId last = scale->node;
  const std::string name = graph.node(last).name;
  std::vector<ValueId> operands = {found->x, new_f32_constant(rewriter, name + ".scale", {n}, scale->values)};
  const std::optional<Affine1> bias = applied(graph, graph.node(last).outputs[0], Op::kAdd, n);
  if (bias && no_clamp(graph.node(bias->node))) {
    last = bias->node;
    operands.push_back(new_f32_constant(rewriter, name + ".bias", {n}, bias->values));
  }
  rewriter.substitute(last, Op::kLayerNorm, LayerNormAttrs{static_cast<int32_t>(dims.size()) - 1, found->epsilon}, operands);
}

}  // namespace

Result<void> fuse_layer_norm(Rewriter& rewriter) {
  const Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    if (!graph.node(n).dead) fuse(rewriter, n);
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
