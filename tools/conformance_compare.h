// What a case's tensors and ours have to do with each other: types that import widens, shapes, tolerances.
#pragma once
#include <cstdint>

#include "base/result.h"
#include "graph/import/onnx/tensor.h"
#include "lathe/shape.h"
#include "runtime/program.h"

namespace lathe::tools {

// Copies a case's tensor into an input's buffer. Error: the input has another type. A quantized input holds s8 where the file has
// uint8, shifted by 128.
Result<void> copy_tensor(const onnx::ConstTensor& from, const ProgramTensor& input, uint8_t* to);

// An output as a session left it.
struct Computed {
  DType dtype;
  bool is_quantized;
  Shape shape;
  const uint8_t* bytes;
};
// `elem_type`: what the file says about the output. The error names the first `shown` elements that differ.
Result<void> compare_output(const Computed& computed, const onnx::ConstTensor& expected, int32_t elem_type, size_t shown);

}  // namespace lathe::tools
