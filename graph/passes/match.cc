#include "graph/passes/match.h"

#include <algorithm>

namespace lathe::passes {

bool is_float(const Graph& graph, ValueId v) {
  return v != kNoId && graph.value(v).type.dtype == DType::kF32 && !graph.value(v).quant;
}

std::optional<std::vector<float>> f32_constant(const Graph& graph, ValueId v) {
  if (!is_float(graph, v) || graph.value(v).kind != ValueKind::kConstant) return std::nullopt;
  const std::span<const float> values = graph.value(v).constant.as<float>();
  return std::vector<float>(values.begin(), values.end());
}

bool read_once(const Graph& graph, ValueId v) {
  if (graph.is_output(v)) return false;
  const std::vector<NodeId> readers = graph.consumers(v);
  if (readers.size() != 1) return false;
  const std::vector<ValueId>& in = graph.node(readers[0]).inputs;
  return std::count(in.begin(), in.end(), v) == 1;
}

std::optional<std::vector<int64_t>> known_dims(const Graph& graph, ValueId v) {
  std::vector<int64_t> dims;
  for (Dim d : graph.value(v).type.dims) {
    const std::optional<int64_t> n = graph.dims().value(d);
    if (!n) return std::nullopt;
    dims.push_back(*n);
  }
  return dims;
}

std::vector<uint32_t> positions(const Graph& graph) {
  std::vector<uint32_t> pos(graph.node_count(), 0);
  for (uint32_t i = 0; i < graph.order().size(); ++i) pos[graph.order()[i]] = i;
  return pos;
}

int64_t out_channels(const Graph& graph, const Node& node) {
  return graph.dims().value(graph.value(node.inputs[1]).type.dims[0]).value_or(0);
}

bool open_epilogue(const Graph& graph, const Node& node) {
  if (node.op != Op::kConv2d && node.op != Op::kConvTranspose2d && node.op != Op::kFullyConnected) return false;
  if (node.inputs.size() > 3 && node.inputs[3] != kNoId) return false;
  if (!is_float(graph, node.outputs[0])) return false;
  const ClampBounds c = *clamp_of(node.attrs);
  return c.lo == -kInfinity && c.hi == kInfinity;
}

std::optional<ClampBounds> clamp_of(const Attrs& attrs) {
  return std::visit(
      []<class A>(const A& a) -> std::optional<ClampBounds> {
        if constexpr (requires { a.lo; a.hi; }) {
          return ClampBounds{a.lo, a.hi};
        } else {
          return std::nullopt;
        }
      },
      attrs);
}

void set_clamp(Attrs& attrs, ClampBounds bounds) {
  std::visit(
      [&]<class A>(A& a) {
        if constexpr (requires { a.lo; a.hi; }) {
          a.lo = bounds.lo;
          a.hi = bounds.hi;
        }
      },
      attrs);
}

ClampBounds clamp_after(ClampBounds first, ClampBounds second) {
  const auto clamp = [&](float v) { return std::min(std::max(v, second.lo), second.hi); };
  return {clamp(first.lo), clamp(first.hi)};
}

std::optional<std::vector<float>> per_channel_constant(const Graph& graph, ValueId v, int64_t n) {
  std::optional<std::vector<float>> values = f32_constant(graph, v);
  const std::optional<std::vector<int64_t>> dims = values ? known_dims(graph, v) : std::nullopt;
  if (!dims || n <= 0) return std::nullopt;
  if (values->size() == 1) return std::vector<float>(static_cast<size_t>(n), values->front());
  if (values->size() != static_cast<size_t>(n) || dims->back() != n) return std::nullopt;
  return values;
}

ValueId new_f32_constant(Rewriter& rewriter, const std::string& stem, const std::vector<int64_t>& dims,
                         const std::vector<float>& values) {
  Graph& graph = rewriter.graph();
  TensorType type{DType::kF32, {}};
  for (int64_t d : dims) type.dims.push_back(graph.dims().constant(d));
  return rewriter.constant(graph.fresh_name(stem), std::move(type), Constant::of(values));
}

ValueId new_s64_constant(Rewriter& rewriter, const std::string& stem, const std::vector<int64_t>& values) {
  Graph& graph = rewriter.graph();
  TensorType type{DType::kS64, {graph.dims().constant(static_cast<int64_t>(values.size()))}};
  return rewriter.constant(graph.fresh_name(stem), std::move(type), Constant::of(values));
}

}  // namespace lathe::passes
