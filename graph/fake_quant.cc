#include "graph/fake_quant.h"

#include "lathe/arith.h"

namespace lathe {
namespace {

const Node* made_by(const Graph& graph, ValueId v, Op op) {
  const Node* node = graph.producer(v);
  return node != nullptr && node->op == op ? node : nullptr;
}

std::vector<float> elements(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  if (value.kind != ValueKind::kConstant) return {};
  const auto values = value.constant.as<float>();
  return {values.begin(), values.end()};
}

// Empty if they are not known.
std::vector<float> scales_of(const Graph& graph, ValueId v) {
  const Node* step = made_by(graph, v, Op::kStepSize);
  if (step == nullptr) return elements(graph, v);
  const auto& a = std::get<ClampAttrs>(step->attrs);
  std::vector<float> factors = elements(graph, step->inputs[0]), scales = elements(graph, step->inputs[1]);
  if (factors.empty()) return {};
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = min_f32(max_f32(factors[i], a.lo), a.hi) * scales[i];
  return scales;
}

}  // namespace

std::optional<OnGrid> on_grid(const Graph& graph, ValueId v) {
  const Node* node = made_by(graph, v, Op::kFakeQuant);
  if (node == nullptr) return {};
  const auto& a = std::get<FakeQuantAttrs>(node->attrs);
  std::vector<float> scales = scales_of(graph, node->inputs[1]);
  if (scales.empty()) return {};
  const size_t n = scales.size();
  return OnGrid{graph.value(v).producer, node->inputs[0], {std::move(scales), std::vector<int32_t>(n, a.zero_point), a.axis, a.qmin, a.qmax}};
}

ValueId without_grid(const Graph& graph, ValueId v) {
  const Node* node = made_by(graph, v, Op::kFakeQuant);
  return node == nullptr ? v : node->inputs[0];
}

}  // namespace lathe
