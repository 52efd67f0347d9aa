// The state of one import, and what the import function of an operator sees of its node.
//
// An import function reads its attributes first, then its operands, then emits nodes and finishes every result:
//
//   Result<void> import_leaky_relu(NodeImport& n) {
//     LATHE_TRY(const float alpha, n.real("alpha", 0.01f));
//     LATHE_TRY(const ValueId x, n.value(0));
//     return n.finish(Op::kLeakyRelu, LeakyReluAttrs{alpha}, {x});
//   }
//
// In that order because a node may stand behind an unsupported one: its operands are then missing (`value` fails with kCancelled,
// which the driver drops), and its attributes are still checked, so that one run lists everything that is missing. Attributes
// that no one has read when a function returns are reported as unsupported. An error has no node name; the driver adds it.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/import/onnx/import_onnx.h"
#include "graph/import/onnx/model_proto.h"
#include "graph/import/onnx/tensor.h"
#include "graph/ir.h"

namespace lathe::onnx {

// What a name of the file stands for: a value of the graph, a constant that is not in the graph yet, or both; or nothing, because
// the node that makes it could not be imported.
struct Binding {
  ValueId value = kNoId;
  std::shared_ptr<const ConstTensor> tensor;
  bool blocked() const { return value == kNoId && tensor == nullptr; }
};

// Imports graphs and functions inside the model into the graph that is being built, once for each use.
class NestedImporter {
 public:
  virtual ~NestedImporter() = default;
  // Nodes of `body` with these inputs, which may see all names outside. Gives its outputs. Errors: kUnsupported (nesting or the
  // number of nodes is over the limit), kCancelled (something in it is not supported, and is listed).
  virtual Result<std::vector<Binding>> import_body(const GraphProto& body, const std::vector<Binding>& inputs) = 0;
};

// The graph that is being built, with the names of the file.
class Builder {
 public:
  Builder(TensorReader& reader, ImportReport& report) : reader(reader), report(report) {}

  Graph graph;
  int64_t opset = 0;
  TensorReader& reader;
  ImportReport& report;
  std::map<std::string, Binding, std::less<>> names;
  // Names of the file's values, which values of our own making must not take.
  std::set<std::string, std::less<>> reserved;
  // Names of the graph's outputs: temporaries, so no constant may take one.
  std::set<std::string, std::less<>> outputs;
  // Element types that the file states, by name. Types of results that it does not state are unknown: 0.
  std::map<std::string, int32_t, std::less<>> elem_types;
  NestedImporter* nested = nullptr;
  // Inside a nested graph or function: its names may stand for several values, and none may take a name of the file's own graph.
  bool is_nested = false;
  // Names whose value the caller gave; what their node makes is dropped.
  std::set<std::string, std::less<>> fixed;

  // `stem`, or `stem:2`, ...: new among values (nodes).
  std::string value_name(const std::string& stem);
  std::string node_name(const std::string& stem);

  // The constant in the graph, made on first use; equal bytes with equal dims and type give the same value. One with parameters
  // is followed by a Dequantize, whose result it gives. Error: empty with parameters, or it has a NaN.
  Result<ValueId> constant(const ConstTensor& t);
  // Makes the binding's constant a value of the graph if it is not one.
  Result<ValueId> materialize(Binding& binding);
  TensorType tensor_type(const ConstTensor& t) const;
  // What the binding stands for, if that is a constant or computed from constants alone; else nullptr. Error: kCancelled.
  Result<std::shared_ptr<const ConstTensor>> known(const Binding& b) const;
  // The value as a constant of this name, if it is computed from constants alone; else nullptr.
  std::shared_ptr<const ConstTensor> evaluated(ValueId id, std::string name) const;

 private:
  struct Key {
    const std::byte* data;
    DType dtype;
    std::vector<int64_t> dims;
    auto operator<=>(const Key&) const = default;
  };
  std::string constant_name(const std::string& name);
  Result<ValueId> dequantized_constant(const ConstTensor& t);
  std::map<Key, ValueId> constants_;
  std::set<std::string> node_names_;
  // By stem, the first number that may be free: unrolled loops ask for the same stem thousands of times.
  std::map<std::string, int> value_numbers_, node_numbers_;
};

class NodeImport {
 public:
  NodeImport(Builder& builder, const NodeProto& proto, std::string name)
      : builder_(builder), proto_(proto), name_(std::move(name)) {}

  int64_t opset() const { return builder_.opset; }
  const NodeProto& proto() const { return proto_; }
  const std::string& name() const { return name_; }
  Builder& builder() { return builder_; }
  DimTable& dims() { return builder_.graph.dims(); }

  // Attributes. A wrong type is an error.
  bool has(std::string_view attribute) const { return find(attribute) != nullptr; }
  Result<int64_t> integer(std::string_view attribute, int64_t absent);
  Result<bool> flag(std::string_view attribute, bool absent);  // an integer, 0 or not
  Result<float> real(std::string_view attribute, float absent);
  Result<std::string_view> text(std::string_view attribute, std::string_view absent);
  Result<std::optional<std::vector<int64_t>>> integers(std::string_view attribute);
  Result<std::vector<float>> reals(std::string_view attribute);  // absent: empty
  // The attribute whatever its type; nullptr if it is absent.
  const Attribute* take(std::string_view attribute);
  // Has no effect on inference.
  void ignore(std::string_view attribute) { take(attribute); }
  // Name of an attribute that nothing has read.
  std::optional<std::string> unread_attribute() const;

  // Operands. Counts are checked by the driver; `has_input` is false for an omitted optional one.
  size_t input_count() const { return proto_.inputs.size(); }
  bool has_input(size_t i) const { return i < proto_.inputs.size() && !proto_.inputs[i].empty(); }
  bool has_output(size_t i) const { return i < proto_.outputs.size() && !proto_.outputs[i].empty(); }
  bool has_any_output() const {
    return std::any_of(proto_.outputs.begin(), proto_.outputs.end(), [](std::string_view o) { return !o.empty(); });
  }
  Result<ValueId> value(size_t i);
  // Imports the graph in attribute `attribute` with these inputs.
  Result<std::vector<Binding>> import_body(std::string_view attribute, const std::vector<Binding>& inputs);
  // The constant behind operand i, or nullptr if it is computed.
  Result<std::shared_ptr<const ConstTensor>> constant(size_t i);
  // The same for an operand that is a weight: one that the file stores as integers stays so (ConstTensor::quant).
  Result<std::shared_ptr<const ConstTensor>> weight(size_t i);
  // The same, but a small tensor that is computed from constants is computed now: exporters leave scalars and shape arithmetic as
  // nodes.
  Result<std::shared_ptr<const ConstTensor>> known_tensor(size_t i);
  // Elements of operand i, an integer tensor known at import: a constant, or computed from known dims. `what` names it in the
  // error.
  Result<std::vector<int64_t>> known_integers(size_t i, const char* what);
  // The same where the elements may be expressions of symbolic dims.
  Result<std::vector<Dim>> known_dims(size_t i, const char* what);
  // The one element of operand i, a constant: a float, or a whole number that a float holds.
  Result<float> known_real(size_t i, const char* what);
  // An integer list that is an attribute before opset `since` and operand i from then on.
  Result<std::optional<std::vector<int64_t>>> integers_or_input(std::string_view attribute, int64_t since, size_t i);

  // Type of operand i in the file, where a float's width tells: as stated there, else that of the dtype that it has here.
  int32_t elem_type(size_t i) const;
  // States it of output 0.
  void note_elem_type(int32_t elem_type) { builder_.elem_types[std::string(proto_.outputs[0])] = elem_type; }

  const TensorType& type(ValueId v) const { return builder_.graph.value(v).type; }
  size_t rank(ValueId v) const { return type(v).dims.size(); }
  // Number of dim `axis` of v, if it is known.
  std::optional<int64_t> dim(ValueId v, size_t axis) const { return builder_.graph.dims().value(type(v).dims[axis]); }
  // axis in [-rank, rank) as an index.
  Result<int32_t> normalized_axis(int64_t axis, size_t rank) const;
  // The same for a list; a repeated axis is an error.
  Result<std::vector<int32_t>> normalized_axes(const std::vector<int64_t>& axes, size_t rank) const;

  // Appends a node and gives its result. `tag` tells several nodes of one ONNX node apart; the empty tag is the node's own name.
  // `quant`: parameters of a result that has its own.
  Result<ValueId> emit(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs, std::optional<Quant> quant = {});
  // All results of a node that has several.
  Result<std::vector<ValueId>> emit_all(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs);
  // The same for the node whose result is output `output` of the ONNX node.
  Result<void> finish(Op op, Attrs attrs, std::vector<ValueId> inputs, size_t output = 0, const std::string& tag = {});
  // The same without making it the output: the result only has its name.
  Result<ValueId> emit_output(Op op, Attrs attrs, std::vector<ValueId> inputs, size_t output, const std::string& tag = {});
  // The node whose results are all outputs of the ONNX node, in order; those that it does not name get names.
  Result<void> finish_all(Op op, Attrs attrs, std::vector<ValueId> inputs);
  // Output is what is given, with no node of its own.
  void bind(Binding binding, size_t output = 0);
  Result<void> bind_constant(ConstTensor t);
  // What operand i stands for; and with the integers of a dequantized constant.
  Binding binding(size_t i) const;
  Binding stored_binding(size_t i) const;

  // An integer constant of the graph, for operands like a reshape's target.
  Result<ValueId> integers_constant(const std::string& tag, const std::vector<int64_t>& values);
  Result<ValueId> scalar_constant(const std::string& tag, float value);

 private:
  std::string stem(const std::string& tag) const { return tag.empty() ? name_ : name_ + ":" + tag; }
  // The results of a new node.
  Result<std::vector<ValueId>> add(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs,
                                   std::vector<std::string> results, std::optional<Quant> quant = {});
  std::string result_name(size_t output) const;
  const Attribute* find(std::string_view attribute) const;
  Result<const Attribute*> typed(std::string_view attribute, AttributeType type);

  Builder& builder_;
  const NodeProto& proto_;
  std::string name_;
  std::set<std::string_view> read_;
};

// One operator of ops.inc.
struct OpImport {
  const char* name;
  int64_t since;  // oldest opset whose form is read (at least kOldestOpset in effect)
  size_t min_inputs, max_inputs;
  Result<void> (*import)(NodeImport& n);
};
inline constexpr size_t kVariadic = SIZE_MAX;
// An operator of the default domain, or of another; nullptr if it is in no list.
const OpImport* find_op_import(std::string_view name);
const OpImport* find_op_import(std::string_view domain, std::string_view name);

#define ONNX_OP(name, since, min_inputs, max_inputs, function) Result<void> function(NodeImport& n);
#include "graph/import/onnx/ms_ops.inc"
#include "graph/import/onnx/ops.inc"
#include "graph/import/onnx/preview_ops.inc"
#undef ONNX_OP

}  // namespace lathe::onnx
