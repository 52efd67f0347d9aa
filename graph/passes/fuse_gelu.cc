// The GELU that exporters write with the error function becomes one op: x * (1 + erf(x / sqrt 2)) * 0.5, whose two products may
// be nested in any way and whose x / sqrt 2 may be a product. All values between are float and read once; no node between clamps.
#include <cmath>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

// Constants of the pattern are rounded in files, some to few digits.
bool near(float v, double wanted) { return std::fabs(static_cast<double>(v) / wanted - 1.0) < 1e-4; }

std::optional<float> number(const Graph& graph, ValueId v) {
  const std::optional<std::vector<float>> values = f32_constant(graph, v);
  return values && values->size() == 1 ? std::optional<float>(values->front()) : std::nullopt;
}

const Node* open_node(const Graph& graph, ValueId v, Op op) {
  const Node* node = graph.producer(v);
  if (node == nullptr || node->op != op || !is_float(graph, v)) return nullptr;
  const std::optional<ClampBounds> c = clamp_of(node->attrs);
  return !c || (c->lo == -kInfinity && c->hi == kInfinity) ? node : nullptr;
}

// The other operand of a binary node that has the number `wanted` on one side; only on the right if `ordered`.
ValueId beside_number(const Graph& graph, const Node& node, double wanted, bool ordered) {
  for (const size_t side : {size_t{1}, size_t{0}}) {
    const std::optional<float> n = number(graph, node.inputs[side]);
    if (n && near(*n, wanted) && !(ordered && side == 0)) return node.inputs[1 - side];
  }
  return kNoId;
}

// x of `v` = 1 + erf(x / sqrt 2), or kNoId.
ValueId erf_operand(const Graph& graph, ValueId v) {
  const Node* sum = open_node(graph, v, Op::kAdd);
  if (sum == nullptr || !read_once(graph, v)) return kNoId;
  const ValueId e = beside_number(graph, *sum, 1.0, false);
  const Node* erf = e == kNoId ? nullptr : open_node(graph, e, Op::kErf);
  if (erf == nullptr || !read_once(graph, e) || !read_once(graph, erf->inputs[0])) return kNoId;
  if (const Node* quotient = open_node(graph, erf->inputs[0], Op::kDiv)) return beside_number(graph, *quotient, M_SQRT2, true);
  const Node* scaled = open_node(graph, erf->inputs[0], Op::kMul);
  return scaled == nullptr ? kNoId : beside_number(graph, *scaled, M_SQRT1_2, false);
}

// The three factors of a product of two products, one of which only the other reads.
std::vector<std::vector<ValueId>> factors(const Graph& graph, const Node& root) {
  std::vector<std::vector<ValueId>> found;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Node* inner = open_node(graph, root.inputs[side], Op::kMul);
    if (inner == nullptr || !read_once(graph, root.inputs[side])) continue;
    found.push_back({inner->inputs[0], inner->inputs[1], root.inputs[1 - side]});
  }
  return found;
}

// x if `root` is GELU of it, or kNoId.
ValueId gelu_operand(const Graph& graph, NodeId root) {
  const Node* node = open_node(graph, graph.node(root).outputs[0], Op::kMul);
  if (node == nullptr) return kNoId;
  for (const std::vector<ValueId>& f : factors(graph, *node)) {
    for (size_t i = 0; i < 3; ++i) {
      const ValueId x = erf_operand(graph, f[i]), p = f[(i + 1) % 3], q = f[(i + 2) % 3];
      if (x == kNoId || (x != p && x != q)) continue;
      const std::optional<float> half = number(graph, x == p ? q : p);
      if (half && near(*half, 0.5) && graph.value(x).type == graph.value(node->outputs[0]).type) return x;
    }
  }
  return kNoId;
}

}  // namespace

Result<void> fuse_gelu(Rewriter& rewriter) {
  const Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    const ValueId x = node.dead || node.op != Op::kMul ? kNoId : gelu_operand(graph, n);
    if (x != kNoId) rewriter.substitute(n, Op::kGelu, GeluAttrs{}, {x});
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
