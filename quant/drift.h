// Drift: whether the values that a network meets now are those that it was calibrated on.
//
// By the Population Stability Index over groups of about equal mass, sum (live - calibrated) ln(live / calibrated) (Siddiqi, "Credit Risk
// Scorecards", 2006; 0.1 and 0.25 are its customary limits). Even without drift it is not 0 for few samples: to first order its
// expectation is sum Var_g (1/n + 1/m) / calibrated_g, with the variance of a group's share between samples (Yurdakul, "Statistical
// Properties of Population Stability Index", 2018, does it for independent values; shares by sample make it right for values of one
// sample, which are not). A tensor has drifted if its index exceeds the limit by more than three times that.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/file/model_file.h"
#include "runtime/host/live_counts.h"

namespace lathe {

// Of this group's share in calibration; edges are as LiveMark has them.
struct CalibratedGroups {
  std::vector<float> edges;
  std::vector<double> shares;
  double low_end = 0, high_end = 0;  // shares of the outermost bins, into which what lies outside the range was counted, too
  float low_edge = 0, high_edge = 0;  // their inner edges
};
// At most 10 groups of whole bins. Requires: bins.
CalibratedGroups calibrated_groups(const ObservedValue& observed);

// Marks for the tensors of `program` that calibration saw and that are inputs or results of steps with multiply-accumulates. `graph`: what
// the program was lowered from.
std::vector<LiveMark> live_marks(const Graph& graph, const LoadedProgram& program, std::span<const ObservedValue> observed);

struct DriftLimits {
  double psi = 0.1;
  double saturation = 2;  // times what calibration saw in the outermost bin of an end
};

struct TensorDrift {
  std::string name;
  uint64_t samples = 0;
  double psi = 0, noise = 0;                // noise: what the index would be without drift
  double saturated = 0, expected_saturated = 0;  // shares in the outermost bin or beyond, at the end where they differ more
  bool by_psi = false, by_saturation = false;
  bool drifted() const { return by_psi || by_saturation; }
};

// `calibration_samples`: how many the calibration saw. Tensors without samples, or that calibration did not see, are left out.
std::vector<TensorDrift> find_drift(std::span<const LiveTensor> live, std::span<const ObservedValue> observed, uint64_t calibration_samples,
                                    const DriftLimits& limits);

}  // namespace lathe
