// The intermediate representation: values and nodes of one network, named by integer ids.
//
// Ids stay valid for ever; erased nodes and values are tombstones. `order()` is a topological order. Passes edit through
// graph/rewriter.h only. A Graph is copyable (constants are shared, not copied). Not thread-safe.
//
// Convolution-like ops are NHWC with OHWI weights (runtime/attrs.h). A quantized value has an integer dtype and `quant`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graph/dim.h"
#include "lathe/dtype.h"
#include "runtime/op.h"

namespace lathe {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNoId = 0xffffffffu;  // a missing optional operand, or no producer

// One alternative per distinct attribute struct of ops.def.
using Attrs = std::variant<NoAttrs, Conv2dAttrs, FullyConnectedAttrs, BatchNormAttrs, Pool2dAttrs, ReduceAttrs, BinaryAttrs, ClampAttrs,
                           LeakyReluAttrs, AxisAttrs, PermAttrs, SliceAttrs, PadAttrs, CastAttrs, LayerNormAttrs,
                           GeluAttrs, MatMulAttrs, DynamicFullyConnectedAttrs, ConvTranspose2dAttrs,
                           ModAttrs, BitShiftAttrs, EluAttrs, HardSigmoidAttrs, ArgAttrs, TopKAttrs, CumulateAttrs, TriluAttrs,
                           // runtime/attrs_move.h
                           ExtentsAttrs, TargetDimsAttrs, BorderAttrs, TileAttrs, GatherNdAttrs, ScatterAttrs, TensorScatterAttrs, UniqueAttrs, OneHotAttrs,
                           ReverseSequenceAttrs, Col2ImAttrs, ArgMaxPoolAttrs, ResizeAttrs, RoiAlignAttrs, EinsumAttrs,
                           QuantizeLinearAttrs, DequantizeLinearAttrs,
                           RecurrentAttrs, MaskedSoftmaxAttrs, LinearAttentionAttrs, NmsAttrs, PackAttrs, BatchNormTrainAttrs,
                           Conv2dWeightGradAttrs, FakeQuantAttrs>;
// The attribute struct of `op` with its defaults.
Attrs default_attrs(Op op);

struct TensorType {
  DType dtype = DType::kF32;
  std::vector<Dim> dims = {};
  bool operator==(const TensorType&) const = default;
};

// Affine parameters: one scale (axis -1) or one per index of `axis`.
struct Quant {
  std::vector<float> scales;
  std::vector<int32_t> zero_points;  // as many as scales
  int32_t axis = -1;
  int32_t qmin = -128;
  int32_t qmax = 127;
  bool operator==(const Quant&) const = default;
};

// Bytes of a constant, shared and immutable: from a mapped file (zero-copy) or from the heap. `layout` says how they lie (runtime/program.h);
// canonical (kPlain) unless the model was read from a file with packed weights.
struct Constant {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  bool valid() const { return owner != nullptr; }
  template <class T> std::span<const T> as() const { return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)}; }
  // Requires T trivially copyable. Copies into memory aligned to 64 bytes.
  static Constant copy(std::span<const std::byte> bytes);
  template <class T> static Constant of(const std::vector<T>& v) { return copy(std::as_bytes(std::span<const T>(v))); }
};

enum class ValueKind : uint8_t { kInput, kConstant, kVariable, kTemporary };

struct Value {
  ValueKind kind = ValueKind::kTemporary;
  TensorType type = {};
  std::optional<Quant> quant = {};
  NodeId producer = kNoId;   // temporaries only
  Constant constant = {};    // constants; a variable's initial value
  // Contents of an integer tensor of up to 64 elements, where they are known as expressions (shape subgraphs).
  std::optional<std::vector<Dim>> contents = {};
  std::string name = {};     // unique in the graph
  bool dead = false;
};

class Graph;

// Mean and deviation of a layer's channels over the data that the network was trained on, before residual and clamp.
struct ChannelMoments {
  std::vector<float> mean, deviation;
};

struct Node {
  Op op = Op::kReshape;
  Attrs attrs = {};
  std::vector<ValueId> inputs = {};  // kNoId where an optional operand is missing
  std::vector<ValueId> outputs = {};
  std::vector<std::shared_ptr<const Graph>> regions = {};  // If and Loop; captures are explicit inputs
  std::string name = {};             // unique in the graph; the importer's own node name where it has one
  std::shared_ptr<const ChannelMoments> moments = {};  // where a batch normalization was folded; not stored in files
  bool dead = false;
};

class Graph {
 public:
  explicit Graph(std::shared_ptr<DimTable> dims = std::make_shared<DimTable>()) : dims_(std::move(dims)) {}

  DimTable& dims() const { return *dims_; }
  const std::shared_ptr<DimTable>& dim_table() const { return dims_; }

  // Builders. Names must be new (fresh_name makes one; verify() finds the others); types of temporaries come from infer: add_node fails if it
  // does. Contents of small integer constants are read from their bytes.
  ValueId add_input(std::string name, TensorType type, std::optional<Quant> quant = {});
  ValueId add_constant(std::string name, TensorType type, Constant bytes, std::optional<Quant> quant = {});
  ValueId add_variable(std::string name, TensorType type, Constant initial);
  // Appends a node to the order; output values are made with inferred types, named `name` or `name:i`. A quantized op (integer operands with
  // parameters) gives a quantized result: `output_quants` has its parameters, unless the op's rule fixes them. Errors name the node.
  Result<NodeId> add_node(Op op, Attrs attrs, std::vector<ValueId> inputs, std::string name,
                          std::vector<std::string> output_names = {}, std::vector<std::optional<Quant>> output_quants = {},
                          std::vector<std::shared_ptr<const Graph>> regions = {});
  void add_output(ValueId v) { outputs_.push_back(v); }

  const Value& value(ValueId v) const { return values_[v]; }
  const Node& node(NodeId n) const { return nodes_[n]; }
  size_t value_count() const { return values_.size(); }  // tombstones included
  size_t node_count() const { return nodes_.size(); }
  const std::vector<NodeId>& order() const { return order_; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }

  // The node that makes `v`, or nullptr.
  const Node* producer(ValueId v) const { return v == kNoId || values_[v].producer == kNoId ? nullptr : &nodes_[values_[v].producer]; }
  // Nodes that read v, in order, each once; whether v is a graph output.
  std::vector<NodeId> consumers(ValueId v) const;
  bool is_output(ValueId v) const;
  ValueId find_value(const std::string& name) const;  // kNoId if there is none
  std::string fresh_name(std::string stem) const;

  // Free-form facts that travel with the model: opset, producer, preprocessing, lineage. Stored in META.
  std::map<std::string, std::string> metadata;

 private:
  friend class Rewriter;
  friend struct GraphSurgeon;  // tests/graph/verify_test.cc: breaks graphs on purpose
  ValueId add_value(Value v);
  // Makes a node and its results without putting it in the order.
  Result<NodeId> make_node(Node node, std::vector<std::string> output_names, std::span<const std::optional<Quant>> output_quants);
  std::string fresh_value_name(std::string stem) const;

  std::shared_ptr<DimTable> dims_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<NodeId> order_;
  std::vector<ValueId> inputs_, outputs_;
  std::map<std::string, ValueId> value_names_;
  std::map<std::string, NodeId> node_names_;
};

// Order, one producer, arity, inferred types equal stored types, quantization parameters valid, constants as large as their type says,
// names unique, outputs exist, acyclic. The error names the node or value.
Result<void> verify(const Graph& graph);

// A type as the text form writes it: f32[N,3,32,32].
std::string print_type(const DimTable& dims, const TensorType& type);

// Text form: one line per fact, input, constant, variable, node and output.
//
//   graph {
//     input %x : f32[N,28,28,1]
//     constant %w : s8[8,3,3,1] quant(axis=0, scales=[0.5, ...]) = splat 1
//     %y : s8[N,26,26,8] quant(scale=0.125, zero_point=-3) = Conv2d "conv1" (%x, %w, _) {stride=[2,2]}
//     output %y
//   }
//
// A node's name is left out where it is its first result's, a result's type may be left out when reading. `full` prints all elements of
// constants (as a list, `splat v`, or hex bytes: x"00ff"); else those with more than 16 are elided, and the text does not parse.
std::string print(const Graph& graph, bool full = false);
// Reads a full text back to an equal graph, and verifies it. Errors name the line.
Result<Graph> parse_graph(std::string_view text);

}  // namespace lathe
