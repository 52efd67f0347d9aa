// ONNX protobuf messages, written with protozero. Field numbers: graph/import/onnx/onnx_fields.h.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/import/onnx/tensor.h"
#include "graph/ir.h"

namespace lathe::onnx {

// The number of a dtype's element type; half precision is kept, where import makes floats of it.
int32_t elem_number(DType dtype);

// One AttributeProto.
std::string int_attribute(const std::string& name, int64_t v);
std::string float_attribute(const std::string& name, float v);
std::string ints_attribute(const std::string& name, const std::vector<int64_t>& v);
std::string text_attribute(const std::string& name, const std::string& v);
std::string floats_attribute(const std::string& name, const std::vector<float>& v);
std::string texts_attribute(const std::string& name, const std::vector<std::string>& v);

// A model under construction: parts in the order in which they are added.
class ModelWriter {
 public:
  void node(const std::string& op_type, const std::string& name, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const std::vector<std::string>& attributes);
  void initializer(const std::string& name, DType dtype, const std::vector<int64_t>& dims, std::span<const std::byte> raw);
  void input(const std::string& name, const DimTable& dims, const TensorType& type);
  void output(const std::string& name, const DimTable& dims, const TensorType& type);
  size_t nodes() const { return nodes_; }
  // The file's bytes.
  std::string finish(int64_t opset) const;

 private:
  std::string graph_;
  size_t nodes_ = 0;
};

}  // namespace lathe::onnx
