#include "quant/ptq.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "graph/cost.h"
#include "graph/op_def.h"
#include "lathe/arith.h"
#include "quant/decide.h"
#include "quant/embedding.h"
#include "quant/grid.h"
#include "quant/integer_graph.h"

namespace lathe {
namespace {

// Of the 8-bit form of a value, where both forms are in the graph.
constexpr std::string_view kQuantizedSuffix = ":s8";

std::string quantized_name(const std::string& name) { return name + std::string(kQuantizedSuffix); }

Quant per_tensor(const QuantParams& p) { return Quant{{p.scale}, {p.zero_point}, -1, p.qmin, p.qmax}; }

// Builds the integer graph node by node. Every float value has at most one float and one s8 counterpart, made when first asked
// for.
class Converter {
 public:
  Converter(const Graph& source, const RangeTable& ranges, const QuantizeOptions& options)
      : source_(source), ranges_(ranges), options_(options), graph_(source.dim_table()) {}

  Result<Graph> run(const std::vector<Decision>& decisions, uint32_t* widened_channels) {
    graph_.metadata = source_.metadata;
    find_symmetric(decisions);
    for (const ValueId v : source_.inputs()) float_[v] = graph_.add_input(source_.value(v).name, source_.value(v).type);
    for (size_t i = 0; i < source_.order().size(); ++i) {
      const Node& node = source_.node(source_.order()[i]);
      auto done = decisions[i].int8 && !decisions[i].by_row ? convert(node) : copy(node);
      if (!done) return tl::unexpected(with_context(std::move(done.error()), "node '" + node.name + "'"));
    }
    for (const ValueId v : source_.outputs()) {
      LATHE_TRY(const ValueId out, as_float(v));
      graph_.add_output(out);
    }
    *widened_channels = widened_channels_;
    return std::move(graph_);
  }

 private:
  // Values whose grid gets zero point 0, because a reader wants it so: directly, or behind nodes that only move data.
  void find_symmetric(const std::vector<Decision>& decisions) {
    for (size_t i = decisions.size(); i-- > 0;) {
      if (!decisions[i].int8 || decisions[i].by_row) continue;
      const Node& node = source_.node(source_.order()[i]);
      const OpDef& def = op_def(node.op);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const bool moved = def.quant_out.role == QuantRole::kSameAs && def.quant_out.index == static_cast<int8_t>(k);
        if (quant_rule(def, k).role == QuantRole::kSymmetric || (moved && symmetric_.contains(node.outputs[0])))
          symmetric_.insert(node.inputs[k]);
      }
    }
  }

  Result<void> copy(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId v : node.inputs) {
      LATHE_TRY(const ValueId in, as_float(v));
      inputs.push_back(in);
    }
    std::vector<std::string> names;
    for (const ValueId v : node.outputs) names.push_back(source_.value(v).name);
    LATHE_TRY(const NodeId id, graph_.add_node(node.op, node.attrs, std::move(inputs), node.name, names));
    for (size_t i = 0; i < node.outputs.size(); ++i) float_[node.outputs[i]] = graph_.node(id).outputs[i];
    return {};
  }

  Result<void> convert(const Node& node) {
    const OpDef& def = op_def(node.op);
    std::vector<ValueId> inputs(node.inputs.size(), kNoId);
    size_t weight = node.inputs.size(), bias = weight;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNoId) continue;
      switch (quant_rule(def, i).role) {
        case QuantRole::kWeight:
          weight = i;
          break;
        case QuantRole::kBias:
          bias = i;
          break;
        case QuantRole::kInteger:
        case QuantRole::kFloatConstant: {
          LATHE_TRY(inputs[i], as_float(node.inputs[i]));
          break;
        }
        case QuantRole::kSymmetric: {
          LATHE_TRY(inputs[i], as_symmetric(node.inputs[i]));
          break;
        }
        default: {
          LATHE_TRY(inputs[i], as_int8(node.inputs[i]));
        }
      }
    }
    LATHE_TRY(const QuantParams out, result_params(node, inputs));
    if (weight < inputs.size()) LATHE_CHECK_OK(convert_weights(node, weight, bias, out.scale, &inputs));
    const std::string& name = source_.value(node.outputs[0]).name;
    const std::string q_name = source_.is_output(node.outputs[0]) ? graph_.fresh_name(quantized_name(name)) : name;
    LATHE_TRY(const NodeId id, graph_.add_node(node.op, node.attrs, std::move(inputs), node.name, {q_name}, {per_tensor(out)}));
    int8_[node.outputs[0]] = graph_.node(id).outputs[0];
    return {};
  }

  Result<void> convert_weights(const Node& node, size_t weight, size_t bias, float output_scale, std::vector<ValueId>* inputs) {
    const Value& w = source_.value(node.inputs[weight]);
    const bool has_bias = bias < node.inputs.size();
    const auto bias_values = has_bias ? source_.value(node.inputs[bias]).constant.as<float>() : std::span<const float>{};
    const float input_scale = graph_.value((*inputs)[0]).quant->scales[0];
    const auto channels = source_.dims().value(w.type.dims[0]);
    if (!channels) return fail(Code::kUnsupported, "weight '" + w.name + "' has symbolic dims");
    const int32_t largest = (1 << (options_.weight_bits - 1)) - 1;
    auto q = quantize_weights(w.constant.as<float>(), bias_values, static_cast<uint32_t>(*channels),
                              {.per_channel = options_.per_channel, .input_scale = input_scale, .output_scale = output_scale, .largest = largest, .least_error = options_.weight_mse});
    if (!q) return tl::unexpected(with_context(std::move(q.error()), "'" + w.name + "'"));
    widened_channels_ += q->widened_channels;
    const size_t n = q->scales.size();
    const int32_t axis = options_.per_channel ? 0 : -1;
    Quant quant{std::move(q->scales), std::vector<int32_t>(n, 0), axis, -largest, largest};
    // One float weight may serve several nodes with different inputs; each gets integers of its own, because the bias depends on
    // the input's scale.
    (*inputs)[weight] =
        graph_.add_constant(graph_.fresh_name(w.name), {DType::kS8, w.type.dims}, Constant::of(q->values), std::move(quant));
    if (has_bias) {
      const Value& b = source_.value(node.inputs[bias]);
      (*inputs)[bias] = graph_.add_constant(graph_.fresh_name(b.name), {DType::kS32, b.type.dims}, Constant::of(q->bias));
    }
    return {};
  }

  Result<QuantParams> result_params(const Node& node, const std::vector<ValueId>& inputs) const {
    const QuantRule& rule = op_def(node.op).quant_out;
    if (rule.role == QuantRole::kFixed) return rule.fixed;
    if (rule.role == QuantRole::kSameAs) {
      const Quant& q = *graph_.value(inputs[static_cast<size_t>(rule.index)]).quant;
      return QuantParams{q.scales[0], q.zero_points[0], q.qmin, q.qmax};
    }
    return params_of(node.outputs[0]);
  }

  // From the observed range; a value that only moves data takes its input's.
  Result<QuantParams> params_of(ValueId v) const {
    const Value& value = source_.value(v);
    if (const auto found = ranges_.find(value.name); found != ranges_.end())
      return symmetric_.contains(v) ? symmetric_params(found->second) : activation_params(found->second);
    const Node* producer = source_.producer(v);
    if (producer != nullptr && op_def(producer->op).quant_out.role == QuantRole::kSameAs)
      return params_of(producer->inputs[static_cast<size_t>(op_def(producer->op).quant_out.index)]);
    return fail(Code::kInvalidArgument, "calibration has no range for tensor '" + value.name + "'");
  }

  Result<ValueId> as_float(ValueId v) {
    if (v == kNoId) return kNoId;
    if (const auto it = float_.find(v); it != float_.end()) return it->second;
    const Value& value = source_.value(v);
    if (value.kind == ValueKind::kConstant)
      return float_[v] = graph_.add_constant(value.name, value.type, value.constant, value.quant);
    if (value.kind == ValueKind::kVariable) return float_[v] = graph_.add_variable(value.name, value.type, value.constant);
    const std::string name = source_.is_output(v) ? value.name : graph_.fresh_name(value.name + ":f32");
    LATHE_TRY(const NodeId id,
              graph_.add_node(Op::kDequantize, NoAttrs{}, {int8_.at(v)}, graph_.fresh_name(name + ":dequantize"), {name}));
    return float_[v] = graph_.node(id).outputs[0];
  }

  Result<ValueId> as_int8(ValueId v) {
    if (const auto it = int8_.find(v); it != int8_.end()) return it->second;
    const Value& value = source_.value(v);
    if (value.kind == ValueKind::kConstant) return int8_[v] = quantized_constant(v);
    LATHE_TRY(const QuantParams params, params_of(v));
    LATHE_TRY(const ValueId in, as_float(v));
    const std::string name = graph_.fresh_name(quantized_name(value.name));
    LATHE_TRY(const NodeId id, graph_.add_node(Op::kQuantize, NoAttrs{}, {in}, graph_.fresh_name(name + ":quantize"), {name},
                                               {per_tensor(params)}));
    return int8_[v] = graph_.node(id).outputs[0];
  }

  // The s8 counterpart on a grid with zero point 0; regridded where the op that makes it fixes another one.
  Result<ValueId> as_symmetric(ValueId v) {
    LATHE_TRY(const ValueId given, as_int8(v));
    if (graph_.value(given).quant->zero_points[0] == 0) return given;
    if (const auto it = regridded_.find(v); it != regridded_.end()) return it->second;
    LATHE_TRY(const QuantParams params, params_of(v));
    const std::string name = graph_.fresh_name(source_.value(v).name + ":symmetric");
    LATHE_TRY(const NodeId id, graph_.add_node(Op::kRegrid, NoAttrs{}, {given}, name, {name}, {per_tensor(params)}));
    return regridded_[v] = graph_.node(id).outputs[0];
  }

  ValueId quantized_constant(ValueId v) {
    const Value& value = source_.value(v);
    const auto values = value.constant.as<float>();
    Range range;
    for (const float x : values) range = {std::min<double>(range.min, x), std::max<double>(range.max, x)};
    const QuantParams p = symmetric_.contains(v) ? symmetric_params(range) : activation_params(range);
    std::vector<int8_t> q(values.size());
    for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<int8_t>(quantize(values[i], p.scale, p.zero_point, p.qmin, p.qmax));
    return graph_.add_constant(graph_.fresh_name(quantized_name(value.name)), {DType::kS8, value.type.dims}, Constant::of(q),
                               per_tensor(p));
  }

  const Graph& source_;
  const RangeTable& ranges_;
  const QuantizeOptions& options_;
  Graph graph_;
  std::map<ValueId, ValueId> float_, int8_, regridded_;
  std::set<ValueId> symmetric_;
  uint32_t widened_channels_ = 0;
};

// The nodes decided so, which the converter copied under their names.
Result<void> quantize_embeddings(const Graph& source, const std::vector<Decision>& decisions, Graph& quantized) {
  std::set<std::string> names;
  for (size_t i = 0; i < decisions.size(); ++i)
    if (decisions[i].by_row) names.insert(source.node(source.order()[i]).name);
  Rewriter rewriter(quantized);
  for (const NodeId n : rewriter.nodes()) {
    if (!names.contains(quantized.node(n).name)) continue;
    const std::string name = quantized.node(n).name;
    if (auto done = quantize_embedding(rewriter, n); !done) return tl::unexpected(with_context(std::move(done.error()), "node '" + name + "'"));
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace

Result<Graph> integer_graph(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options,
                            const std::vector<Decision>& decisions, uint32_t* widened_channels) {
  LATHE_CHECK_OK(check_is_float(graph));
  if (options.weight_bits < 2 || options.weight_bits > 8)
    return fail(Code::kInvalidArgument, "weights of " + std::to_string(options.weight_bits) + " bits; 2 to 8 are possible");
  return Converter(graph, ranges, options).run(decisions, widened_channels);
}

Result<QuantizeResult> quantize_graph(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& options) {
  LATHE_TRY(const std::vector<Decision> decisions, decide(graph, options));
  uint32_t widened = 0;
  LATHE_TRY(Graph quantized, integer_graph(graph, ranges, options, decisions, &widened));
  LATHE_CHECK_OK(quantize_embeddings(graph, decisions, quantized));
  LATHE_CHECK_OK(verify(quantized));
  const double total = std::max(1.0, total_macs(graph));
  QuantizeResult result{std::move(quantized), {}, widened};
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    result.rows.push_back(
        {node.name, op_name(node.op), decisions[i].int8, decisions[i].reason, node_cost_macs(graph, node) / total});
  }
  return result;
}

std::string float_name(const std::string& name) {
  return name.ends_with(kQuantizedSuffix) ? name.substr(0, name.size() - kQuantizedSuffix.size()) : name;
}

}  // namespace lathe
