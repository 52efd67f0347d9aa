// Writes small ONNX files for tests, on top of protozero's writer. Field numbers are those of graph/import/onnx/onnx_fields.h,
// which the golden models under LATHE_DATA check from the other side.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <variant>
#include <vector>

#include "graph/import/onnx/import_onnx.h"
#include "graph/import/onnx/onnx_fields.h"

namespace lathe::test {

namespace field = onnx::field;
using onnx::AttributeType;
using onnx::ElemType;
using protozero::pbf_writer;

// A dim is a number, a symbol, or unknown (an empty string).
using TestDim = std::variant<int64_t, std::string>;
using TestDims = std::vector<TestDim>;

inline int32_t number(ElemType t) { return static_cast<int32_t>(t); }

// TensorProto with raw data.
template <class T>
std::string raw_tensor(const std::string& name, ElemType type, const std::vector<int64_t>& dims, const std::vector<T>& values) {
  std::string out;
  pbf_writer w(out);
  w.add_packed_int64(field::tensor::kDims, dims.begin(), dims.end());
  w.add_int32(field::tensor::kDataType, number(type));
  w.add_string(field::tensor::kName, name);
  w.add_bytes(field::tensor::kRawData, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return out;
}
inline std::string f32_tensor(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  return raw_tensor(name, ElemType::kFloat, dims, values);
}
inline std::string i64_tensor(const std::string& name, const std::vector<int64_t>& values) {
  return raw_tensor(name, ElemType::kInt64, {static_cast<int64_t>(values.size())}, values);
}
// Values 0.1, 0.2, ... of these dims.
inline std::string ramp_tensor(const std::string& name, const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  std::vector<float> v(static_cast<size_t>(n));
  for (size_t i = 0; i < v.size(); ++i) v[i] = 0.1f * static_cast<float>(i + 1);
  return f32_tensor(name, dims, v);
}

// AttributeProto.
inline std::string attribute(const std::string& name, AttributeType type, const std::function<void(pbf_writer&)>& value) {
  std::string out;
  pbf_writer w(out);
  w.add_string(field::attribute::kName, name);
  value(w);
  w.add_int32(field::attribute::kType, static_cast<int32_t>(type));
  return out;
}
inline std::string int_attr(const std::string& name, int64_t v) {
  return attribute(name, AttributeType::kInt, [&](pbf_writer& w) { w.add_int64(field::attribute::kInt, v); });
}
inline std::string float_attr(const std::string& name, float v) {
  return attribute(name, AttributeType::kFloat, [&](pbf_writer& w) { w.add_float(field::attribute::kFloat, v); });
}
inline std::string string_attr(const std::string& name, const std::string& v) {
  return attribute(name, AttributeType::kString, [&](pbf_writer& w) { w.add_string(field::attribute::kString, v); });
}
inline std::string ints_attr(const std::string& name, const std::vector<int64_t>& v) {
  return attribute(name, AttributeType::kInts, [&](pbf_writer& w) {
    for (int64_t i : v) w.add_int64(field::attribute::kInts, i);
  });
}
inline std::string floats_attr(const std::string& name, const std::vector<float>& v) {
  return attribute(name, AttributeType::kFloats,
                   [&](pbf_writer& w) { w.add_packed_float(field::attribute::kFloats, v.begin(), v.end()); });
}
inline std::string tensor_attr(const std::string& name, const std::string& tensor) {
  return attribute(name, AttributeType::kTensor, [&](pbf_writer& w) { w.add_message(field::attribute::kTensor, tensor); });
}
// Of a function's node: the attribute of the calling node that is called `reference`.
inline std::string reference_attr(const std::string& name, AttributeType type, const std::string& reference) {
  return attribute(name, type, [&](pbf_writer& w) { w.add_string(field::attribute::kRefName, reference); });
}
inline std::string graph_attr(const std::string& name, const std::string& graph) {
  return attribute(name, AttributeType::kGraph, [&](pbf_writer& w) { w.add_message(field::attribute::kGraph, graph); });
}

struct TestNode {
  std::string op;
  std::vector<std::string> inputs, outputs;
  std::vector<std::string> attributes = {};
  std::string name = {};
  std::string domain = {};
};

inline std::string node_bytes(const TestNode& n) {
  std::string out;
  pbf_writer w(out);
  for (const auto& i : n.inputs) w.add_string(field::node::kInput, i);
  for (const auto& o : n.outputs) w.add_string(field::node::kOutput, o);
  if (!n.name.empty()) w.add_string(field::node::kName, n.name);
  w.add_string(field::node::kOpType, n.op);
  for (const auto& a : n.attributes) w.add_message(field::node::kAttribute, a);
  if (!n.domain.empty()) w.add_string(field::node::kDomain, n.domain);
  return out;
}

// A function that the model defines, of opset 13.
struct TestFunction {
  std::string name, domain;
  std::vector<std::string> inputs, outputs;
  std::vector<TestNode> nodes;
  std::vector<std::string> defaults = {};  // AttributeProtos
  std::string bytes() const {
    std::string out, opset_bytes;
    pbf_writer w(out), opset_writer(opset_bytes);
    opset_writer.add_int64(field::opset::kVersion, 13);
    w.add_string(field::function::kName, name);
    for (const auto& i : inputs) w.add_string(field::function::kInput, i);
    for (const auto& o : outputs) w.add_string(field::function::kOutput, o);
    for (const TestNode& n : nodes) w.add_message(field::function::kNode, node_bytes(n));
    w.add_message(field::function::kOpsetImport, opset_bytes);
    w.add_string(field::function::kDomain, domain);
    for (const auto& a : defaults) w.add_message(field::function::kAttributeDefault, a);
    return out;
  }
};

inline std::string value_info(const std::string& name, ElemType type, const std::optional<TestDims>& dims) {
  std::string shape, tensor, type_proto, out;
  pbf_writer shape_writer(shape), tensor_writer(tensor), type_writer(type_proto), writer(out);
  for (const TestDim& d : dims.value_or(TestDims{})) {
    std::string dim;
    pbf_writer w(dim);
    if (const auto* v = std::get_if<int64_t>(&d)) w.add_int64(field::dimension::kValue, *v);
    else if (!std::get<std::string>(d).empty()) w.add_string(field::dimension::kParam, std::get<std::string>(d));
    shape_writer.add_message(field::shape::kDim, dim);
  }
  tensor_writer.add_int32(field::tensor_type::kElemType, number(type));
  if (dims) tensor_writer.add_message(field::tensor_type::kShape, shape);
  type_writer.add_message(field::type::kTensor, tensor);
  writer.add_string(field::value_info::kName, name);
  writer.add_message(field::value_info::kType, type_proto);
  return out;
}

// A model under construction. Inputs and outputs are f32 unless said.
struct TestModel {
  int64_t opset = 13;
  int64_t ir_version = 8;
  std::vector<TestNode> nodes = {};
  std::vector<std::string> initializers = {};  // TensorProtos
  std::vector<std::string> inputs = {};        // ValueInfoProtos
  std::vector<std::string> outputs = {};
  std::vector<TestFunction> functions = {};
  bool has_sparse = false;

  TestModel& input(const std::string& name, const TestDims& dims, ElemType type = ElemType::kFloat) {
    inputs.push_back(value_info(name, type, dims));
    return *this;
  }
  TestModel& output(const std::string& name, ElemType type = ElemType::kFloat, const std::optional<TestDims>& dims = {}) {
    outputs.push_back(value_info(name, type, dims));
    return *this;
  }
  TestModel& weight(std::string tensor) {
    initializers.push_back(std::move(tensor));
    return *this;
  }
  TestModel& node(TestNode n) {
    nodes.push_back(std::move(n));
    return *this;
  }

  std::string graph_bytes() const {
    std::string out;
    pbf_writer w(out);
    for (const TestNode& n : nodes) w.add_message(field::graph::kNode, node_bytes(n));
    w.add_string(field::graph::kName, "test");
    for (const auto& t : initializers) w.add_message(field::graph::kInitializer, t);
    if (has_sparse) w.add_message(field::graph::kSparseInitializer, std::string());
    for (const auto& v : inputs) w.add_message(field::graph::kInput, v);
    for (const auto& v : outputs) w.add_message(field::graph::kOutput, v);
    return out;
  }

  std::string bytes() const {
    std::string opset_bytes, out;
    pbf_writer opset_writer(opset_bytes), w(out);
    opset_writer.add_string(field::opset::kDomain, "");
    opset_writer.add_int64(field::opset::kVersion, opset);
    w.add_int64(field::model::kIrVersion, ir_version);
    w.add_string(field::model::kProducerName, "lathe tests");
    w.add_message(field::model::kGraph, graph_bytes());
    w.add_message(field::model::kOpsetImport, opset_bytes);
    for (const TestFunction& f : functions) w.add_message(field::model::kFunctions, f.bytes());
    return out;
  }

  // The import of the model, without passes unless asked for.
  Result<Graph> import(ImportOptions options = {}, ImportReport* report = nullptr, bool passes = false) const {
    const auto owner = std::make_shared<std::string>(bytes());
    options.run_passes = passes;
    return import_onnx(OnnxSource{owner, std::as_bytes(std::span<const char>(*owner)), {}}, options, report);
  }
};

// Model with one node that reads input x and makes output y.
inline TestModel one_node(int64_t opset, const std::string& op, const TestDims& dims, std::vector<std::string> attributes = {},
                          std::vector<std::string> more_inputs = {}) {
  TestModel m{.opset = opset};
  m.input("x", dims).output("y");
  std::vector<std::string> inputs = {"x"};
  inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
  m.node({.op = op, .inputs = inputs, .outputs = {"y"}, .attributes = std::move(attributes), .name = "n"});
  return m;
}

}  // namespace lathe::test
