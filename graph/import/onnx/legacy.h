// Opset 6: how its nodes say what later ones do. Everything else of that opset is read as opset 7.
#pragma once
#include "graph/import/onnx/importer.h"

namespace lathe::onnx {

// The node as opset 7 has it: attributes that only told training from inference are gone, and the second operand of a broadcast has
// the axes that right-aligned broadcasting wants (a node that makes them may be added). Its names live as long as the builder.
Result<NodeProto> modern_form(Builder& builder, const NodeProto& node);

}  // namespace lathe::onnx
