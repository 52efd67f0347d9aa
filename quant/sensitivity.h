// Which layers a quantization hurts: each alone in INT8, everything else float, and its error there and at the outputs.
#pragma once
#include <string>
#include <vector>

#include "quant/ptq.h"
#include "quant/sample_runner.h"

namespace lathe {

// Where a layer stands, if layers there are known to be sensitive.
enum class LayerPart : uint8_t { kInner, kFirst, kClassifier, kEmbedding };
const char* part_name(LayerPart part);  // "", "first layer", "classifier", "embedding"

// A node that a quantization makes INT8 and that is decided by itself: not one that only moves data.
struct Layer {
  NodeId node = kNoId;
  std::string name;
  std::string op;
  double macs_share = 0;  // of the graph's multiply-accumulates at batch 1
  LayerPart part = LayerPart::kInner;
};

// In the order of the graph. The first layer is the first with multiply-accumulates, the classifier the last. Errors: those of
// quantize_graph().
Result<std::vector<Layer>> int8_layers(const Graph& graph, const QuantizeOptions& options);

// `graph` with INT8 for one of `layers` alone, or for all but that one.
enum class Isolation : uint8_t { kAlone, kWithout };
Result<QuantizeResult> quantize_isolated(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options,
                                         const std::vector<Layer>& layers, size_t index, Isolation isolation);

struct LayerError {
  double local_db = 0;       // SQNR of the layer's result, its operands being exact but for their grid; NaN where it stays INT8
  double propagated_db = 0;  // SQNR of the graph's outputs
  double kl = 0;             // mean divergence of the first output's softmax, in nats
};
// Compares `float_graph`, which `reference` runs, with one that has a layer in INT8 alone on every sample of the source. Infinite
// SQNR: no difference.
Result<LayerError> layer_error(const Graph& float_graph, SampleRunner& reference, const Graph& isolated, const Layer& layer,
                               const SampleSource& source, const SessionOptions& session);

}  // namespace lathe
