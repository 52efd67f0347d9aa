// An ONNX file as plain structs whose strings and raw bytes are views of the file: nothing is copied but typed number lists.
//
// parse_model() checks the wire format only (lengths, wire types, varints); what the values mean is checked where they are used.
// Nested graphs stay bytes until parse_graph() is asked for one, so nesting depth cannot grow the stack; sparse tensors and type
// lists are noted, never entered.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/import/onnx/onnx_fields.h"

namespace lathe::onnx {

struct TensorProto {
  std::string_view name;
  int32_t data_type = 0;
  std::vector<int64_t> dims;
  std::optional<std::string_view> raw_data;
  std::vector<float> float_data;
  std::vector<int32_t> int32_data;
  std::vector<int64_t> int64_data;
  std::vector<double> double_data;
  std::vector<uint64_t> uint64_data;
  bool has_strings = false;
  bool has_segment = false;
  int32_t data_location = 0;
  std::map<std::string_view, std::string_view> external;  // location, offset, length
};

struct Attribute {
  std::string_view name;
  AttributeType type = AttributeType::kUndefined;
  float f = 0;
  int64_t i = 0;
  std::string_view s;
  std::optional<TensorProto> t;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  std::string_view graph;      // a GraphProto, for parse_graph()
  std::string_view reference;  // of a function's node: the attribute of the calling node that stands here
};

struct NodeProto {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<Attribute> attributes;
};

struct DimProto {
  std::optional<int64_t> value;
  std::string_view param;  // empty: unknown
};

struct ValueInfo {
  std::string_view name;
  bool is_tensor = false;  // else a sequence, map, optional, or no type at all
  int32_t elem_type = 0;
  bool has_shape = false;
  std::vector<DimProto> dims;
};

struct GraphProto {
  std::string_view name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  size_t sparse_initializers = 0;
};

struct OpsetProto {
  std::string_view domain;
  int64_t version = 0;
};

// A node that the model defines itself, by nodes of others.
struct FunctionProto {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<NodeProto> nodes;
  std::vector<Attribute> defaults;
  std::vector<OpsetProto> opsets;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::string_view producer_name, producer_version, domain;
  int64_t model_version = 0;
  std::vector<OpsetProto> opsets;
  std::optional<GraphProto> graph;
  std::vector<FunctionProto> functions;
};

// Error (kCorrupt): what is wrong with the wire format. The result refers to `bytes`.
Result<ModelProto> parse_model(std::span<const std::byte> bytes);
// The nested graph of an attribute.
Result<GraphProto> parse_graph(std::string_view bytes);
// The same for a file that holds one tensor, as test suites store inputs and outputs.
Result<TensorProto> parse_tensor(std::span<const std::byte> bytes);

}  // namespace lathe::onnx
