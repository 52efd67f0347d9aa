// BatchNorm(conv) becomes a convolution with other weights: w'[c] = w[c] * scale[c], b'[c] = b[c] * scale[c] + shift[c] (Jacob et
// al. 2018, section 3.2). Legal only if the BatchNorm alone reads the result, runs along its channel axis, all parameters are
// constant, and the op has no residual or clamp. Any number of groups: c is the output channel. Computed in double, rounded once.
#include <cmath>

#include "graph/passes/affine.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

struct Folded {
  std::vector<float> weights;
  std::vector<float> bias;
  ChannelMoments moments;  // a batch norm's results have its shift as mean and the size of its scale as deviation
};

std::optional<std::vector<float>> old_bias(const Graph& graph, const Node& conv, size_t channels) {
  if (conv.inputs.size() < 3 || conv.inputs[2] == kNoId) return std::vector<float>(channels, 0.0f);
  return f32_constant(graph, conv.inputs[2]);
}

std::optional<Folded> fold(const Graph& graph, const Node& conv, const Affine& affine) {
  const size_t channels = affine.scale.size();
  std::optional<std::vector<float>> weights = f32_constant(graph, conv.inputs[1]), bias = old_bias(graph, conv, channels);
  if (!weights || !bias || bias->size() != channels || weights->size() % channels != 0) return std::nullopt;
  const size_t per_channel = weights->size() / channels;
  for (size_t i = 0; i < weights->size(); ++i) {
    (*weights)[i] = static_cast<float>((*weights)[i] * affine.scale[i / per_channel]);
    if (!std::isfinite((*weights)[i])) return std::nullopt;
  }
  for (size_t c = 0; c < channels; ++c) {
    (*bias)[c] = static_cast<float>((*bias)[c] * affine.scale[c] + affine.shift[c]);
    if (!std::isfinite((*bias)[c])) return std::nullopt;
  }
  return Folded{std::move(*weights), std::move(*bias), {}};
}

std::optional<Folded> match(const Graph& graph, const Node& batchnorm) {
  const ValueId between = batchnorm.inputs[0];
  const Node* conv = graph.producer(between);
  if (conv == nullptr || !open_epilogue(graph, *conv) || !read_once(graph, between)) return std::nullopt;
  const size_t rank = graph.value(between).type.dims.size();
  if (static_cast<size_t>(std::get<BatchNormAttrs>(batchnorm.attrs).axis) + 1 != rank) return std::nullopt;
  const std::optional<Affine> affine = batchnorm_affine(graph, batchnorm);
  if (!affine || affine->scale.empty() || static_cast<int64_t>(affine->scale.size()) != out_channels(graph, *conv))
    return std::nullopt;
  std::optional<Folded> folded = fold(graph, *conv, *affine);
  const auto scale = f32_constant(graph, batchnorm.inputs[1]), shift = f32_constant(graph, batchnorm.inputs[2]);
  if (!folded || !scale || !shift) return folded;
  folded->moments.mean = *shift;
  for (const float g : *scale) folded->moments.deviation.push_back(std::fabs(g));
  return folded;
}

}  // namespace

Result<void> fold_batchnorm(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.dead || node.op != Op::kBatchNorm) continue;
    const std::optional<Folded> folded = match(graph, node);
    if (!folded) continue;
    const ValueId from = node.inputs[0], to = node.outputs[0];
    const NodeId conv = graph.value(from).producer;
    const std::string name = graph.node(conv).name;
    const std::vector<int64_t> dims = *known_dims(graph, graph.node(conv).inputs[1]);
    rewriter.set_input(conv, 1, new_f32_constant(rewriter, name + ".weight", dims, folded->weights));
    rewriter.set_input(conv, 2, new_f32_constant(rewriter, name + ".bias", {dims[0]}, folded->bias));
    if (!folded->moments.mean.empty()) rewriter.set_moments(conv, folded->moments);
    rewriter.replace(to, from);
    rewriter.erase(n);
  }
  return rewriter.ok();
}

}  // namespace lathe::passes
