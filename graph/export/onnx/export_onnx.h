// ONNX export: a Graph becomes a model file that other runtimes load.
//
// Called by the CLI. Floats become floats; a quantized graph becomes QDQ: every integer op its float counterpart between
// DequantizeLinear and QuantizeLinear, weights and biases stored as integers with one scale per channel and an explicit axis.
// Convolutions go back from NHWC to NCHW, and no Transpose is left that two of them would cancel. The opset is the lowest of 17
// and up that has the operators. Importing the result gives the graph again. Thread-safe: no state.
#pragma once
#include <string>

#include "base/result.h"
#include "graph/ir.h"

namespace lathe {

struct OnnxFile {
  std::string bytes;
  int64_t opset = 0;
  size_t nodes = 0;
};

// Error: kUnsupported, all nodes that ONNX cannot express, one per line.
Result<OnnxFile> export_onnx(const Graph& graph);

}  // namespace lathe
