// Calibration: run the float graph on samples and observe every activation.
//
// The graph is the one that will be quantized: after lowering_passes(), so that ranges are those of fused operators. Values are
// keyed by name, because names survive copying and files.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/ir.h"
#include "quant/observer.h"
#include "quant/sample_runner.h"

namespace lathe {

struct CalibrationOptions {
  ObserverOptions observer{};
  SessionOptions session{};
  bool skip_non_finite = false;  // leaves out samples that hold or cause NaN or infinity; every sample is then run twice
};

struct SkippedSample {
  uint64_t index;
  std::string tensor;  // the first that held NaN or infinity
};

// What was observed, by value name; only float activations (inputs and results of nodes) are in it.
struct Calibration {
  std::map<std::string, Observer> tensors;
  uint64_t samples = 0;  // that were observed
  std::vector<SkippedSample> skipped;
  ObserverOptions observer{};
};

// Ranges by value name, as quantize_graph() takes them.
using RangeTable = std::map<std::string, Range>;
RangeTable ranges_of(const Calibration& calibration);

// Errors: an empty source ("the calibration set is empty"), NaN or infinity in a sample (names the sample and the tensor; if they
// may be skipped, in all of them), lowering's errors.
Result<Calibration> calibrate(const Graph& graph, const SampleSource& source, const CalibrationOptions& options);

}  // namespace lathe
