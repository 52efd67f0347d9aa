#include "graph/import/onnx/model_proto.h"

#include <protozero/pbf_reader.hpp>
#include <string>

namespace lathe::onnx {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

// protozero reports damage by exceptions (caught in parse_model) but only asserts that a field has the wire type it is read as;
// these readers check it first.
void expect(const pbf_reader& m, pbf_wire_type wire) {
  if (m.wire_type() != wire) throw protozero::unknown_pbf_wire_type_exception{};
}
std::string_view read_bytes(pbf_reader& m) {
  expect(m, pbf_wire_type::length_delimited);
  const protozero::data_view v = m.get_view();
  return {v.data(), v.size()};
}
pbf_reader read_message(pbf_reader& m) {
  expect(m, pbf_wire_type::length_delimited);
  return m.get_message();
}
int64_t read_int(pbf_reader& m) {
  expect(m, pbf_wire_type::varint);
  return m.get_int64();
}
// int32 and enum fields: a negative number takes ten bytes, like int64; one that does not fit stays distinguishable as -1, which
// no list has.
int32_t read_int32(pbf_reader& m) {
  const int64_t v = read_int(m);
  return v >= INT32_MIN && v <= INT32_MAX ? static_cast<int32_t>(v) : -1;
}

// A repeated number field may be packed or not, and writers mix both.
template <class T, class Get, class GetPacked>
void read_repeated(pbf_reader& m, pbf_wire_type wire, std::vector<T>& out, Get get, GetPacked get_packed) {
  if (m.wire_type() == pbf_wire_type::length_delimited) {
    const auto range = get_packed(m);
    for (auto it = range.begin(); it != range.end(); ++it) out.push_back(static_cast<T>(*it));
    return;
  }
  expect(m, wire);
  out.push_back(static_cast<T>(get(m)));
}
void read_ints(pbf_reader& m, std::vector<int64_t>& out) {
  read_repeated(
      m, pbf_wire_type::varint, out, [](pbf_reader& r) { return r.get_int64(); },
      [](pbf_reader& r) { return r.get_packed_int64(); });
}
void read_int32s(pbf_reader& m, std::vector<int32_t>& out) {
  read_repeated(
      m, pbf_wire_type::varint, out, [](pbf_reader& r) { return r.get_int64(); },
      [](pbf_reader& r) { return r.get_packed_int64(); });
}
void read_uint64s(pbf_reader& m, std::vector<uint64_t>& out) {
  read_repeated(
      m, pbf_wire_type::varint, out, [](pbf_reader& r) { return r.get_uint64(); },
      [](pbf_reader& r) { return r.get_packed_uint64(); });
}
void read_floats(pbf_reader& m, std::vector<float>& out) {
  read_repeated(
      m, pbf_wire_type::fixed32, out, [](pbf_reader& r) { return r.get_float(); },
      [](pbf_reader& r) { return r.get_packed_float(); });
}
void read_doubles(pbf_reader& m, std::vector<double>& out) {
  read_repeated(
      m, pbf_wire_type::fixed64, out, [](pbf_reader& r) { return r.get_double(); },
      [](pbf_reader& r) { return r.get_packed_double(); });
}
float read_float(pbf_reader& m) {
  expect(m, pbf_wire_type::fixed32);
  return m.get_float();
}

std::pair<std::string_view, std::string_view> parse_string_entry(pbf_reader m) {
  std::pair<std::string_view, std::string_view> e;
  while (m.next()) switch (m.tag()) {
    case field::string_entry::kKey: e.first = read_bytes(m); break;
    case field::string_entry::kValue: e.second = read_bytes(m); break;
    default: m.skip();
  }
  return e;
}

TensorProto read_tensor(pbf_reader m) {
  TensorProto t;
  while (m.next()) switch (m.tag()) {
    case field::tensor::kDims: read_ints(m, t.dims); break;
    case field::tensor::kDataType: t.data_type = read_int32(m); break;
    case field::tensor::kSegment: t.has_segment = true; m.skip(); break;
    case field::tensor::kFloatData: read_floats(m, t.float_data); break;
    case field::tensor::kInt32Data: read_int32s(m, t.int32_data); break;
    case field::tensor::kStringData: t.has_strings = true; m.skip(); break;
    case field::tensor::kInt64Data: read_ints(m, t.int64_data); break;
    case field::tensor::kName: t.name = read_bytes(m); break;
    case field::tensor::kRawData: t.raw_data = read_bytes(m); break;
    case field::tensor::kDoubleData: read_doubles(m, t.double_data); break;
    case field::tensor::kUint64Data: read_uint64s(m, t.uint64_data); break;
    case field::tensor::kExternalData: t.external.insert(parse_string_entry(read_message(m))); break;
    case field::tensor::kDataLocation: t.data_location = read_int32(m); break;
    default: m.skip();
  }
  return t;
}

Attribute parse_attribute(pbf_reader m) {
  Attribute a;
  while (m.next()) switch (m.tag()) {
    case field::attribute::kName: a.name = read_bytes(m); break;
    case field::attribute::kFloat: a.f = read_float(m); break;
    case field::attribute::kInt: a.i = read_int(m); break;
    case field::attribute::kString: a.s = read_bytes(m); break;
    case field::attribute::kTensor: a.t = read_tensor(read_message(m)); break;
    case field::attribute::kFloats: read_floats(m, a.floats); break;
    case field::attribute::kInts: read_ints(m, a.ints); break;
    case field::attribute::kStrings: a.strings.push_back(read_bytes(m)); break;
    case field::attribute::kType: a.type = static_cast<AttributeType>(read_int32(m)); break;
    case field::attribute::kGraph: a.graph = read_bytes(m); break;
    case field::attribute::kRefName: a.reference = read_bytes(m); break;
    default: m.skip();
  }
  return a;
}

NodeProto parse_node(pbf_reader m) {
  NodeProto n;
  while (m.next()) switch (m.tag()) {
    case field::node::kInput: n.inputs.push_back(read_bytes(m)); break;
    case field::node::kOutput: n.outputs.push_back(read_bytes(m)); break;
    case field::node::kName: n.name = read_bytes(m); break;
    case field::node::kOpType: n.op_type = read_bytes(m); break;
    case field::node::kAttribute: n.attributes.push_back(parse_attribute(read_message(m))); break;
    case field::node::kDomain: n.domain = read_bytes(m); break;
    case field::node::kOverload: n.overload = read_bytes(m); break;
    default: m.skip();
  }
  return n;
}

DimProto parse_dim(pbf_reader m) {
  DimProto d;
  while (m.next()) switch (m.tag()) {
    case field::dimension::kValue: d.value = read_int(m); break;
    case field::dimension::kParam: d.param = read_bytes(m); break;
    default: m.skip();
  }
  return d;
}

void parse_shape(pbf_reader m, ValueInfo& v) {
  v.has_shape = true;
  while (m.next()) {
    if (m.tag() == field::shape::kDim) v.dims.push_back(parse_dim(read_message(m)));
    else m.skip();
  }
}

void parse_tensor_type(pbf_reader m, ValueInfo& v) {
  v.is_tensor = true;
  while (m.next()) switch (m.tag()) {
    case field::tensor_type::kElemType: v.elem_type = read_int32(m); break;
    case field::tensor_type::kShape: parse_shape(read_message(m), v); break;
    default: m.skip();
  }
}

void parse_type(pbf_reader m, ValueInfo& v) {
  while (m.next()) {
    if (m.tag() == field::type::kTensor) parse_tensor_type(read_message(m), v);
    else m.skip();
  }
}

ValueInfo parse_value_info(pbf_reader m) {
  ValueInfo v;
  while (m.next()) switch (m.tag()) {
    case field::value_info::kName: v.name = read_bytes(m); break;
    case field::value_info::kType: parse_type(read_message(m), v); break;
    default: m.skip();
  }
  return v;
}

GraphProto read_graph(pbf_reader m) {
  GraphProto g;
  while (m.next()) switch (m.tag()) {
    case field::graph::kNode: g.nodes.push_back(parse_node(read_message(m))); break;
    case field::graph::kName: g.name = read_bytes(m); break;
    case field::graph::kInitializer: g.initializers.push_back(read_tensor(read_message(m))); break;
    case field::graph::kInput: g.inputs.push_back(parse_value_info(read_message(m))); break;
    case field::graph::kOutput: g.outputs.push_back(parse_value_info(read_message(m))); break;
    case field::graph::kValueInfo: g.values.push_back(parse_value_info(read_message(m))); break;
    case field::graph::kSparseInitializer: ++g.sparse_initializers; m.skip(); break;
    default: m.skip();
  }
  return g;
}

OpsetProto parse_opset(pbf_reader m) {
  OpsetProto o;
  while (m.next()) switch (m.tag()) {
    case field::opset::kDomain: o.domain = read_bytes(m); break;
    case field::opset::kVersion: o.version = read_int(m); break;
    default: m.skip();
  }
  return o;
}

FunctionProto read_function(pbf_reader m) {
  FunctionProto f;
  while (m.next()) switch (m.tag()) {
    case field::function::kName: f.name = read_bytes(m); break;
    case field::function::kInput: f.inputs.push_back(read_bytes(m)); break;
    case field::function::kOutput: f.outputs.push_back(read_bytes(m)); break;
    case field::function::kNode: f.nodes.push_back(parse_node(read_message(m))); break;
    case field::function::kOpsetImport: f.opsets.push_back(parse_opset(read_message(m))); break;
    case field::function::kDomain: f.domain = read_bytes(m); break;
    case field::function::kAttributeDefault: f.defaults.push_back(parse_attribute(read_message(m))); break;
    case field::function::kOverload: f.overload = read_bytes(m); break;
    default: m.skip();
  }
  return f;
}

ModelProto read_model(pbf_reader m) {
  ModelProto p;
  while (m.next()) switch (m.tag()) {
    case field::model::kIrVersion: p.ir_version = read_int(m); break;
    case field::model::kProducerName: p.producer_name = read_bytes(m); break;
    case field::model::kProducerVersion: p.producer_version = read_bytes(m); break;
    case field::model::kDomain: p.domain = read_bytes(m); break;
    case field::model::kModelVersion: p.model_version = read_int(m); break;
    case field::model::kGraph: p.graph = read_graph(read_message(m)); break;
    case field::model::kOpsetImport: p.opsets.push_back(parse_opset(read_message(m))); break;
    case field::model::kFunctions: p.functions.push_back(read_function(read_message(m))); break;
    default: m.skip();
  }
  return p;
}

template <class T>
Result<T> parse_message(std::span<const std::byte> bytes, const std::string& what, T (*read)(pbf_reader)) {
  try {
    return read(pbf_reader{reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const protozero::end_of_buffer_exception&) {
    return fail(Code::kCorrupt, "not a whole onnx " + what + ": a field reaches past the end of its message");
  } catch (const protozero::exception& e) {
    return fail(Code::kCorrupt, "not an onnx " + what + ": " + e.what());
  }
}

}  // namespace

Result<ModelProto> parse_model(std::span<const std::byte> bytes) { return parse_message(bytes, "model", read_model); }

Result<GraphProto> parse_graph(std::string_view bytes) {
  return parse_message(std::as_bytes(std::span<const char>(bytes)), "graph", read_graph);
}

Result<TensorProto> parse_tensor(std::span<const std::byte> bytes) { return parse_message(bytes, "tensor", read_tensor); }

}  // namespace lathe::onnx
