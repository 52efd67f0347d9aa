#include "quant/dynamic.h"

#include <algorithm>

#include "graph/cost.h"
#include "graph/op_def.h"
#include "graph/rewriter.h"
#include "quant/decide.h"
#include "quant/embedding.h"
#include "quant/grid.h"

namespace lathe {
namespace {

// The operand that is a weight, or the number of operands.
size_t weight_operand(const Node& node) {
  const OpDef& def = op_def(node.op);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (quant_rule(def, i).role == QuantRole::kWeight) return i;
  }
  return node.inputs.size();
}

// Why this node stays float; empty if it becomes dynamic.
std::string obstacle(const Graph& graph, const Node& node) {
  if (takes_embedding_rows(graph, node)) return "";
  const size_t w = weight_operand(node);
  if (w == node.inputs.size()) return "no weights";
  if (op_def(node.op).dynamic == nullptr) return "no dynamic form, which would be slow; calibrate it with data";
  const Value& weight = graph.value(node.inputs[w]);
  if (weight.kind != ValueKind::kConstant || weight.type.dtype != DType::kF32) return "weights are not constant floats";
  return graph.value(node.inputs[0]).type.dtype == DType::kF32
             ? ""
             : "works on " + std::string(dtype_name(graph.value(node.inputs[0]).type.dtype));
}

Result<void> convert(Rewriter& rewriter, NodeId n, const DynamicOptions& options) {
  Graph& graph = rewriter.graph();
  const Node& node = graph.node(n);
  if (takes_embedding_rows(graph, node)) return quantize_embedding(rewriter, n);
  const DynamicForm& form = *op_def(node.op).dynamic;
  std::vector<ValueId> inputs = node.inputs;
  const size_t w = weight_operand(node);
  const Value& weight = graph.value(inputs[w]);
  const auto channels = graph.dims().value(weight.type.dims[0]);
  if (!channels) return fail(Code::kUnsupported, "weight '" + weight.name + "' has symbolic dims");
  // The bias stays float, so it does not bound the scales.
  LATHE_TRY(auto q, quantize_weights(weight.constant.as<float>(), {}, static_cast<uint32_t>(*channels),
                                     {.per_channel = options.per_channel, .input_scale = 1}));
  const size_t count = q.scales.size();
  Quant quant{std::move(q.scales), std::vector<int32_t>(count, 0), options.per_channel ? 0 : -1, -127, 127};
  inputs[w] = rewriter.constant(graph.fresh_name(weight.name + ":s8"), {DType::kS8, weight.type.dims}, Constant::of(q.values),
                                std::move(quant));
  const ValueId out = node.outputs[0];
  const std::string name = node.name;
  const ValueId made =
      rewriter.insert(n, form.op, form.attrs(node.attrs, options.per_token), std::move(inputs), graph.fresh_name(name));
  rewriter.replace(out, made);
  rewriter.erase(n);
  rewriter.rename_producer(made, name);
  return rewriter.ok();
}

}  // namespace

Result<QuantizeResult> quantize_dynamic(const Graph& graph, const DynamicOptions& options) {
  LATHE_CHECK_OK(check_is_float(graph));
  LATHE_TRY(const std::vector<bool> kept, kept_float(graph, options.keep_float));
  QuantizeResult result{graph, {}, 0};
  const double total = std::max(1.0, total_macs(graph));
  Rewriter rewriter(result.graph);
  bool any = false;
  for (size_t i = 0; i < graph.order().size(); ++i) {
    const NodeId n = graph.order()[i];
    const Node& node = graph.node(n);
    std::string why = obstacle(graph, node);
    if (why.empty() && kept[i]) why = "kept float on request";
    result.rows.push_back({node.name, op_name(node.op), why.empty(), why, node_cost_macs(graph, node) / total});
    if (!why.empty()) continue;
    any = true;
    if (auto done = convert(rewriter, n, options); !done)
      return tl::unexpected(with_context(std::move(done.error()), "node '" + node.name + "'"));
  }
  if (!any)
    return fail(Code::kInvalidArgument, "no operator can be quantized dynamically; convolutions need calibration data (--data)");
  rewriter.sweep();
  LATHE_CHECK_OK(rewriter.ok());
  LATHE_CHECK_OK(verify(result.graph));
  return result;
}

}  // namespace lathe
