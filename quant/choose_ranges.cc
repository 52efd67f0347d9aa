#include "quant/choose_ranges.h"

#include <algorithm>

#include "data/metrics.h"
#include "graph/op_def.h"
#include "lathe/arith.h"
#include "quant/grid.h"

namespace lathe {
namespace {

constexpr uint64_t kFewestSamples = 4, kMostSamples = 32;
constexpr uint64_t kRunsPerSample = 2;            // of calibration

// One tensor, the kinds whose grids differ, and the error that each causes.
struct Contest {
  uint32_t tensor;
  Observer* observer;
  std::vector<ObserverKind> kinds;
  std::vector<QuantParams> grids;
  std::vector<double> errors;
};

// Whether the value gets a grid of its own when the operators around it become integer.
bool has_own_grid(const Graph& graph, ValueId v) {
  const Node* producer = graph.producer(v);
  const QuantRole made = producer == nullptr ? QuantRole::kActivation : op_def(producer->op).quant_out.role;
  if (made == QuantRole::kSameAs || made == QuantRole::kFixed) return false;
  const auto consumers = graph.consumers(v);
  return std::any_of(consumers.begin(), consumers.end(), [&](NodeId n) { return op_def(graph.node(n).op).has_s8; });
}

// Whether a reader wants zero point 0.
bool is_symmetric(const Graph& graph, ValueId v) {
  for (const NodeId n : graph.consumers(v)) {
    const Node& node = graph.node(n);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == v && quant_rule(op_def(node.op), i).role == QuantRole::kSymmetric) return true;
  }
  return false;
}

std::vector<Contest> contests(const Graph& graph, const SampleRunner& runner, Calibration* calibration) {
  std::vector<Contest> out;
  for (uint32_t t = 0; t < runner.activations().size(); ++t) {
    const ValueId v = runner.activations()[t];
    if (v == kNoId || !has_own_grid(graph, v)) continue;
    Contest c{t, &calibration->tensors.at(graph.value(v).name), {}, {}, {}};
    if (c.observer->empty()) continue;
    const bool symmetric = is_symmetric(graph, v);
    for (const ObserverKind kind : kRangeKinds) {
      const Range range = c.observer->range(kind);
      const QuantParams p = symmetric ? symmetric_params(range) : activation_params(range);
      if (std::find(c.grids.begin(), c.grids.end(), p) != c.grids.end()) continue;
      c.kinds.push_back(kind);
      c.grids.push_back(p);
    }
    c.errors.resize(c.kinds.size());
    if (c.kinds.size() > 1) out.push_back(std::move(c));
  }
  return out;
}

void put_on_grid(std::span<float> values, const QuantParams& p) {
  for (float& v : values)
    v = static_cast<float>(quantize(v, p.scale, p.zero_point, p.qmin, p.qmax) - p.zero_point) * p.scale;
}

std::vector<float> copied(const std::vector<std::span<const float>>& outputs) {
  std::vector<float> out;
  for (const auto& o : outputs) out.insert(out.end(), o.begin(), o.end());
  return out;
}

double relative_error(const std::vector<float>& reference, const std::vector<float>& values) {
  OutputDifference difference;
  difference.add_common(reference, values);
  return difference.noise_ratio();
}

}  // namespace

Result<void> choose_ranges(const Graph& graph, const SampleSource& source, const SessionOptions& session,
                           Calibration* calibration) {
  LATHE_TRY(SampleRunner runner, SampleRunner::create(graph, session));
  std::vector<Contest> all = contests(graph, runner, calibration);
  uint64_t runs = 0;
  for (const Contest& c : all) runs += c.kinds.size();
  if (runs == 0) return {};
  const uint64_t samples =
      std::min(source.count, std::clamp(kRunsPerSample * source.count / runs, kFewestSamples, kMostSamples));
  for (uint64_t k = 0; k < samples; ++k) {
    const uint64_t index = k * source.count / samples;
    LATHE_CHECK_OK(runner.run(source, index, [](uint32_t, std::span<float>) {}));
    const std::vector<float> reference = copied(runner.outputs());
    for (Contest& c : all)
      for (size_t i = 0; i < c.kinds.size(); ++i) {
        LATHE_CHECK_OK(runner.run(source, index, [&](uint32_t tensor, std::span<float> values) {
          if (tensor == c.tensor) put_on_grid(values, c.grids[i]);
        }));
        c.errors[i] += relative_error(reference, copied(runner.outputs()));
      }
  }
  for (Contest& c : all)
    c.observer->choose(c.kinds[static_cast<size_t>(std::min_element(c.errors.begin(), c.errors.end()) - c.errors.begin())]);
  return {};
}

}  // namespace lathe
