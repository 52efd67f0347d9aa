// Layers with constant weights, seen as one thing whatever op they are: a convolution; a fully connected layer is one of single pixels.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "graph/ir.h"
#include "lathe/shape.h"
#include "quant/sample_runner.h"

namespace lathe {

struct WeightedLayer {
  NodeId node = kNoId;
  size_t weight = 0, bias = 0;  // operands; bias: where it stands or would stand
  bool has_bias = false, has_residual = false;  // a bias that is computed is a residual, too
  Conv2dAttrs conv = {};
  uint32_t outputs = 0, groups = 1, taps = 0, depth = 0;  // taps: kernel positions; depth: input channels of a group
  uint32_t kernel[2] = {1, 1};
  size_t row() const { return size_t{taps} * depth; }  // weights of one output channel: [taps][depth]
  uint32_t group_of(uint32_t output) const { return output / (outputs / groups); }
};

// Nothing if the node has no weights, or they are not constant.
std::optional<WeightedLayer> weighted_layer(const Graph& graph, NodeId id);
// All of them, in order.
std::vector<WeightedLayer> weighted_layers(const Graph& graph);

// Of an output channel's weights.
float weight_scale(const Quant& quant, size_t channel);

// A layer with float weights, and what quantize_graph() made of it.
struct LayerPair {
  WeightedLayer real, integer;
};
// Those with s8 weights, in the order of `quantized`.
std::vector<LayerPair> layer_pairs(const Graph& graph, const Graph& quantized);

// Input windows of a layer: for every output position and group the [taps][depth] values that weights meet, zeros where they meet padding.
class Patches {
 public:
  // `shape`: of the layer's input, channels last; of any rank where the layer is one of single pixels.
  Patches(const WeightedLayer& layer, const Shape& shape);
  size_t positions() const { return positions_; }
  // Writes row() values.
  void copy(std::span<const float> input, size_t position, uint32_t group, float* to) const;

 private:
  const WeightedLayer& layer_;
  int32_t height_, width_, out_width_, channels_;
  size_t positions_, per_image_;
};

// The program's tensor that is a value of that name; nothing where there is none that a runner sees.
std::optional<uint32_t> tensor_of(const Graph& graph, const SampleRunner& runner, const std::string& value);

}  // namespace lathe
