// Dynamic quantization: weights become INT8, activations stay float and are quantized on the fly, per token or per tensor. Needs
// no calibration data. Suits networks that are matrix products; the op table says which ops have a dynamic form.
#pragma once
#include "graph/ir.h"
#include "quant/ptq.h"

namespace lathe {

struct DynamicOptions {
  bool per_token = true;  // one scale per row of the activations, else one for the whole tensor
  bool per_channel = true;
  // As in QuantizeOptions.
  std::vector<std::string> keep_float = {};
};

// Requires: `graph` went through lowering_passes(). Errors: already quantized, weights that are not finite, a keep_float entry
// that matches nothing, no operator with a dynamic form.
Result<QuantizeResult> quantize_dynamic(const Graph& graph, const DynamicOptions& options);

}  // namespace lathe
