// Reshaping, which several operators come down to.
#pragma once
#include <vector>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {

// Dims of operand 0, constant or not.
Result<std::vector<Dim>> operand_dims(NodeImport& n);

// Dims of a tensor of dims `from` after a reshape to `target`, where one entry may be -1: what the op table infers.
Result<std::vector<Dim>> reshaped_dims(NodeImport& n, const std::vector<Dim>& from, const std::vector<Dim>& target);

// The target operand of a reshape of x to `dims`, under the conditions of finish_reshaped.
Result<ValueId> reshape_target(NodeImport& n, const std::string& prefix, ValueId x, const std::vector<Dim>& dims);

// Output 0 is x with other dims, which hold as many elements. At most one of them is not known, or those that are not known are
// dims of x.
Result<void> finish_reshaped(NodeImport& n, ValueId x, const std::vector<Dim>& dims, const std::string& tag = {},
                             size_t output = 0);
// The same as a node of its own in between.
Result<ValueId> reshaped(NodeImport& n, const std::string& tag, ValueId x, const std::vector<Dim>& dims);
// To numbers, one of them -1 at most.
Result<ValueId> reshaped(NodeImport& n, const std::string& tag, ValueId x, const std::vector<int64_t>& dims);
// The same for operand 0, which stays a constant if it is one.
Result<void> finish_reshaped(NodeImport& n, const std::vector<Dim>& dims);

// `v`, a small integer tensor that says how large a result is, with known contents: where inference does not know them they
// become dims when the program has come that far.
Result<ValueId> extents(NodeImport& n, ValueId v, const std::string& tag);

// Output 0 is a slice of operand 0 whose starts and ends (operands 1 and 2) are computed: the elements that a range names.
Result<void> finish_computed_slice(NodeImport& n, const std::vector<int32_t>& axes, const std::vector<int64_t>& steps);

}  // namespace lathe::onnx
