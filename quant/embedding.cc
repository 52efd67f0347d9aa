#include "quant/embedding.h"

#include "graph/op_def.h"
#include "quant/grid.h"

namespace lathe {
namespace {

constexpr int64_t kShortestRow = 8;

}  // namespace

bool takes_embedding_rows(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (def.takes_rows == nullptr || !def.takes_rows(node.attrs)) return false;
  const Value &table = graph.value(node.inputs[0]), &indices = graph.value(node.inputs[1]);
  if (table.kind != ValueKind::kConstant || table.type.dtype != DType::kF32 || table.type.dims.size() != 2) return false;
  const auto width = graph.dims().value(table.type.dims[1]);
  return width && *width >= kShortestRow && indices.kind != ValueKind::kConstant;
}

Result<void> quantize_embedding(Rewriter& rewriter, NodeId id) {
  Graph& graph = rewriter.graph();
  const Node node = graph.node(id);
  const Value table = graph.value(node.inputs[0]);
  const Dim rows = table.type.dims[0];
  LATHE_TRY(QuantizedWeights q, quantize_weights(table.constant.as<float>(), {}, static_cast<uint32_t>(*graph.dims().value(rows)),
                                                 {.per_channel = true}));
  // The bytes have no parameters: their scale depends on the row, which no type can say.
  const ValueId bytes = rewriter.constant(graph.fresh_name(table.name + ":s8"), {DType::kS8, table.type.dims}, Constant::of(q.values));
  const ValueId scales = rewriter.constant(graph.fresh_name(table.name + ":scales"), {DType::kF32, {rows, graph.dims().constant(1)}},
                                           Constant::of(q.scales));
  const auto insert = [&](const char* suffix, Op op, Attrs attrs, std::vector<ValueId> inputs) {
    return rewriter.insert(id, op, std::move(attrs), std::move(inputs), graph.fresh_name(node.name + suffix));
  };
  const ValueId taken = insert(":rows", node.op, node.attrs, {bytes, node.inputs[1]});
  const ValueId real = insert(":real", Op::kCast, CastAttrs{static_cast<int32_t>(DType::kF32)}, {taken});
  const ValueId factors = insert(":factors", node.op, node.attrs, {scales, node.inputs[1]});
  rewriter.substitute(id, Op::kMul, BinaryAttrs{}, {real, factors});
  return rewriter.ok();
}

}  // namespace lathe
