// The state of one import, and what the import function of an operator sees of its node.
//
// An import function reads its options and constants, then its operands, then emits nodes and finishes every result:
//
//   Result<void> import_leaky_relu(NodeImport& n) {
//     const auto* o = n.options().options_as_LeakyRelu();
//     LATHE_TRY(const ValueId x, n.value(0));
//     return n.finish(Op::kLeakyRelu, LeakyReluAttrs{o == nullptr ? 0.0f : o->alpha()}, {x});
//   }
//
// A node may stand behind an unsupported one: its operands are then missing (`value` fails with kCancelled, which the driver
// drops). An error has no node name; the driver adds it.
//
// Quantized values: `finish` gives the result the file's parameters. Where the op has no form for the operands' integers, or
// fixes other parameters than the file's, it computes with real numbers between a Dequantize and a Quantize, or adds a Regrid.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/import/tflite/import_tflite.h"
#include "graph/import/tflite/model.h"
#include "graph/ir.h"

namespace lathe::tflite {

// The dtype that stands for a file's element type: float16 becomes f32, uint8 with quantization s8.
Result<DType> dtype_of(const FileTensor& t);
// The parameters that the file gives a tensor, on the grid of dtype_of: one scale, or one per index of an axis. Nothing if it
// has none.
Result<std::optional<Quant>> quant_of(const FileTensor& t);

// A variable that operators read and write by name.
struct Resource {
  const FileTensor* initial = nullptr;  // the constant that the file assigns before the first run
  ValueId variable = kNoId;             // once it is read or written
  ValueId held = kNoId;                 // what it holds after the operators imported so far
};

// The graph that is being built from one subgraph.
class Builder {
 public:
  Builder(const FileModel& model, const FileSubgraph& file, std::shared_ptr<const void> owner, size_t file_bytes,
          ImportReport& report);

  Graph graph;
  const FileModel& model;
  const FileSubgraph& file;
  ImportReport& report;
  std::vector<ValueId> values;     // by tensor: its value, once it has one
  std::vector<bool> blocked;       // by tensor: made by an operator that could not be imported
  std::vector<std::string> names;  // by tensor: unique
  // Resource variables, by name, and the names behind the tensors that are handles of them (variables.cc).
  std::map<std::string, Resource> resources;
  std::map<int32_t, std::string> handles;

  std::string value_name(const std::string& stem);
  std::string node_name(const std::string& stem);

  // A tensor's value: made before, or a constant of the file, which is added on first use.
  Result<ValueId> value(int32_t tensor);
  // Bytes in the file where they are aligned to the element, else a copy. Copies are bounded: kUnsupported past the bound.
  Result<Constant> share(std::span<const std::byte> bytes, size_t elem_bytes);
  template <class T> Result<Constant> copy(const std::vector<T>& elems) {
    LATHE_CHECK_OK(charge(elems.size() * sizeof(T)));
    return Constant::of(elems);
  }
  Result<void> charge(size_t bytes);
  // The elements of a constant, f32 or quantized s8 or s16, as real values: q - z times its channel's scale, each one float32
  // operation.
  Result<std::vector<float>> real_elements(ValueId v);
  // The variable that holds the state of a tensor that keeps its value between runs: real values, 0 at first.
  Result<ValueId> state(int32_t tensor);
  // Assigns to every resource variable what it holds at the end: until then readers see the value of the last run.
  Result<void> write_resources();
  std::vector<Dim> dims_of(std::span<const int32_t> dims) const;

 private:
  Result<ValueId> add_constant(int32_t tensor);

  std::shared_ptr<const void> owner_;
  size_t budget_;  // bytes that conversions may still take
  std::set<std::string> node_names_;
  std::map<std::string, int> stems_;  // how often value_name or node_name was asked for a stem
};

class NodeImport {
 public:
  NodeImport(Builder& builder, const FileOperator& op);

  Builder& builder() { return builder_; }
  DimTable& dims() { return builder_.graph.dims(); }
  const FileOperator& op() const { return op_; }
  const fbs::Operator& options() const { return *op_.options; }
  const std::string& name() const { return name_; }

  size_t input_count() const { return op_.inputs.size(); }
  bool has_input(size_t i) const { return i < op_.inputs.size() && op_.inputs[i] >= 0; }
  // Requires: has_input(i).
  const FileTensor& input(size_t i) const { return builder_.file.tensors[static_cast<size_t>(op_.inputs[i])]; }
  const FileTensor& output(size_t i = 0) const { return builder_.file.tensors[static_cast<size_t>(op_.outputs[i])]; }
  Result<ValueId> value(size_t i);
  // The constant behind operand i, with what it has in the file; `what` names it in the error.
  Result<const FileTensor*> constant(size_t i, const char* what);
  // Elements of operand i, integers known at import: a constant, or computed from known dims.
  Result<std::vector<int64_t>> known_integers(size_t i, const char* what);
  // The same where the elements may be expressions of symbolic dims.
  Result<std::vector<Dim>> known_dims(size_t i, const char* what);

  const TensorType& type(ValueId v) const { return builder_.graph.value(v).type; }
  const std::optional<Quant>& quant(ValueId v) const { return builder_.graph.value(v).quant; }
  size_t rank(ValueId v) const { return type(v).dims.size(); }
  std::optional<int64_t> dim(ValueId v, size_t axis) const { return builder_.graph.dims().value(type(v).dims[axis]); }
  // axis in [-rank, rank) as an index.
  Result<int32_t> normalized_axis(int64_t axis, size_t rank) const;
  // The same for a list, ascending; a repeated axis counts once.
  Result<Ints> normalized_axes(const std::vector<int64_t>& axes, size_t rank) const;

  // Appends a node and gives its result. `tag` tells several nodes of one operator apart.
  Result<ValueId> emit(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs,
                       std::optional<Quant> quant = {});
  // The same for an op of several results.
  Result<std::vector<ValueId>> emit_all(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs);
  // The node whose result is output `output`.
  Result<void> finish(Op op, Attrs attrs, std::vector<ValueId> inputs, size_t output = 0);
  // v, a real value or an integer, becomes output `output`; regridded if the file gives it other parameters.
  Result<void> finish_value(ValueId v, size_t output = 0);
  // Writes a value into a variable.
  Result<void> assign(const std::string& tag, ValueId variable, ValueId v);
  // v as float32.
  Result<ValueId> real(ValueId v);
  // v with other dims, at most one of them open.
  Result<ValueId> reshaped(const std::string& tag, ValueId v, const std::vector<Dim>& dims);
  Result<void> finish_reshaped(ValueId v, const std::vector<Dim>& dims, size_t output = 0);
  // At most as many parts as a Concat takes, made of `parts` in their order; quantized ones go to `grid`.
  Result<std::vector<ValueId>> few_parts(int32_t axis, std::vector<ValueId> parts, const std::optional<Quant>& grid);
  Result<ValueId> integers_constant(const std::string& tag, const std::vector<int64_t>& values);
  Result<ValueId> real_constant(const std::string& tag, float value);
  // A number of type `dtype`: float, an integer or bool.
  Result<ValueId> number(const std::string& tag, DType dtype, int64_t value);
  // A small integer tensor as dims: where its elements depend on data, they are known when what makes them has run.
  Result<ValueId> extents(const std::string& tag, ValueId v);

 private:
  std::string stem(const std::string& tag) const { return tag.empty() ? name_ : name_ + ":" + tag; }
  Result<ValueId> add(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs, const std::string& result,
                      std::optional<Quant> quant);
  Result<void> bind(ValueId v, size_t output);
  // A reshape's target; kUnsupported if more than one dim is open.
  Result<ValueId> shape_constant(const std::string& tag, const std::vector<Dim>& target);

  Builder& builder_;
  const FileOperator& op_;
  std::string name_;
};

// Limits of a fused activation; kUnsupported for those that are no clamp.
struct ActivationBounds {
  float lo = -kInfinity;
  float hi = kInfinity;
};
Result<ActivationBounds> activation_bounds(fbs::Activation activation);

// One operator of ops.inc.
struct OpImport {
  const char* name;
  int32_t code;
  size_t min_inputs, max_inputs;
  Result<void> (*import)(NodeImport& n);
};
inline constexpr size_t kVariadic = SIZE_MAX;
// nullptr if the operator is not in the list.
const OpImport* find_op_import(int32_t code);

#define TFLITE_OP(name, code, min_inputs, max_inputs, function) Result<void> function(NodeImport& n);
#include "graph/import/tflite/ops.inc"
#undef TFLITE_OP

}  // namespace lathe::tflite
