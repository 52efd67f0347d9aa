// Float networks with a part of what quantization does, to tell what a loss comes from.
#pragma once
#include "quant/ptq.h"

namespace lathe {

// With weights as `quantized`, made by quantize_graph() from `graph`, has them; everything else is float.
Result<Graph> with_rounded_weights(const Graph& graph, const Graph& quantized);

// Whose operators that would be INT8 read and make values on their grids, by Quantize and Dequantize; weights stay float, so nothing
// becomes an integer operator. Errors: decide()'s.
Result<Graph> with_rounded_activations(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options);

}  // namespace lathe
