#include "graph/export/onnx/model_writer.h"

#include <protozero/pbf_writer.hpp>

#include "lathe/version.h"

namespace lathe::onnx {
namespace {

using protozero::pbf_writer;

// The IR version that goes with opset 17 and later ones; older readers take it too.
constexpr int64_t kIrVersion = 8;

template <class F> std::string attribute(const std::string& name, AttributeType type, const F& value) {
  std::string out;
  pbf_writer w(out);
  w.add_string(field::attribute::kName, name);
  value(w);
  w.add_int32(field::attribute::kType, static_cast<int32_t>(type));
  return out;
}

// Dims that are neither numbers nor symbols are left open: the graph says what they are.
std::string value_info(const std::string& name, const DimTable& dims, const TensorType& type) {
  std::string shape, tensor, type_proto, out;
  pbf_writer shape_writer(shape);
  for (const Dim d : type.dims) {
    std::string dim;
    pbf_writer w(dim);
    if (const auto v = dims.value(d)) w.add_int64(field::dimension::kValue, *v);
    else if (dims.node(d).op == DimOp::kSymbol) w.add_string(field::dimension::kParam, dims.text(d));
    shape_writer.add_message(field::shape::kDim, dim);
  }
  pbf_writer tensor_writer(tensor), type_writer(type_proto), writer(out);
  tensor_writer.add_int32(field::tensor_type::kElemType, elem_number(type.dtype));
  tensor_writer.add_message(field::tensor_type::kShape, shape);
  type_writer.add_message(field::type::kTensor, tensor);
  writer.add_string(field::value_info::kName, name);
  writer.add_message(field::value_info::kType, type_proto);
  return out;
}

}  // namespace

int32_t elem_number(DType dtype) {
  if (dtype == DType::kF16) return static_cast<int32_t>(ElemType::kFloat16);
  return dtype == DType::kBF16 ? static_cast<int32_t>(ElemType::kBfloat16) : elem_type_of(dtype);
}

std::string int_attribute(const std::string& name, int64_t v) {
  return attribute(name, AttributeType::kInt, [&](pbf_writer& w) { w.add_int64(field::attribute::kInt, v); });
}
std::string float_attribute(const std::string& name, float v) {
  return attribute(name, AttributeType::kFloat, [&](pbf_writer& w) { w.add_float(field::attribute::kFloat, v); });
}
std::string ints_attribute(const std::string& name, const std::vector<int64_t>& v) {
  return attribute(name, AttributeType::kInts, [&](pbf_writer& w) {
    for (const int64_t i : v) w.add_int64(field::attribute::kInts, i);
  });
}
std::string text_attribute(const std::string& name, const std::string& v) {
  return attribute(name, AttributeType::kString, [&](pbf_writer& w) { w.add_string(field::attribute::kString, v); });
}

std::string floats_attribute(const std::string& name, const std::vector<float>& v) {
  return attribute(name, AttributeType::kFloats, [&](pbf_writer& w) {
    for (const float f : v) w.add_float(field::attribute::kFloats, f);
  });
}
std::string texts_attribute(const std::string& name, const std::vector<std::string>& v) {
  return attribute(name, AttributeType::kStrings, [&](pbf_writer& w) {
    for (const std::string& s : v) w.add_string(field::attribute::kStrings, s);
  });
}

void ModelWriter::node(const std::string& op_type, const std::string& name, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs, const std::vector<std::string>& attributes) {
  std::string out;
  pbf_writer w(out);
  for (const std::string& i : inputs) w.add_string(field::node::kInput, i);
  for (const std::string& o : outputs) w.add_string(field::node::kOutput, o);
  w.add_string(field::node::kName, name);
  w.add_string(field::node::kOpType, op_type);
  for (const std::string& a : attributes) w.add_message(field::node::kAttribute, a);
  pbf_writer(graph_).add_message(field::graph::kNode, out);
  ++nodes_;
}

void ModelWriter::initializer(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                              std::span<const std::byte> raw) {
  std::string out;
  pbf_writer w(out);
  w.add_packed_int64(field::tensor::kDims, dims.begin(), dims.end());
  w.add_int32(field::tensor::kDataType, elem_number(dtype));
  w.add_string(field::tensor::kName, name);
  w.add_bytes(field::tensor::kRawData, reinterpret_cast<const char*>(raw.data()), raw.size());
  pbf_writer(graph_).add_message(field::graph::kInitializer, out);
}

void ModelWriter::input(const std::string& name, const DimTable& dims, const TensorType& type) {
  pbf_writer(graph_).add_message(field::graph::kInput, value_info(name, dims, type));
}
void ModelWriter::output(const std::string& name, const DimTable& dims, const TensorType& type) {
  pbf_writer(graph_).add_message(field::graph::kOutput, value_info(name, dims, type));
}

std::string ModelWriter::finish(int64_t opset) const {
  std::string graph, version, out;
  pbf_writer(graph).add_string(field::graph::kName, "lathe");
  graph += graph_;
  pbf_writer(version).add_int64(field::opset::kVersion, opset);
  pbf_writer w(out);
  w.add_int64(field::model::kIrVersion, kIrVersion);
  w.add_string(field::model::kProducerName, "lathe");
  w.add_string(field::model::kProducerVersion, LATHE_VERSION_TEXT);
  w.add_message(field::model::kGraph, graph);
  w.add_message(field::model::kOpsetImport, version);
  return out;
}

}  // namespace lathe::onnx
