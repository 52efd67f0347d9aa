// Bias correction: rounding weights shifts the mean of a layer's results; the bias takes the shift back. Source: Nagel et al.,
// "Data-Free Quantization Through Weight Equalization and Bias Correction" (2019), section 4.2.
#pragma once
#include <string>
#include <vector>

#include "quant/sample_runner.h"

namespace lathe {

struct CorrectedLayer {
  std::string node;
  double shift = 0;  // largest of a channel, in steps of the result's grid
};

struct BiasCorrection {
  std::vector<CorrectedLayer> layers;
  std::vector<std::string> skipped;  // "node: why"
};

// Corrects the biases of `quantized`, made by quantize_graph() from `graph`, in place. Layer by layer, in order: what the layer's float
// form gives in the mean for the float network's input, less what the quantized one gives for the input that quantized and corrected
// layers before it make. A layer is linear before its clamp, so the means of its input windows say it exactly; a residual is not part of
// it. Errors: the runners', the source's.
Result<BiasCorrection> correct_biases(const Graph& graph, Graph& quantized, const SampleSource& source, const SessionOptions& session);

// The same without data: a layer's mean input comes from the batch norm that was folded into the layer before it, clipped as that
// layer's activation clips a normal variable; only the rounding of the layer's own weights counts. Layers without such a layer before them
// are skipped.
Result<BiasCorrection> correct_biases_from_moments(const Graph& graph, Graph& quantized);

}  // namespace lathe
