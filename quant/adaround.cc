#include "quant/adaround.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/cancel.h"
#include "base/random.h"
#include "graph/rewriter.h"
#include "quant/layers.h"

namespace lathe {
namespace {

constexpr float kStretch = 1.2f, kShift = -0.1f;  // the rectified sigmoid: clip(1.2 sigmoid(v) - 0.1, 0, 1)
constexpr double kWarmUp = 0.2, kSharpest = 2, kBluntest = 20;

// Windows of one group's input: of the quantized network, and of the float one at the same places.
struct Windows {
  std::vector<float> quantized, real;  // [rows][row]
};

// What one output group of a layer is fitted with.
struct Problem {
  size_t rows = 0, row = 0, outputs = 0;
  std::vector<float> x;       // [rows][row]
  std::vector<float> target;  // [rows][outputs], clamped
  std::vector<float> floor;   // [outputs][row], in steps
  std::vector<float> start;   // fractions above the floor
  std::vector<float> scale, bias;  // [outputs]
  float lo = 0, hi = 0;
};

float hardness(float v) { return std::clamp(kStretch / (1 + std::exp(-v)) + kShift, 0.0f, 1.0f); }

class Fit {
 public:
  Fit(const Problem& p, const AdaRoundOptions& o) : p_(p), o_(o), v_(p.floor.size()), m_(v_.size(), 0), s_(v_.size(), 0), random_(o.seed) {
    for (size_t i = 0; i < v_.size(); ++i) {
      const float h = (std::clamp(p.start[i], 0.01f, 0.99f) - kShift) / kStretch;
      v_[i] = std::log(h / (1 - h));
    }
    gradient_.resize(v_.size());
    weight_.resize(v_.size());
  }

  // Steps above the floor, 0 or 1.
  std::vector<uint8_t> run() {
    const double warm = kWarmUp * o_.iterations;
    for (uint32_t it = 0; it < o_.iterations; ++it) {
      const double t = std::max(0.0, (it - warm) / std::max(1.0, o_.iterations - warm));
      step(it, it >= warm, kSharpest + (kBluntest - kSharpest) * 0.5 * (1 + std::cos(t * M_PI)));
    }
    std::vector<uint8_t> up(v_.size());
    for (size_t i = 0; i < up.size(); ++i) up[i] = hardness(v_[i]) >= 0.5f;
    return up;
  }

 private:
  void step(uint32_t iteration, bool regularize, double beta) {
    for (size_t i = 0; i < v_.size(); ++i) weight_[i] = (p_.floor[i] + hardness(v_[i])) * p_.scale[i / p_.row];
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    const size_t batch = std::min<size_t>(o_.batch, p_.rows);
    for (size_t b = 0; b < batch; ++b) add_row(random_.below(p_.rows), 2.0f / static_cast<float>(batch));
    const double correction1 = 1 - std::pow(0.9, iteration + 1.0), correction2 = 1 - std::pow(0.999, iteration + 1.0);
    for (size_t i = 0; i < v_.size(); ++i) {
      const float sigmoid = 1 / (1 + std::exp(-v_[i])), h = hardness(v_[i]);
      const float slope = h > 0 && h < 1 ? kStretch * sigmoid * (1 - sigmoid) : 0;
      double g = static_cast<double>(gradient_[i] * p_.scale[i / p_.row]);
      if (regularize) {
        const double away = 2 * static_cast<double>(h) - 1;
        g -= o_.regularization * beta * std::pow(std::fabs(away), beta - 1) * 2 * (away < 0 ? -1 : 1);
      }
      g *= static_cast<double>(slope);
      m_[i] = static_cast<float>(0.9 * static_cast<double>(m_[i]) + 0.1 * g);
      s_[i] = static_cast<float>(0.999 * static_cast<double>(s_[i]) + 0.001 * g * g);
      v_[i] -= static_cast<float>(o_.rate * (static_cast<double>(m_[i]) / correction1) /
                                  (std::sqrt(static_cast<double>(s_[i]) / correction2) + 1e-8));
    }
  }

  // Adds the gradient of one window's squared error to the weights'.
  void add_row(size_t r, float factor) {
    const float* x = &p_.x[r * p_.row];
    for (size_t c = 0; c < p_.outputs; ++c) {
      const float* w = &weight_[c * p_.row];
      float y = p_.bias[c];
      for (size_t i = 0; i < p_.row; ++i) y += w[i] * x[i];
      if (y < p_.lo || y > p_.hi) {
        const float clamped = y < p_.lo ? p_.lo : p_.hi;
        if (clamped == p_.target[r * p_.outputs + c]) continue;
        // Outside the clamp there is no slope; the difference to what is wanted still says which way to go.
        y = clamped;
      }
      const float d = factor * (y - p_.target[r * p_.outputs + c]);
      float* g = &gradient_[c * p_.row];
      for (size_t i = 0; i < p_.row; ++i) g[i] += d * x[i];
    }
  }

  const Problem& p_;
  const AdaRoundOptions& o_;
  std::vector<float> v_, m_, s_, gradient_, weight_;
  Random random_;
};

double squared_error(const Problem& p, const std::vector<uint8_t>& up) {
  double sum = 0;
  for (size_t r = 0; r < p.rows; ++r)
    for (size_t c = 0; c < p.outputs; ++c) {
      double y = 0;
      for (size_t i = 0; i < p.row; ++i)
        y += static_cast<double>(p.floor[c * p.row + i] + static_cast<float>(up[c * p.row + i])) * static_cast<double>(p.x[r * p.row + i]);
      y = y * static_cast<double>(p.scale[c]) + static_cast<double>(p.bias[c]);
      const double d = std::clamp<double>(y, p.lo, p.hi) - static_cast<double>(p.target[r * p.outputs + c]);
      sum += d * d;
    }
  return sum / static_cast<double>(p.rows * p.outputs);
}

// One layer of both graphs.
class LayerRounding {
 public:
  LayerRounding(const Graph& graph, Graph& quantized, const WeightedLayer& real, const WeightedLayer& integer, const AdaRoundOptions& options)
      : graph_(graph), quantized_(quantized), real_(real), integer_(integer), options_(options) {}

  // False: an input is not seen.
  Result<bool> collect(const SampleSource& source, const SessionOptions& session) {
    windows_.resize(integer_.groups);
    LATHE_TRY(const bool a, collect_from(graph_, real_, source, session, SampleRunner::Sees::kFloat, &Windows::real));
    LATHE_TRY(const bool b, collect_from(quantized_, integer_, source, session, SampleRunner::Sees::kReal, &Windows::quantized));
    return a && b;
  }

  Result<RoundedLayer> round() {
    const Node& node = quantized_.node(integer_.node);
    const auto old = quantized_.value(node.inputs[integer_.weight]).constant.as<int8_t>();
    std::vector<int8_t> rounded(old.begin(), old.end());
    RoundedLayer out{node.name, 0, 0, 0};
    for (uint32_t g = 0; g < integer_.groups; ++g) {
      LATHE_CHECK_OK(check_cancelled());
      const Problem p = problem(g);
      std::vector<uint8_t> nearest(p.floor.size());
      for (size_t i = 0; i < nearest.size(); ++i)
        nearest[i] = static_cast<uint8_t>(std::clamp(static_cast<float>(old[first(g) + i]) - p.floor[i], 0.0f, 1.0f));
      const double before = squared_error(p, nearest);
      std::vector<uint8_t> up = Fit(p, options_).run();
      double after = squared_error(p, up);
      if (!(after < before)) up = nearest, after = before;
      for (size_t i = 0; i < up.size(); ++i) {
        if (up[i] == nearest[i]) continue;
        rounded[first(g) + i] = static_cast<int8_t>(p.floor[i] + static_cast<float>(up[i]));
        ++out.changed;
      }
      out.error_before += before / integer_.groups;
      out.error_after += after / integer_.groups;
    }
    if (out.changed > 0) store(rounded);
    return out;
  }

 private:
  size_t first(uint32_t group) const { return size_t{group} * (integer_.outputs / integer_.groups) * integer_.row(); }

  Result<bool> collect_from(const Graph& graph, const WeightedLayer& layer, const SampleSource& source, const SessionOptions& session,
                            SampleRunner::Sees sees, std::vector<float> Windows::*to) {
    LATHE_TRY(SampleRunner runner, SampleRunner::create(graph, session, sees));
    const auto tensor = tensor_of(graph, runner, graph.value(graph.node(layer.node).inputs[0]).name);
    if (!tensor) return false;
    const Patches patches(layer, runner.shape(*tensor));
    const uint64_t all = source.count * patches.positions(), wanted = std::min<uint64_t>(options_.rows, all);
    uint64_t taken = 0;
    for (uint64_t i = 0; i < source.count; ++i)
      LATHE_CHECK_OK(runner.run(source, i, [&](uint32_t t, std::span<float> values) {
        if (t != *tensor) return;
        // Window k stands at k * all / wanted of all positions.
        for (; taken < wanted && taken * all / wanted < (i + 1) * patches.positions(); ++taken)
          for (uint32_t g = 0; g < layer.groups; ++g) {
            std::vector<float>& rows = windows_[g].*to;
            rows.resize(rows.size() + layer.row());
            patches.copy(values, static_cast<size_t>(taken * all / wanted - i * patches.positions()), g, rows.data() + rows.size() - layer.row());
          }
      }));
    return true;
  }

  Problem problem(uint32_t g) const {
    const Node &node = quantized_.node(integer_.node), &source = graph_.node(real_.node);
    const Value& weight = quantized_.value(node.inputs[integer_.weight]);
    const auto real = graph_.value(source.inputs[real_.weight]).constant.as<float>();
    const float input_scale = quantized_.value(node.inputs[0]).quant->scales[0];
    Problem p;
    p.row = integer_.row();
    p.outputs = integer_.outputs / integer_.groups;
    p.x = windows_[g].quantized;
    p.rows = p.x.size() / p.row;
    // A residual is added before the clamp, and is not part of the fit.
    p.lo = real_.has_residual ? -INFINITY : real_.conv.lo;
    p.hi = real_.has_residual ? INFINITY : real_.conv.hi;
    const auto largest = static_cast<float>(weight.quant->qmax);
    for (size_t c = 0; c < p.outputs; ++c) {
      const size_t channel = g * p.outputs + c;
      const float s = weight_scale(*weight.quant, channel);
      p.scale.push_back(s);
      p.bias.push_back(integer_.has_bias ? static_cast<float>(quantized_.value(node.inputs[integer_.bias]).constant.as<int32_t>()[channel]) *
                                               input_scale * s
                                         : 0);
      for (size_t i = 0; i < p.row; ++i) {
        const float steps = real[first(g) + c * p.row + i] / s, floor = std::clamp(std::floor(steps), -largest, largest - 1);
        p.floor.push_back(floor);
        p.start.push_back(std::clamp(steps - floor, 0.0f, 1.0f));
      }
    }
    add_targets(g, source, real, &p);
    return p;
  }

  void add_targets(uint32_t g, const Node& source, std::span<const float> real, Problem* p) const {
    const bool biased = real_.has_bias;
    for (size_t r = 0; r < p->rows; ++r)
      for (size_t c = 0; c < p->outputs; ++c) {
        const size_t channel = g * p->outputs + c;
        float y = biased ? graph_.value(source.inputs[real_.bias]).constant.as<float>()[channel] : 0;
        for (size_t i = 0; i < p->row; ++i) y += real[first(g) + c * p->row + i] * windows_[g].real[r * p->row + i];
        p->target.push_back(std::clamp(y, p->lo, p->hi));
      }
  }

  void store(const std::vector<int8_t>& rounded) {
    const ValueId old = quantized_.node(integer_.node).inputs[integer_.weight];
    const Value value = quantized_.value(old);
    Rewriter rewriter(quantized_);
    rewriter.set_input(integer_.node, integer_.weight,
                       rewriter.constant(quantized_.fresh_name(value.name + ":rounded"), value.type, Constant::of(rounded), value.quant));
    rewriter.sweep();
  }

  const Graph& graph_;
  Graph& quantized_;
  const WeightedLayer &real_, &integer_;
  const AdaRoundOptions& options_;
  std::vector<Windows> windows_;  // by group
};

}  // namespace

Result<std::vector<RoundedLayer>> round_adaptively(const Graph& graph, Graph& quantized, const SampleSource& source,
                                                   const SessionOptions& session, const AdaRoundOptions& options) {
  std::vector<RoundedLayer> out;
  for (const LayerPair& pair : layer_pairs(graph, quantized)) {
    LayerRounding rounding(graph, quantized, pair.real, pair.integer, options);
    LATHE_TRY(const bool seen, rounding.collect(source, session));
    if (!seen) continue;
    LATHE_TRY(out.emplace_back(), rounding.round());
  }
  return out;
}

}  // namespace lathe
