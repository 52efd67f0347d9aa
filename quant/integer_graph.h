// What post-training quantization and insertion of fake quantizers share.
#pragma once
#include "quant/decide.h"

namespace lathe {

// quantize_graph() but for tables that are quantized row by row, which stay float. Nodes of `graph` keep their names; Quantize,
// Dequantize and Regrid at borders have new ones.
Result<Graph> integer_graph(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options,
                            const std::vector<Decision>& decisions, uint32_t* widened_channels);

}  // namespace lathe
