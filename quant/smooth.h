// SmoothQuant: a norm and the layers behind it trade a factor per channel, so that channels of activations that are far larger than
// others do not take the grid for themselves. Source: Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization for
// Large Language Models" (2022).
#pragma once
#include <string>
#include <vector>

#include "quant/sample_runner.h"

namespace lathe {

struct SmoothedNorm {
  std::string norm;
  size_t readers = 0;
  // Largest reach of an activation channel over the median one.
  double spread_before = 0, spread_after = 0;
};

struct SmoothResult {
  std::vector<SmoothedNorm> norms;
  std::vector<std::string> skipped;  // "node: why"
};

// Divides scale and bias of every norm in `graph`, which went through lowering_passes(), by s = max|x|^a / max|w|^(1-a) per channel (x: its
// result over all samples; w: weights of all layers that read it), and multiplies those weights by it, in place. s is rounded to a power
// of two, so the float network computes the same bits. Only where all that reads the norm's result are layers with constant weights of
// their own: a residual that reads it, too, would see other values. Errors: the runner's, the source's.
Result<SmoothResult> smooth(Graph& graph, const SampleSource& source, const SessionOptions& session, double strength = 0.5);

}  // namespace lathe
