#include "quant/smooth.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/op_def.h"
#include "graph/rewriter.h"
#include "quant/layers.h"

namespace lathe {
namespace {

struct Norm {
  NodeId node = kNoId;
  std::vector<WeightedLayer> readers;
  size_t channels = 0;
};

// Length of a constant that is one number per channel; 0 for anything else.
size_t channel_count(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  if (value.kind != ValueKind::kConstant || value.type.dtype != DType::kF32 || value.type.dims.size() != 1) return 0;
  return static_cast<size_t>(graph.dims().value(value.type.dims[0]).value_or(0));
}

// Why a norm cannot be smoothed; empty, and *norm filled, if it can.
std::string obstacle(const Graph& graph, NodeId id, Norm* norm) {
  const Node& node = graph.node(id);
  norm->node = id;
  norm->channels = channel_count(graph, node.inputs[1]);
  if (norm->channels == 0) return "its scale is not one constant per channel";
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNoId && (channel_count(graph, node.inputs[i]) != norm->channels || graph.consumers(node.inputs[i]).size() != 1))
      return "its scale or bias serves other nodes, too";
  if (graph.is_output(node.outputs[0])) return "its result is an output of the graph";
  std::set<NodeId> seen;
  for (const NodeId reader : graph.consumers(node.outputs[0])) {
    if (!seen.insert(reader).second) continue;
    const auto layer = weighted_layer(graph, reader);
    const auto& inputs = graph.node(reader).inputs;
    const bool as_input = layer && std::count(inputs.begin(), inputs.end(), node.outputs[0]) == 1 && inputs[0] == node.outputs[0];
    if (!as_input) return "'" + graph.node(reader).name + "' reads its result, which has no weights to take the factors";
    if (layer->groups != 1 || layer->depth != norm->channels) return "'" + graph.node(reader).name + "' takes its channels in groups";
    if (graph.consumers(inputs[layer->weight]).size() != 1) return "the weights of '" + graph.node(reader).name + "' serve several layers";
    norm->readers.push_back(*layer);
  }
  return norm->readers.empty() ? "nothing reads it" : "";
}

std::vector<float> values_of(const Graph& graph, ValueId v) {
  const auto values = graph.value(v).constant.as<float>();
  return {values.begin(), values.end()};
}

void store(Rewriter& rewriter, NodeId node, size_t operand, const std::vector<float>& values) {
  Graph& graph = rewriter.graph();
  const Value old = graph.value(graph.node(node).inputs[operand]);
  rewriter.set_input(node, operand, rewriter.constant(graph.fresh_name(old.name + ":smooth"), old.type, Constant::of(values)));
}

double spread(const std::vector<float>& reach) {
  std::vector<float> sorted = reach;
  std::sort(sorted.begin(), sorted.end());
  const float middle = sorted[sorted.size() / 2];
  return middle > 0 ? static_cast<double>(sorted.back()) / static_cast<double>(middle) : 1;
}

SmoothedNorm apply(Graph& graph, const Norm& norm, std::vector<float> reach, double strength) {
  SmoothedNorm out{graph.node(norm.node).name, norm.readers.size(), spread(reach), 0};
  std::vector<float> of_weights(norm.channels, 0);
  for (const WeightedLayer& layer : norm.readers) {
    const std::vector<float> w = values_of(graph, graph.node(layer.node).inputs[layer.weight]);
    for (size_t i = 0; i < w.size(); ++i) of_weights[i % norm.channels] = std::max(of_weights[i % norm.channels], std::fabs(w[i]));
  }
  std::vector<int> exponents(norm.channels, 0);
  for (size_t c = 0; c < norm.channels; ++c) {
    if (!(reach[c] > 0) || !(of_weights[c] > 0)) continue;
    exponents[c] = static_cast<int>(std::lround(strength * std::log2(static_cast<double>(reach[c])) -
                                                (1 - strength) * std::log2(static_cast<double>(of_weights[c]))));
    reach[c] = std::ldexp(reach[c], -exponents[c]);
  }
  out.spread_after = spread(reach);
  Rewriter rewriter(graph);
  const size_t operands = graph.node(norm.node).inputs.size();
  for (size_t i = 1; i < operands; ++i) {
    if (graph.node(norm.node).inputs[i] == kNoId) continue;
    std::vector<float> v = values_of(graph, graph.node(norm.node).inputs[i]);
    for (size_t c = 0; c < v.size(); ++c) v[c] = std::ldexp(v[c], -exponents[c]);
    store(rewriter, norm.node, i, v);
  }
  for (const WeightedLayer& layer : norm.readers) {
    std::vector<float> w = values_of(graph, graph.node(layer.node).inputs[layer.weight]);
    for (size_t i = 0; i < w.size(); ++i) w[i] = std::ldexp(w[i], exponents[i % norm.channels]);
    store(rewriter, layer.node, layer.weight, w);
  }
  rewriter.sweep();
  return out;
}

}  // namespace

Result<SmoothResult> smooth(Graph& graph, const SampleSource& source, const SessionOptions& session, double strength) {
  SmoothResult result;
  std::vector<Norm> norms;
  for (const NodeId n : graph.order()) {
    if (!op_def(graph.node(n).op).channel_affine) continue;
    Norm norm;
    if (const std::string why = obstacle(graph, n, &norm); !why.empty()) result.skipped.push_back(graph.node(n).name + ": " + why);
    else norms.push_back(std::move(norm));
  }
  LATHE_TRY(SampleRunner runner, SampleRunner::create(graph, session));
  std::map<uint32_t, std::vector<float>> reach;  // by tensor
  std::vector<std::optional<uint32_t>> tensors;
  for (const Norm& norm : norms) {
    tensors.push_back(tensor_of(graph, runner, graph.value(graph.node(norm.node).outputs[0]).name));
    if (tensors.back()) reach[*tensors.back()].assign(norm.channels, 0);
  }
  for (uint64_t i = 0; i < source.count && !norms.empty(); ++i)
    LATHE_CHECK_OK(runner.run(source, i, [&](uint32_t t, std::span<float> values) {
      const auto found = reach.find(t);
      if (found == reach.end()) return;
      const size_t channels = found->second.size();
      for (size_t k = 0; k < values.size(); ++k) found->second[k % channels] = std::max(found->second[k % channels], std::fabs(values[k]));
    }));
  for (size_t k = 0; k < norms.size(); ++k) {
    if (tensors[k]) result.norms.push_back(apply(graph, norms[k], reach[*tensors[k]], strength));
    else result.skipped.push_back(graph.node(norms[k].node).name + ": its result is not seen");
  }
  return result;
}

}  // namespace lathe
