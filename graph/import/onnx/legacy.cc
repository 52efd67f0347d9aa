#include "graph/import/onnx/legacy.h"

#include <algorithm>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

bool is_one_of(std::string_view op, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

void drop(NodeProto& node, std::string_view attribute) {
  std::erase_if(node.attributes, [&](const Attribute& a) { return a.name == attribute; });
}

// Operand 1 with `trailing` axes of one element behind its own.
Result<void> append_axes(Builder& builder, const NodeProto& node, size_t trailing, NodeProto& out) {
  NodeImport n(builder, node, std::string(node.outputs.empty() ? node.op_type : node.outputs[0]));
  Binding b = n.binding(1);
  if (b.tensor) {
    ConstTensor t = *b.tensor;
    t.dims.insert(t.dims.end(), trailing, 1);
    t.name = builder.value_name(t.name);
    b = {kNoId, std::make_shared<const ConstTensor>(std::move(t))};
  } else {
    std::vector<Dim> dims = n.type(b.value).dims;
    dims.insert(dims.end(), trailing, n.dims().constant(1));
    LATHE_TRY(b.value, reshaped(n, "aligned", b.value, dims));
  }
  const auto at = builder.names.emplace(builder.value_name(n.name() + ":operand"), std::move(b)).first;
  out.inputs[1] = at->first;
  return {};
}

size_t rank_of(const Builder& builder, const Binding& b) {
  return b.tensor ? b.tensor->dims.size() : builder.graph.value(b.value).type.dims.size();
}

// Where operand 1 begins among the axes of operand 0; the last ones, if nothing is said.
Result<void> align_operand(Builder& builder, const NodeProto& node, NodeProto& out) {
  NodeImport n(builder, node, {});
  LATHE_TRY(const bool broadcast, n.flag("broadcast", false));
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  const Binding a = n.binding(0), b = n.binding(1);
  if (!broadcast || !n.has("axis") || a.blocked() || b.blocked()) return {};
  const auto rank = static_cast<int64_t>(rank_of(builder, a)), own = static_cast<int64_t>(rank_of(builder, b));
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis + own > rank)
    return fail(Code::kInvalidArgument, "attribute 'axis' is " + std::to_string(given) + " for operands of rank " +
                                            std::to_string(rank) + " and " + std::to_string(own));
  return axis + own == rank ? Result<void>{} : append_axes(builder, node, static_cast<size_t>(rank - axis - own), out);
}

// One slope per channel, which is axis 1.
Result<void> align_slope(Builder& builder, const NodeProto& node, NodeProto& out) {
  NodeImport n(builder, node, {});
  const Binding x = n.binding(0), slope = n.binding(1);
  if (x.blocked() || slope.blocked() || rank_of(builder, slope) != 1) return {};
  const size_t rank = rank_of(builder, x);
  const bool single = slope.tensor && slope.tensor->elems() == 1;
  return rank < 3 || single ? Result<void>{} : append_axes(builder, node, rank - 2, out);
}

}  // namespace

Result<NodeProto> modern_form(Builder& builder, const NodeProto& node) {
  NodeProto out = node;
  if (node.inputs.size() == 2 && is_one_of(node.op_type, {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"})) {
    LATHE_CHECK_OK(align_operand(builder, node, out));
    drop(out, "broadcast");
    drop(out, "axis");
  }
  if (node.op_type == "PRelu" && node.inputs.size() == 2) LATHE_CHECK_OK(align_slope(builder, node, out));
  if (node.op_type == "Gemm") drop(out, "broadcast");
  if (is_one_of(node.op_type, {"BatchNormalization", "Dropout"})) drop(out, "is_test");
  return out;
}

}  // namespace lathe::onnx
