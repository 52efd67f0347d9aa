// AdaRound: every weight is rounded up or down so that the layer's result, not the weight, is nearest to float. Source: Nagel et al., "Up
// or Down? Adaptive Rounding for Post-Training Quantization" (2020): rectified sigmoid, asymmetric reconstruction, activation included.
#pragma once
#include <string>
#include <vector>

#include "quant/sample_runner.h"

namespace lathe {

struct AdaRoundOptions {
  uint32_t iterations = 1000;
  uint32_t rows = 1024;        // input windows per layer and group, spread over all samples
  uint32_t batch = 128;        // of them per iteration
  double rate = 1e-2;          // Adam's
  double regularization = 0.01;
  uint64_t seed = 1;
};

struct RoundedLayer {
  std::string node;
  double error_before = 0, error_after = 0;  // mean squared difference from float, over all windows; after <= before
  uint64_t changed = 0;                      // weights that are not at the nearest step now
};

// Rounds the weights of `quantized`, made by quantize_graph() from `graph`, anew, in place, layer by layer, each for the input that the
// quantized layers before it make. A layer for which no better rounding is found keeps the nearest. Deterministic for a seed. Errors: the
// runners', the source's.
Result<std::vector<RoundedLayer>> round_adaptively(const Graph& graph, Graph& quantized, const SampleSource& source,
                                                   const SessionOptions& session, const AdaRoundOptions& options);

}  // namespace lathe
