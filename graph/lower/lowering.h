// State of one lowering, shared by the files of this folder: which program tensor each graph value became.
#pragma once
#include <optional>
#include <vector>

#include "graph/lower/image_writer.h"
#include "graph/op_def.h"

namespace lathe {

class Lowering {
 public:
  // sparse: weights may be stored without their blocks of zeros.
  Lowering(const Graph& graph, ImageWriter& writer, bool sparse)
      : graph(graph), writer(writer), sparse(sparse), tensors_(graph.value_count(), kNoTensor) {}

  // The tensor of a graph value as it stands: constants in their canonical form, everything else dense. kNoTensor for kNoId.
  Result<uint32_t> operand(ValueId v);
  // A new tensor for a value of `kind` at `port`.
  Result<uint32_t> define(ValueId v, TensorKind kind, uint32_t port);
  // A constant that has no value of its own in the graph, or (`value`) the packed form of one.
  template <class T>
  Result<uint32_t> derived(const std::vector<T>& elems, DType dtype, std::span<const int64_t> dims) {
    return packed(elems, {.dtype = dtype, .kind = TensorKind::kConstant}, dims);
  }
  template <class T>
  Result<uint32_t> packed(const std::vector<T>& elems, const ImageWriter::TensorSpec& spec, std::span<const int64_t> dims) {
    const auto* p = reinterpret_cast<const uint8_t*>(elems.data());
    return writer.stored(spec, dims, std::vector<uint8_t>(p, p + elems.size() * sizeof(T)));
  }
  // Emits the step of `node` with these program operands; results are the node's own or `outputs`.
  Result<void> emit(const Node& node, Op op, const Attrs& attrs, std::vector<uint32_t> inputs);
  Result<void> emit(const Node& node, Op op, const Attrs& attrs, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs);

  const Graph& graph;
  ImageWriter& writer;
  const bool sparse;

 private:
  std::vector<uint32_t> tensors_;  // by value
};

// Per-tensor parameters of a quantized value. Errors: kUnsupported if they are per channel.
Result<QuantParams> tensor_quant(const Value& value);
// A value's dims as numbers; kUnsupported if one is symbolic.
Result<std::vector<int64_t>> static_dims(const Graph& graph, ValueId v);
// Whether v is an 8-bit quantized value.
bool is_s8(const Graph& graph, ValueId v);

// graph/lower/half.cc: an op that has no half-precision kernel runs in float32 between Casts.
bool has_half_operand(const Graph& graph, const Node& node);
Result<void> lower_widened(Lowering& state, const Node& node);
// graph/lower/conv.cc: Conv2d and FullyConnected, float, half precision and s8; ConvTranspose2d, float and s8.
Result<void> lower_conv(Lowering& state, const Node& node);
// The same file: DynamicFullyConnected.
Result<void> lower_dynamic(Lowering& state, const Node& node);
// graph/lower/table.cc: one-input functions and Softmax on s8.
Result<void> lower_table(Lowering& state, const Node& node);
Result<void> lower_softmax(Lowering& state, const Node& node);

// graph/lower/layer_norm.cc: LayerNorm on s8.
Result<void> lower_layer_norm(Lowering& state, const Node& node);

}  // namespace lathe
