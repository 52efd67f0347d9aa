#include "quant/bias_correction.h"

#include <cmath>

#include "graph/rewriter.h"
#include "quant/layers.h"

namespace lathe {
namespace {

// Means of a layer's input windows: [groups][row].
using MeanWindow = std::vector<double>;

// Adds up windows of one layer over samples.
class WindowMean {
 public:
  WindowMean(const Graph& graph, const WeightedLayer& layer, const SampleRunner& runner)
      : layer_(layer), tensor_(tensor_of(graph, runner, graph.value(graph.node(layer.node).inputs[0]).name)),
        sum_(layer.groups * layer.row(), 0.0), window_(layer.row()) {
    if (tensor_) patches_.emplace(layer_, runner.shape(*tensor_));
  }
  bool seen() const { return tensor_.has_value(); }
  void add(uint32_t tensor, std::span<const float> values) {
    if (tensor_ != tensor) return;
    for (size_t p = 0; p < patches_->positions(); ++p)
      for (uint32_t g = 0; g < layer_.groups; ++g) {
        patches_->copy(values, p, g, window_.data());
        for (size_t i = 0; i < window_.size(); ++i) sum_[g * window_.size() + i] += static_cast<double>(window_[i]);
      }
    count_ += patches_->positions();
  }
  MeanWindow mean() const {
    MeanWindow out = sum_;
    for (double& v : out) v /= static_cast<double>(std::max<size_t>(1, count_));
    return out;
  }

 private:
  const WeightedLayer& layer_;
  std::optional<uint32_t> tensor_;
  std::optional<Patches> patches_;
  MeanWindow sum_;
  std::vector<float> window_;
  size_t count_ = 0;
};

double dot(const MeanWindow& window, size_t offset, size_t row, const auto& weight) {
  double sum = 0;
  for (size_t i = 0; i < row; ++i) sum += window[offset + i] * static_cast<double>(weight(i));
  return sum;
}

// Grid of the pair's bias and results, and its change.
class Correction {
 public:
  Correction(const Graph& graph, Graph& quantized, const LayerPair& pair) : graph_(graph), quantized_(quantized), pair_(pair) {}

  // `real`, `integer`: means of the windows that the float and the quantized layer see.
  Result<double> apply(const MeanWindow& real, const MeanWindow& integer) {
    const Node& node = quantized_.node(pair_.integer.node);
    const Value& weight = quantized_.value(node.inputs[pair_.integer.weight]);
    const float input_scale = quantized_.value(node.inputs[0]).quant->scales[0];
    const float result_scale = quantized_.value(node.outputs[0]).quant->scales[0];
    std::vector<int32_t> bias(pair_.integer.outputs, 0);
    if (pair_.integer.has_bias) {
      const auto old = quantized_.value(node.inputs[pair_.integer.bias]).constant.as<int32_t>();
      bias.assign(old.begin(), old.end());
    }
    double most = 0;
    for (uint32_t c = 0; c < pair_.integer.outputs; ++c) {
      const double step = static_cast<double>(input_scale) * static_cast<double>(weight_scale(*weight.quant, c));
      const double shift = float_mean(real, c) - (integer_mean(integer, c) + static_cast<double>(bias[c]) * step);
      const double corrected = std::nearbyint(static_cast<double>(bias[c]) + shift / step);
      if (!(std::fabs(corrected) <= kBiasLimit)) continue;  // the grid cannot say it
      bias[c] = static_cast<int32_t>(corrected);
      most = std::max(most, std::fabs(shift) / static_cast<double>(result_scale));
    }
    store(bias);
    return most;
  }

 private:
  static constexpr double kBiasLimit = 1073741824.0;  // as quantize_weights() keeps it

  double float_mean(const MeanWindow& window, uint32_t c) const {
    const Node& node = graph_.node(pair_.real.node);
    const auto weights = graph_.value(node.inputs[pair_.real.weight]).constant.as<float>();
    const size_t row = pair_.real.row();
    const double bias = pair_.real.has_bias ? static_cast<double>(graph_.value(node.inputs[pair_.real.bias]).constant.as<float>()[c]) : 0;
    return bias + dot(window, pair_.real.group_of(c) * row, row, [&](size_t i) { return weights[c * row + i]; });
  }
  double integer_mean(const MeanWindow& window, uint32_t c) const {
    const Value& weight = quantized_.value(quantized_.node(pair_.integer.node).inputs[pair_.integer.weight]);
    const auto weights = weight.constant.as<int8_t>();
    const size_t row = pair_.integer.row();
    const float s = weight_scale(*weight.quant, c);
    return dot(window, pair_.integer.group_of(c) * row, row, [&](size_t i) { return static_cast<float>(weights[c * row + i]) * s; });
  }
  void store(const std::vector<int32_t>& bias) {
    Rewriter rewriter(quantized_);
    const std::string name = quantized_.fresh_name(quantized_.node(pair_.integer.node).name + ":bias");
    const TensorType type{DType::kS32, {quantized_.dims().constant(pair_.integer.outputs)}};
    rewriter.set_input(pair_.integer.node, pair_.integer.bias, rewriter.constant(name, type, Constant::of(bias)));
    rewriter.sweep();
  }

  const Graph& graph_;
  Graph& quantized_;
  const LayerPair& pair_;
};

// The mean of a normal variable that is clipped to [lo, hi].
double clipped_mean(double mean, double deviation, double lo, double hi) {
  if (!(deviation > 0)) return std::clamp(mean, lo, hi);
  const auto density = [](double z) { return std::isinf(z) ? 0 : std::exp(-z * z / 2) / std::sqrt(2 * M_PI); };
  const auto below = [](double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); };
  const double a = (lo - mean) / deviation, b = (hi - mean) / deviation;
  double out = mean * (below(b) - below(a)) + deviation * (density(a) - density(b));
  if (!std::isinf(lo)) out += lo * below(a);
  if (!std::isinf(hi)) out += hi * (1 - below(b));
  return out;
}

// Means of the input's channels by the layer that makes it; nothing where no batch norm says them.
std::optional<std::vector<double>> channel_means(const Graph& graph, ValueId input) {
  const Node* producer = graph.producer(input);
  if (producer == nullptr || producer->moments == nullptr) return {};
  const auto layer = weighted_layer(graph, graph.value(input).producer);
  if (!layer || layer->has_residual) return {};
  std::vector<double> means;
  for (size_t c = 0; c < producer->moments->mean.size(); ++c)
    means.push_back(clipped_mean(static_cast<double>(producer->moments->mean[c]), static_cast<double>(producer->moments->deviation[c]),
                                 static_cast<double>(layer->conv.lo), static_cast<double>(layer->conv.hi)));
  return means;
}

}  // namespace

Result<BiasCorrection> correct_biases(const Graph& graph, Graph& quantized, const SampleSource& source, const SessionOptions& session) {
  BiasCorrection result;
  const std::vector<LayerPair> pairs = layer_pairs(graph, quantized);
  LATHE_TRY(SampleRunner reference, SampleRunner::create(graph, session));
  std::vector<WindowMean> means;
  for (const LayerPair& p : pairs) means.emplace_back(graph, p.real, reference);
  for (uint64_t i = 0; i < source.count; ++i)
    LATHE_CHECK_OK(reference.run(source, i, [&](uint32_t tensor, std::span<float> values) {
      for (WindowMean& m : means) m.add(tensor, values);
    }));
  for (size_t k = 0; k < pairs.size(); ++k) {
    // The prefix changes with every layer, so it is run anew.
    LATHE_TRY(SampleRunner runner, SampleRunner::create(quantized, session, SampleRunner::Sees::kReal));
    WindowMean mean(quantized, pairs[k].integer, runner);
    const std::string& name = quantized.node(pairs[k].integer.node).name;
    if (!mean.seen() || !means[k].seen()) {
      result.skipped.push_back(name + ": its input is not seen");
      continue;
    }
    for (uint64_t i = 0; i < source.count; ++i)
      LATHE_CHECK_OK(runner.run(source, i, [&](uint32_t tensor, std::span<float> values) { mean.add(tensor, values); }));
    LATHE_TRY(const double shift, Correction(graph, quantized, pairs[k]).apply(means[k].mean(), mean.mean()));
    result.layers.push_back({name, shift});
  }
  return result;
}

Result<BiasCorrection> correct_biases_from_moments(const Graph& graph, Graph& quantized) {
  BiasCorrection result;
  for (const LayerPair& pair : layer_pairs(graph, quantized)) {
    const Node& node = graph.node(pair.real.node);
    const auto means = channel_means(graph, node.inputs[0]);
    if (!means || means->size() != size_t{pair.real.groups} * pair.real.depth) {
      result.skipped.push_back(node.name + ": no batch norm says the mean of its input");
      continue;
    }
    MeanWindow window(pair.real.groups * pair.real.row());
    for (size_t i = 0; i < window.size(); ++i)
      window[i] = (*means)[i / pair.real.row() * pair.real.depth + i % pair.real.depth];
    LATHE_TRY(const double shift, Correction(graph, quantized, pair).apply(window, window));
    result.layers.push_back({node.name, shift});
  }
  return result;
}

}  // namespace lathe
