#include "quant/rounded.h"

#include <algorithm>
#include <set>

#include "graph/rewriter.h"
#include "quant/decide.h"
#include "quant/grid.h"
#include "quant/layers.h"

namespace lathe {

Result<Graph> with_rounded_weights(const Graph& graph, const Graph& quantized) {
  Graph out = graph;
  Rewriter rewriter(out);
  for (const LayerPair& pair : layer_pairs(graph, quantized)) {
    const Value& q = quantized.value(quantized.node(pair.integer.node).inputs[pair.integer.weight]);
    const Value& real = graph.value(graph.node(pair.real.node).inputs[pair.real.weight]);
    const auto steps = q.constant.as<int8_t>();
    std::vector<float> values(steps.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(steps[i]) * weight_scale(*q.quant, i / pair.real.row());
    rewriter.set_input(pair.real.node, pair.real.weight,
                       rewriter.constant(out.fresh_name(real.name + ":rounded"), real.type, Constant::of(values)));
  }
  rewriter.sweep();
  LATHE_CHECK_OK(rewriter.ok());
  return out;
}

Result<Graph> with_rounded_activations(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options) {
  Graph out = graph;
  LATHE_TRY(const std::vector<Decision> decisions, decide(graph, options));
  std::set<ValueId> wanted;
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (!decisions[i].int8 || decisions[i].by_row) continue;
    const Node& node = graph.node(graph.order()[i]);
    for (const ValueId v : node.inputs)
      if (v != kNoId && graph.value(v).kind != ValueKind::kConstant) wanted.insert(v);
    wanted.insert(node.outputs[0]);
  }
  Rewriter rewriter(out);
  for (const ValueId v : wanted) {
    const auto range = ranges.find(graph.value(v).name);
    if (range == ranges.end() || graph.value(v).type.dtype != DType::kF32) continue;
    const auto readers = out.consumers(v);
    if (readers.empty()) continue;
    NodeId first = kNoId;  // in order
    for (const NodeId n : out.order())
      if (std::find(readers.begin(), readers.end(), n) != readers.end()) {
        first = n;
        break;
      }
    const QuantParams p = activation_params(range->second);
    const ValueId q = rewriter.insert(first, Op::kQuantize, NoAttrs{}, {v}, out.fresh_name(graph.value(v).name + ":grid"),
                                      Quant{{p.scale}, {p.zero_point}, -1, p.qmin, p.qmax});
    const ValueId real = rewriter.insert(first, Op::kDequantize, NoAttrs{}, {q}, out.fresh_name(graph.value(v).name + ":real"));
    for (const NodeId reader : readers)
      for (size_t i = 0; i < out.node(reader).inputs.size(); ++i)
        if (out.node(reader).inputs[i] == v) rewriter.set_input(reader, i, real);
  }
  LATHE_CHECK_OK(rewriter.ok());
  return out;
}

}  // namespace lathe
