#include "quant/layers.h"

#include <algorithm>
#include <map>

#include "graph/op_def.h"

namespace lathe {

std::optional<WeightedLayer> weighted_layer(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const OpDef& def = op_def(node.op);
  if (def.as_convolution == nullptr) return {};
  WeightedLayer layer{.node = id};
  layer.conv = def.as_convolution(node.attrs);
  const auto is_constant = [&](size_t i) { return graph.value(node.inputs[i]).kind == ValueKind::kConstant; };
  for (size_t i = 1; i < def.max_inputs; ++i) {
    const QuantRole role = quant_rule(def, i).role;
    const bool there = i < node.inputs.size() && node.inputs[i] != kNoId;
    if (role == QuantRole::kWeight) layer.weight = i;
    else if (role == QuantRole::kBias) layer.bias = i, layer.has_bias = there && is_constant(i);
    if (there && role != QuantRole::kWeight && !(role == QuantRole::kBias && is_constant(i))) layer.has_residual = true;
  }
  if (layer.weight == 0 || !is_constant(layer.weight)) return {};
  const std::vector<Dim>& dims = graph.value(node.inputs[layer.weight]).type.dims;
  std::vector<uint32_t> sizes;
  for (const Dim d : dims) sizes.push_back(static_cast<uint32_t>(graph.dims().value(d).value_or(0)));
  layer.outputs = sizes[0], layer.depth = sizes.back();
  layer.groups = static_cast<uint32_t>(layer.conv.groups);
  if (sizes.size() == 4) layer.kernel[0] = sizes[1], layer.kernel[1] = sizes[2];
  layer.taps = layer.kernel[0] * layer.kernel[1];
  if (layer.row() == 0 || layer.outputs == 0 || layer.outputs % layer.groups != 0) return {};
  return layer;
}

std::vector<WeightedLayer> weighted_layers(const Graph& graph) {
  std::vector<WeightedLayer> layers;
  for (const NodeId n : graph.order())
    if (auto layer = weighted_layer(graph, n)) layers.push_back(*layer);
  return layers;
}

float weight_scale(const Quant& quant, size_t channel) { return quant.scales[quant.scales.size() == 1 ? 0 : channel]; }

std::vector<LayerPair> layer_pairs(const Graph& graph, const Graph& quantized) {
  std::map<std::string, WeightedLayer> by_name;
  for (const WeightedLayer& layer : weighted_layers(graph)) by_name.emplace(graph.node(layer.node).name, layer);
  std::vector<LayerPair> pairs;
  for (const WeightedLayer& layer : weighted_layers(quantized)) {
    const auto found = by_name.find(quantized.node(layer.node).name);
    if (found != by_name.end() && quantized.value(quantized.node(layer.node).inputs[layer.weight]).type.dtype == DType::kS8)
      pairs.push_back({found->second, layer});
  }
  return pairs;
}

Patches::Patches(const WeightedLayer& layer, const Shape& shape) : layer_(layer) {
  // What is no image is a row of pixels: a fully connected layer takes the last axis of anything.
  channels_ = shape.dims[shape.rank - 1];
  const bool image = shape.rank == 4;
  height_ = image ? shape.dims[1] : 1;
  width_ = image ? shape.dims[2] : static_cast<int32_t>(shape.elems()) / std::max(1, channels_);
  const auto extent = [&](int axis, int32_t size) {
    const int32_t reach = layer.conv.dilation[axis] * (static_cast<int32_t>(layer.kernel[axis]) - 1) + 1;
    return (size + layer.conv.pad[axis] + layer.conv.pad[2 + axis] - reach) / layer.conv.stride[axis] + 1;
  };
  const int32_t out_height = extent(0, height_);
  out_width_ = extent(1, width_);
  per_image_ = static_cast<size_t>(out_height) * static_cast<size_t>(out_width_);
  positions_ = per_image_ * (image ? static_cast<size_t>(shape.dims[0]) : 1);
}

void Patches::copy(std::span<const float> input, size_t position, uint32_t group, float* to) const {
  const auto image = static_cast<int32_t>(position / per_image_);
  const auto in_image = static_cast<int32_t>(position % per_image_);
  const int32_t oy = in_image / out_width_, ox = in_image % out_width_;
  const auto depth = static_cast<int32_t>(layer_.depth);
  for (uint32_t ky = 0; ky < layer_.kernel[0]; ++ky)
    for (uint32_t kx = 0; kx < layer_.kernel[1]; ++kx, to += depth) {
      const int32_t y = oy * layer_.conv.stride[0] + static_cast<int32_t>(ky) * layer_.conv.dilation[0] - layer_.conv.pad[0];
      const int32_t x = ox * layer_.conv.stride[1] + static_cast<int32_t>(kx) * layer_.conv.dilation[1] - layer_.conv.pad[1];
      if (y < 0 || y >= height_ || x < 0 || x >= width_) {
        std::fill_n(to, depth, 0.0f);
        continue;
      }
      const auto at = (static_cast<size_t>(image * height_ + y) * static_cast<size_t>(width_) + static_cast<size_t>(x)) *
                          static_cast<size_t>(channels_) +
                      size_t{group} * layer_.depth;
      std::copy_n(input.begin() + static_cast<ptrdiff_t>(at), depth, to);
    }
}

std::optional<uint32_t> tensor_of(const Graph& graph, const SampleRunner& runner, const std::string& value) {
  const auto all = runner.activations();
  for (uint32_t t = 0; t < all.size(); ++t)
    if (all[t] != kNoId && graph.value(all[t]).name == value) return t;
  return {};
}

}  // namespace lathe
