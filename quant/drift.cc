#include "quant/drift.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/cost.h"
#include "quant/ptq.h"
#include "runtime/host/ports.h"

namespace lathe {
namespace {

constexpr size_t kGroups = 10;
constexpr double kLeastShare = 1e-4;  // of a group, so that an empty one does not make the index infinite
constexpr double kNoiseFactor = 3;
constexpr double kLeastSaturation = 1e-3;  // less harms nobody

const ObservedValue* observed_of(std::span<const ObservedValue> observed, const std::string& name) {
  const auto it = std::find_if(observed.begin(), observed.end(), [&](const ObservedValue& v) { return v.name == name; });
  return it == observed.end() || it->bins.empty() ? nullptr : &*it;
}

// What calibration saw of a value, or of the float value that it is the 8-bit form of.
const ObservedValue* calibrated(std::span<const ObservedValue> observed, const std::string& name) {
  const ObservedValue* v = observed_of(observed, name);
  return v != nullptr ? v : observed_of(observed, float_name(name));
}

}  // namespace

CalibratedGroups calibrated_groups(const ObservedValue& observed) {
  double total = 0;
  for (const uint16_t n : observed.bins) total += n;
  const double width = (static_cast<double>(observed.hi) - static_cast<double>(observed.lo)) / static_cast<double>(observed.bins.size());
  CalibratedGroups out;
  double mass = 0;
  for (size_t i = 0; i < observed.bins.size(); ++i) {
    mass += observed.bins[i] / std::max(1.0, total);
    const bool last = i + 1 == observed.bins.size();
    if (!last && (mass < 1.0 / kGroups || out.shares.size() + 1 == kGroups)) continue;
    if (last && mass < 0.5 / kGroups && !out.shares.empty()) {  // too little to stand alone
      out.shares.back() += mass;
      out.edges.pop_back();
      break;
    }
    out.shares.push_back(mass);
    if (!last) out.edges.push_back(static_cast<float>(static_cast<double>(observed.lo) + width * static_cast<double>(i + 1)));
    mass = 0;
  }
  out.low_end = observed.bins.front() / std::max(1.0, total);
  out.high_end = observed.bins.back() / std::max(1.0, total);
  out.low_edge = static_cast<float>(static_cast<double>(observed.lo) + width);
  out.high_edge = static_cast<float>(static_cast<double>(observed.hi) - width);
  return out;
}

std::vector<LiveMark> live_marks(const Graph& graph, const LoadedProgram& loaded, std::span<const ObservedValue> observed) {
  const Program& program = loaded.program;
  std::vector<LiveMark> marks;
  const auto add = [&](uint32_t tensor, const std::string& value) {
    const ObservedValue* seen = calibrated(observed, value);
    const DType dtype = program.tensor(tensor).dtype;
    const bool countable = dtype == DType::kF32 || dtype == DType::kF16 ||
                           (dtype == DType::kS8 && (program.tensor(tensor).flags & kTensorHasQuant) != 0);
    if (seen == nullptr || !countable) return;
    if (std::any_of(marks.begin(), marks.end(), [&](const LiveMark& m) { return m.name == seen->name; })) return;
    CalibratedGroups groups = calibrated_groups(*seen);
    marks.push_back({seen->name, tensor, groups.low_edge, groups.high_edge, std::move(groups.edges)});
  };
  const std::vector<uint32_t> inputs = port_tensors(program, TensorKind::kInput);
  for (size_t i = 0; i < inputs.size() && i < loaded.input_names.size(); ++i) add(inputs[i], loaded.input_names[i]);
  std::map<std::string, uint32_t> results;  // by node: of its last step
  for (uint32_t s = 0; s < program.step_count() && s < loaded.step_names.size(); ++s)
    if (program.step(s).n_out > 0) results[loaded.step_names[s]] = program.output(program.step(s), 0);
  for (const NodeId n : graph.order()) {
    const Node& node = graph.node(n);
    const auto found = results.find(node.name);
    const bool weighted = node_cost_macs(graph, node) > 0;
    if (found == results.end() || found->second == kNoTensor || node.outputs.empty()) continue;
    if (weighted) add(found->second, graph.value(node.outputs[0]).name);
  }
  return marks;
}

std::vector<TensorDrift> find_drift(std::span<const LiveTensor> live, std::span<const ObservedValue> observed, uint64_t calibration_samples,
                                    const DriftLimits& limits) {
  std::vector<TensorDrift> out;
  for (const LiveTensor& t : live) {
    const ObservedValue* seen = observed_of(observed, t.name);
    if (seen == nullptr || t.samples == 0) continue;
    const CalibratedGroups groups = calibrated_groups(*seen);
    if (groups.shares.size() != t.share.size()) continue;
    const auto m = static_cast<double>(t.samples);
    const double chance = 1 / m + 1 / static_cast<double>(std::max<uint64_t>(1, calibration_samples));
    TensorDrift d{t.name, t.samples, 0, 0, 0, 0, false, false};
    for (size_t g = 0; g < groups.shares.size(); ++g) {
      const double before = std::max(kLeastShare, groups.shares[g]), now = std::max(kLeastShare, t.share[g] / m);
      d.psi += (now - before) * std::log(now / before);
      d.noise += std::max(0.0, t.square[g] / m - (t.share[g] / m) * (t.share[g] / m)) * chance / before;
    }
    d.by_psi = d.psi > limits.psi + kNoiseFactor * d.noise;
    // What saturates, or is about to, lies in the outermost bin of an end, as it did in calibration.
    const bool up = t.above / m - groups.high_end > t.below / m - groups.low_end;
    d.saturated = (up ? t.above : t.below) / m;
    d.expected_saturated = up ? groups.high_end : groups.low_end;
    const double spread = std::sqrt(d.saturated * (1 - d.saturated) * chance);
    d.by_saturation = d.saturated > limits.saturation * d.expected_saturated + kNoiseFactor * spread + kLeastSaturation;
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace lathe
