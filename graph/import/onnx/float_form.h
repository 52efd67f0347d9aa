// Operators that others are written with: a node of our own making goes through the import function of its operator.
//
// A QLinearConv is a Conv between DequantizeLinear and QuantizeLinear; one pass (graph/passes/fuse_quantized.cc) makes both the
// same integer operator, so the importer only writes it out.
#pragma once
#include <deque>
#include <string>
#include <string_view>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {

class FloatForm {
 public:
  // `op_type`: an operator of ops.inc.
  FloatForm(NodeImport& n, std::string_view op_type) : n_(n) { proto_.op_type = op_type; }

  void operand(Binding b);
  void operand(ValueId v) { operand(Binding{v, nullptr}); }
  // Gives it all attributes of the node but these, or one of its own.
  void take_attributes(std::initializer_list<std::string_view> but = {});
  void set(std::string_view attribute, int64_t v);
  void set(std::string_view attribute, float v);
  // Its result 0.
  Result<ValueId> run();

 private:
  std::string_view new_name();

  NodeImport& n_;
  NodeProto proto_;
  std::deque<std::string> names_;
};

}  // namespace lathe::onnx
