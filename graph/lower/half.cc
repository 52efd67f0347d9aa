// Ops on half-precision values that run in float32: operands are widened before the step, constants already here, and results are
// narrowed behind it. The Casts are steps of their own, so that a profile shows what they cost.
#include "graph/lower/lowering.h"
#include "lathe/float16.h"

namespace lathe {
namespace {

bool is_half(const Graph& graph, ValueId v) { return v != kNoId && graph.value(v).type.dtype == DType::kF16; }

Result<void> cast(Lowering& state, const Node& node, uint32_t from, uint32_t to, DType dtype) {
  return state.writer.step(
      {Op::kCast, CastAttrs{static_cast<int32_t>(dtype)}, {from}, {to}, Dim{}, {node.name, op_name(Op::kCast), 0}});
}

Result<uint32_t> float_temporary(Lowering& state, const Value& value) {
  return state.writer.tensor({.dtype = DType::kF32, .kind = TensorKind::kTemporary}, value.type.dims);
}

Result<uint32_t> widened_operand(Lowering& state, const Node& node, ValueId v) {
  if (!is_half(state.graph, v)) return state.operand(v);
  const Value& value = state.graph.value(v);
  if (value.kind == ValueKind::kConstant) {
    std::vector<float> wide;
    for (const uint16_t h : value.constant.as<uint16_t>()) wide.push_back(half_to_float(h));
    LATHE_TRY(const std::vector<int64_t> dims, static_dims(state.graph, v));
    return state.derived(wide, DType::kF32, dims);
  }
  LATHE_TRY(const uint32_t half, state.operand(v));
  LATHE_TRY(const uint32_t wide, float_temporary(state, value));
  LATHE_CHECK_OK(cast(state, node, half, wide, DType::kF32));
  return wide;
}

}  // namespace

bool has_half_operand(const Graph& graph, const Node& node) {
  for (const ValueId v : node.inputs) {
    if (is_half(graph, v)) return true;
  }
  return false;
}

Result<void> lower_widened(Lowering& state, const Node& node) {
  std::vector<uint32_t> inputs, wide, narrow;
  for (const ValueId v : node.inputs) {
    LATHE_TRY(const uint32_t t, widened_operand(state, node, v));
    inputs.push_back(t);
  }
  for (const ValueId v : node.outputs) {
    LATHE_TRY(const uint32_t y, state.operand(v));
    narrow.push_back(y);
    if (is_half(state.graph, v)) {
      LATHE_TRY(const uint32_t t, float_temporary(state, state.graph.value(v)));
      wide.push_back(t);
    } else {
      wide.push_back(y);
    }
  }
  LATHE_CHECK_OK(state.emit(node, node.op, node.attrs, std::move(inputs), wide));
  for (size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] != narrow[i]) LATHE_CHECK_OK(cast(state, node, wide[i], narrow[i], DType::kF16));
  }
  return {};
}

}  // namespace lathe
