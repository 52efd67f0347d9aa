// LayerNorm on s8: g = scale / s_y and b = bias / s_y, in double and rounded once.
#include <algorithm>
#include <cmath>

#include "graph/lower/lowering.h"
#include "lathe/arith.h"

namespace lathe {
namespace {

// The elements of operand i over s_y; zeros if it is missing.
Result<std::vector<float>> over_scale(const Graph& graph, const Node& node, size_t i, size_t n, float s_y) {
  std::vector<float> out(n, 0.0f);
  if (i >= node.inputs.size() || node.inputs[i] == kNoId) return out;
  const Value& v = graph.value(node.inputs[i]);
  if (v.kind != ValueKind::kConstant) return fail(Code::kUnsupported, "operand '" + v.name + "' is not constant");
  const std::span<const float> values = v.constant.as<float>();
  for (size_t k = 0; k < n; ++k) {
    out[k] = static_cast<float>(static_cast<double>(values[k]) / static_cast<double>(s_y));
    if (!std::isfinite(out[k]))
      return fail(Code::kInvalidArgument, "operand '" + v.name + "', element " + std::to_string(k) + ": " +
                                              std::to_string(values[k]) + " / " + std::to_string(s_y) +
                                              " is not finite in float32");
  }
  return out;
}

}  // namespace

Result<void> lower_layer_norm(Lowering& state, const Node& node) {
  const Graph& graph = state.graph;
  const float epsilon = std::get<LayerNormAttrs>(node.attrs).epsilon;
  LATHE_TRY(const QuantParams x, tensor_quant(graph.value(node.inputs[0])));
  LATHE_TRY(const QuantParams y, tensor_quant(graph.value(node.outputs[0])));
  LATHE_TRY(const std::vector<int64_t> dims, static_dims(graph, node.inputs[1]));
  constexpr int64_t kTooMany = kMaxLayerNorm + int64_t{1};
  int64_t n = 1;
  for (const int64_t d : dims) n = std::min<int64_t>(n * std::min<int64_t>(d, kTooMany), kTooMany);
  if (n < 1 || n > kMaxLayerNorm)
    return fail(Code::kUnsupported, "a row has no elements or more than " + std::to_string(kMaxLayerNorm));
  const double scale = static_cast<double>(x.scale), rows = static_cast<double>(n);
  const auto c = static_cast<float>(rows * rows * static_cast<double>(epsilon) / (scale * scale));
  if (!(c > 0) || !std::isfinite(c))
    return fail(Code::kInvalidArgument, "epsilon " + std::to_string(epsilon) + " at scale " + std::to_string(x.scale) +
                                            " is not finite and positive in steps of the input");
  LATHE_TRY(const std::vector<float> g, over_scale(graph, node, 1, static_cast<size_t>(n), y.scale));
  LATHE_TRY(const std::vector<float> b, over_scale(graph, node, 2, static_cast<size_t>(n), y.scale));
  const int64_t vector_dims[] = {n};
  std::vector<uint32_t> in(3, kNoTensor);
  LATHE_TRY(in[0], state.operand(node.inputs[0]));
  LATHE_TRY(in[1], state.derived(g, DType::kF32, vector_dims));
  LATHE_TRY(in[2], state.derived(b, DType::kF32, vector_dims));
  return state.emit(node, node.op, node.attrs, std::move(in));
}

}  // namespace lathe
