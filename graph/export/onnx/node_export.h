// The state of one export, and what the export function of an op sees of its node.
//
// Tensors of the file: every value of the graph has at most two, in its own order of axes and with channels second (NCHW), made
// when a node first wants them; a Transpose in the graph from one to the other only gives the second name. A quantized value's
// tensors are floats too, behind a DequantizeLinear.
//
// An export function asks for its operands' names and writes the ONNX nodes; the last goes through `result`:
//
//   Result<void> export_leaky_relu(NodeExport& e) {
//     return e.result("LeakyRelu", {e.input(0)}, {float_attribute("alpha", e.attrs<LeakyReluAttrs>().alpha)});
//   }
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/export/onnx/model_writer.h"
#include "graph/ir.h"

namespace lathe::onnx {

// How a node's tensors lie: as the graph has them, or with channels second. kAny: as its operands do (layout-free ops).
enum class TensorLayout : uint8_t { kNative, kChannelsSecond, kAny };

// Older readers take it, and it has all operators that most models need.
inline constexpr int64_t kLeastOpset = 17;

class Exporter {
 public:
  Exporter(const Graph& graph, int64_t opset);

  const Graph& graph;
  ModelWriter writer;
  int64_t opset;  // raised by ops that need a newer one
  std::string missing;  // a value that was asked for and that no node of the file makes

  // The tensor of real (or plain integer) elements of v.
  std::string tensor(ValueId v, bool channels_second);
  // Whether v has a tensor; with channels second only, so far.
  bool is_made(ValueId v) const;
  bool is_channels_second(ValueId v) const;
  // v is made: the name to give its tensor.
  std::string define(ValueId v, bool channels_second);
  // The same for the integers of a quantized value.
  std::string define_steps(ValueId v, bool channels_second);
  // The value has no node of its own: another's tensor stands for it.
  void alias(ValueId v, bool channels_second, const std::string& name);
  // The real tensor of a quantized value that is not made yet is made by a node of this name, as this tensor.
  void name_real(ValueId v, bool channels_second, const std::string& name, const std::string& node);
  // The integers of a quantized value.
  std::string steps(ValueId v, bool channels_second);
  // Makes v's own name a tensor of the file, in the graph's order of axes.
  void finish_output(ValueId v);

  // `stem`, or `stem:2`, ...: new among tensors (nodes).
  std::string fresh(const std::string& stem);
  std::string node_name(const std::string& stem);
  template <class T>
  std::string constant(const std::string& stem, DType dtype, const std::vector<int64_t>& dims, const std::vector<T>& values) {
    const std::string name = fresh(stem);
    writer.initializer(name, dtype, dims, std::as_bytes(std::span<const T>(values)));
    return name;
  }
  // The type of a quantized value's integers in the file. Inside it they are uint8, from which other runtimes make integer
  // operators; what callers see, and constants, keep their type.
  DType steps_type(ValueId v) const;
  // Names of a scale and a zero point for integers of this type; `quant` is for s8 ones where it is u8.
  std::vector<std::string> parameters(const std::string& stem, const Quant& quant, DType dtype);
  // A DequantizeLinear of these integers, with parameters along `axis` if there are several.
  std::string dequantized(const std::string& steps, const std::string& name, const Quant& quant, DType dtype, int64_t axis,
                          const std::string& node = {});
  // A constant with its axes in the order of `perm` (empty: as they are) and real elements.
  std::string stored(ValueId v, const std::vector<int32_t>& perm, const std::string& stem);

 private:
  struct Tensors {
    std::string native, second;              // real elements
    std::string steps_native, steps_second;  // integers
  };
  std::string transposed(const std::string& from, const std::string& to, bool to_second);
  std::string wanted(ValueId v, bool channels_second);

  std::map<ValueId, Tensors> tensors_;
  std::map<std::pair<ValueId, std::vector<int32_t>>, std::string> stored_;
  std::set<std::string> names_, node_names_;
};

class NodeExport {
 public:
  // `attrs`: for operands that lie so.
  NodeExport(Exporter& out, const Node& node, Attrs attrs, bool channels_second, bool result_second)
      : out_(out), node_(node), attrs_(std::move(attrs)), channels_second_(channels_second), result_second_(result_second) {}

  const Node& node() const { return node_; }
  Exporter& out() { return out_; }
  const Graph& graph() const { return out_.graph; }
  bool channels_second() const { return channels_second_; }
  // Attributes for the layout of this node.
  template <class A> const A& attrs() const { return std::get<A>(attrs_); }

  bool has(size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != kNoId; }
  const TensorType& type(size_t i) const { return graph().value(node_.inputs[i]).type; }
  const Value& value(size_t i) const { return graph().value(node_.inputs[i]); }
  const Value& result_value() const { return graph().value(node_.outputs[0]); }
  // The tensor of operand i in this node's layout; as the graph has it.
  std::string input(size_t i) { return out_.tensor(node_.inputs[i], channels_second_); }
  std::string native_input(size_t i) { return out_.tensor(node_.inputs[i], false); }

  // An ONNX node between; its result.
  std::string step(const std::string& tag, const std::string& op_type, const std::vector<std::string>& inputs,
                   const std::vector<std::string>& attributes = {});
  // The ONNX node that makes result 0, then the clamp of the node's attributes and, for a quantized value, QuantizeLinear.
  Result<void> result(const std::string& op_type, const std::vector<std::string>& inputs,
                      const std::vector<std::string>& attributes = {});
  // The ONNX node that makes all results, which are no quantized values.
  Result<void> results(const std::string& op_type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& attributes = {});
  void need_opset(int64_t least) { out_.opset = std::max(out_.opset, least); }
  // Operand i, a constant weight, with its axes in the order of `perm`; operand i, the bias, which a quantized op has in steps of
  // its sums.
  Result<std::string> stored_operand(size_t i, const std::vector<int32_t>& perm);
  Result<std::string> bias_operand(size_t i);
  // A constant of the file: a vector, a scalar.
  std::string integers(const std::string& tag, const std::vector<int64_t>& values);
  std::string integer(const std::string& tag, int64_t v);
  std::string real(const std::string& tag, float v);
  // The elements of a constant of floats.
  static std::vector<float> floats(const Value& v) { return {v.constant.as<float>().begin(), v.constant.as<float>().end()}; }

 private:
  Exporter& out_;
  const Node& node_;
  Attrs attrs_;
  const bool channels_second_, result_second_;
};

struct OpExport {
  TensorLayout layout;
  Result<void> (*run)(NodeExport& e);  // nullptr: refused
  const char* reason;                  // why
};
// nullptr if ops.inc forgets the op.
const OpExport* find_op_export(Op op);

// Whether a recurrent layer's operator says what this node does, so that it has no node in the file: the product of the inputs
// with their weights, or a state without its axis of directions.
bool belongs_to_layer(const Graph& graph, const Node& node);

#define EXPORT_OP(op, layout, function) Result<void> function(NodeExport& e);
#define REFUSE_OP(op, reason)
#include "graph/export/onnx/ops.inc"
#undef EXPORT_OP
#undef REFUSE_OP

}  // namespace lathe::onnx
