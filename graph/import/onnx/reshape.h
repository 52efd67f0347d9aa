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
Result<ValueId> reshape_target(NodeImport& n, ValueId x, const std::vector<Dim>& dims);

// Output 0 is x with other dims, which hold as many elements. At most one of them is not known, or those that are not known are
// dims of x.
Result<void> finish_reshaped(NodeImport& n, ValueId x, const std::vector<Dim>& dims, const std::string& tag = {});
// The same for operand 0, which stays a constant if it is one.
Result<void> finish_reshaped(NodeImport& n, const std::vector<Dim>& dims);

}  // namespace lathe::onnx
