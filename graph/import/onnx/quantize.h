// How the importers of quantized operators see tensors of integers and their grids.
//
// In the graph a quantized value is s8 with parameters; the file's s8 and u8 tensors are plain integers, with a FromInteger or
// ToInteger between. Where one undoes the other, nothing is left of both.
#pragma once
#include <optional>
#include <vector>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {

// Where a node has a tensor, its scale and its zero point among its inputs; kNone: it has none.
inline constexpr size_t kNone = SIZE_MAX;
struct GridInputs {
  size_t scale;
  size_t zero = kNone;
};

// The type of the integers that a zero point implies; `absent` without one.
Result<DType> step_type(NodeImport& n, size_t zero, DType absent);

// Constant parameters of integers of type `steps` with dims `dims` (-1: unknown), as their s8 (s32 for wider) counterpart has
// them: one, or as many as `axis` is long. Nothing if they are not constant, not of this form, or a scale is not normal and
// positive. Error: numbers of elements that do not fit.
Result<std::optional<Quant>> known_grid(NodeImport& n, GridInputs grid, DType steps, int64_t axis,
                                        const std::vector<int64_t>& dims);

// The real numbers behind operand i: a constant with its integers, or the result of a Dequantize, which is named as output 0 if
// `tag` is empty. `axis` and `block` as the attributes of DequantizeLinear.
Result<Binding> dequantized_operand(NodeImport& n, const std::string& tag, size_t i, GridInputs grid, int64_t axis,
                                    int64_t block = 0);

// Output `output` of the node becomes x quantized to integers of type `steps`. `axis` and `block` as the attributes.
Result<void> finish_quantized(NodeImport& n, ValueId x, GridInputs grid, DType steps, int64_t axis = 1, int64_t block = 0,
                              size_t output = 0);

// Operand i, constant integers in steps of the sums of a product: of both scales and `factor`.
Result<Binding> sum_operand(NodeImport& n, size_t i, size_t a_scale, size_t b_scale, float factor = 1);

}  // namespace lathe::onnx
