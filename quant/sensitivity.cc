#include "quant/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "data/metrics.h"
#include "graph/cost.h"
#include "graph/op_def.h"
#include "quant/decide.h"
#include "quant/layers.h"

namespace lathe {
namespace {

std::vector<double> softmax(std::span<const float> logits) {
  std::vector<double> p(logits.begin(), logits.end());
  const double top = *std::max_element(p.begin(), p.end());
  double total = 0;
  for (double& v : p) total += v = std::exp(v - top);
  for (double& v : p) v /= total;
  return p;
}

double divergence(std::span<const float> reference, std::span<const float> values) {
  if (reference.empty()) return 0;
  const std::vector<double> p = softmax(reference), q = softmax(values);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += p[i] * std::log(p[i] / std::max(q[i], 1e-300));
  return std::max(0.0, sum);  // rounding
}

// One run, and the values of one tensor on the way.
Result<std::vector<float>> run_and_catch(SampleRunner& runner, const SampleSource& source, uint64_t index, std::optional<uint32_t> tensor) {
  std::vector<float> caught;
  LATHE_CHECK_OK(runner.run(source, index, [&](uint32_t t, std::span<float> values) {
    if (t == tensor) caught.assign(values.begin(), values.end());
  }));
  return caught;
}

}  // namespace

const char* part_name(LayerPart part) {
  constexpr const char* kNames[] = {"", "first layer", "classifier", "embedding"};
  return kNames[static_cast<size_t>(part)];
}

Result<std::vector<Layer>> int8_layers(const Graph& graph, const QuantizeOptions& options) {
  LATHE_CHECK_OK(check_is_float(graph));
  LATHE_TRY(const std::vector<Decision> decisions, decide(graph, options));
  NodeId first = kNoId, last = kNoId;
  for (const NodeId n : graph.order()) {
    if (node_cost_macs(graph, graph.node(n)) == 0) continue;
    if (first == kNoId) first = n;
    last = n;
  }
  const double total = std::max(1.0, total_macs(graph));
  std::vector<Layer> layers;
  for (size_t i = 0; i < decisions.size(); ++i) {
    const NodeId id = graph.order()[i];
    const Node& node = graph.node(id);
    const bool moves = op_def(node.op).quant_out.role == QuantRole::kSameAs;
    if (!decisions[i].int8 || (moves && !decisions[i].by_row)) continue;
    const LayerPart part = decisions[i].by_row ? LayerPart::kEmbedding
                           : id == first       ? LayerPart::kFirst
                           : id == last        ? LayerPart::kClassifier
                                               : LayerPart::kInner;
    layers.push_back({id, node.name, op_name(node.op), node_cost_macs(graph, node) / total, part});
  }
  return layers;
}

Result<QuantizeResult> quantize_isolated(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options,
                                         const std::vector<Layer>& layers, size_t index, Isolation isolation) {
  QuantizeOptions one = options;
  for (size_t i = 0; i < layers.size(); ++i)
    if ((i == index) == (isolation == Isolation::kWithout)) one.keep_nodes.insert(layers[i].node);
  return quantize_graph(graph, ranges, one);
}

Result<LayerError> layer_error(const Graph& float_graph, SampleRunner& reference, const Graph& isolated, const Layer& layer,
                               const SampleSource& source, const SessionOptions& session) {
  LATHE_TRY(SampleRunner changed, SampleRunner::create(isolated, session));
  const std::string& name = float_graph.value(float_graph.node(layer.node).outputs[0]).name;
  const auto here = tensor_of(float_graph, reference, name);
  auto there = tensor_of(isolated, changed, name);
  if (!there) there = tensor_of(isolated, changed, name + ":f32");
  OutputDifference local, propagated;
  LayerError error;
  for (uint64_t i = 0; i < source.count; ++i) {
    LATHE_TRY(const std::vector<float> wanted, run_and_catch(reference, source, i, here));
    LATHE_TRY(const std::vector<float> got, run_and_catch(changed, source, i, there));
    if (there) local.add_common(wanted, got);
    auto a = reference.outputs(), b = changed.outputs();
    for (size_t o = 0; o < a.size(); ++o) {
      const size_t n = std::min(a[o].size(), b[o].size());  // a size may depend on data
      a[o] = a[o].first(n), b[o] = b[o].first(n);
      propagated.add(a[o], b[o]);
    }
    error.kl += divergence(a[0], b[0]) / static_cast<double>(source.count);
  }
  error.local_db = there ? local.sqnr_db() : std::nan("");
  error.propagated_db = propagated.sqnr_db();
  return error;
}

}  // namespace lathe
