#include "quant/qat.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/fake_quant.h"
#include "graph/op_def.h"
#include "graph/passes/fuse_quantized.h"
#include "lathe/arith.h"
#include "quant/embedding.h"
#include "quant/grid.h"
#include "quant/integer_graph.h"

namespace lathe::qat {
namespace {

bool moves_data(const Node& node) { return op_def(node.op).quant_out.role == QuantRole::kSameAs; }

// The operand with this role, or the number of operands.
size_t operand_of(const Node& node, QuantRole role) {
  size_t i = 0;
  while (i < node.inputs.size() && (node.inputs[i] == kNoId || quant_rule(op_def(node.op), i).role != role)) ++i;
  return i;
}

// Writes the integer graph again with floats: every op as the source has it, a FakeQuant where a value has a grid of its own.
class Insertion {
 public:
  Insertion(const Graph& source, const Graph& integer, const Options& options)
      : source_(source), integer_(integer), options_(options), out_(source.dim_table()) {}

  Result<Graph> run() {
    out_.metadata = source_.metadata;
    std::map<std::string, NodeId> by_name;
    for (const NodeId n : source_.order()) by_name[source_.node(n).name] = n;
    for (const ValueId v : integer_.inputs()) real_[v] = out_.add_input(integer_.value(v).name, integer_.value(v).type);
    for (const NodeId n : integer_.order()) {
      const Node& node = integer_.node(n);
      const auto found = by_name.find(node.name);
      if (auto done = found == by_name.end() ? border(node) : op(node, source_.node(found->second)); !done)
        return tl::unexpected(with_context(std::move(done.error()), "node '" + node.name + "'"));
    }
    for (const ValueId v : integer_.outputs()) {
      LATHE_TRY(const ValueId out, real(v));
      out_.add_output(out);
    }
    return std::move(out_);
  }

 private:
  // A value is the real number itself, so leaving the integers is nothing; entering them, or another grid, is a FakeQuant.
  Result<void> border(const Node& node) {
    const Value& result = integer_.value(node.outputs[0]);
    LATHE_TRY(ValueId v, real(node.inputs[0]));
    if (result.quant) {
      LATHE_TRY(v, on_grid(v, *result.quant, result.name, node.name, options_.learn_steps));
    }
    real_[node.outputs[0]] = v;
    return {};
  }

  Result<void> op(const Node& node, const Node& source) {
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      LATHE_TRY(inputs.emplace_back(), operand(node.inputs[i], source.inputs[i], quant_rule(op_def(node.op), i).role));
    }
    const std::optional<Quant>& quant = integer_.value(node.outputs[0]).quant;
    const bool own_grid = quant && !moves_data(node);
    std::vector<std::string> names;
    for (const ValueId v : source.outputs) names.push_back(source_.value(v).name);
    const std::string name = names[0];
    const bool output = source_.is_output(source.outputs[0]);
    if (own_grid && output) names[0] = out_.fresh_name(name + ":exact");
    LATHE_TRY(const NodeId made, out_.add_node(source.op, source.attrs, std::move(inputs), source.name, names));
    for (size_t i = 0; i < node.outputs.size(); ++i) real_[node.outputs[i]] = out_.node(made).outputs[i];
    if (!own_grid) return {};
    const bool learned = options_.learn_steps && op_def(node.op).quant_out.role != QuantRole::kFixed;
    const std::string grid = out_.fresh_name(name + ":grid");
    LATHE_TRY(real_[node.outputs[0]], on_grid(real_[node.outputs[0]], *quant, output ? name : grid, grid, learned));
    return {};
  }

  Result<ValueId> operand(ValueId v, ValueId source, QuantRole role) {
    if (v == kNoId) return kNoId;
    const Value& value = integer_.value(v);
    if (value.kind != ValueKind::kConstant) return real(v);
    const Value& stored = source_.value(source);
    if (!constants_.contains(source)) constants_[source] = out_.add_constant(stored.name, stored.type, stored.constant, stored.quant);
    if (!value.quant) return constants_[source];
    // A weight with several readers is rounded once for all that round it alike.
    for (const auto& [quant, rounded] : rounded_[source])
      if (quant == *value.quant) return rounded;
    const std::string name = out_.fresh_name(stored.name + ":grid");
    LATHE_TRY(const ValueId rounded,
              on_grid(constants_[source], *value.quant, name, name, options_.learn_steps && role == QuantRole::kWeight));
    rounded_[source].emplace_back(*value.quant, rounded);
    return rounded;
  }

  Result<ValueId> real(ValueId v) {
    if (const auto it = real_.find(v); it != real_.end()) return it->second;
    const Value& value = integer_.value(v);
    if (value.quant || value.kind == ValueKind::kTemporary)
      return fail(Code::kUnsupported, "'" + value.name + "' has no form as real numbers");
    return real_[v] = value.kind == ValueKind::kConstant ? out_.add_constant(value.name, value.type, value.constant)
                                                         : out_.add_variable(value.name, value.type, value.constant);
  }

  Result<ValueId> on_grid(ValueId v, const Quant& q, const std::string& value_name, const std::string& node_name, bool learned) {
    TensorType type{DType::kF32, {}};
    if (q.axis >= 0) type.dims = {out_.value(v).type.dims[static_cast<size_t>(q.axis)]};
    ValueId scale = out_.add_constant(out_.fresh_name(node_name + ":scale"), type, Constant::of(q.scales));
    if (learned) {
      const ValueId factor =
          out_.add_constant(out_.fresh_name(node_name + ":factor"), type, Constant::of(std::vector<float>(q.scales.size(), 1.0f)));
      LATHE_TRY(const NodeId step, out_.add_node(Op::kStepSize, ClampAttrs{kLeastFactor, kLargestFactor}, {factor, scale},
                                                 out_.fresh_name(node_name + ":step")));
      scale = out_.node(step).outputs[0];
    }
    const FakeQuantAttrs attrs{q.axis, q.zero_points[0], q.qmin, q.qmax};
    LATHE_TRY(const NodeId made, out_.add_node(Op::kFakeQuant, attrs, {v, scale}, node_name, {value_name}));
    return out_.node(made).outputs[0];
  }

  const Graph &source_, &integer_;
  const Options options_;
  Graph out_;
  std::map<ValueId, ValueId> real_;       // by value of the integer graph
  std::map<ValueId, ValueId> constants_;  // by constant of the source
  std::map<ValueId, std::vector<std::pair<Quant, ValueId>>> rounded_;
};

// The grid of a value, whatever has moved it since.
std::optional<Quant> grid_of(const Graph& graph, ValueId v) {
  for (const Node* node = graph.producer(v); node != nullptr && moves_data(*node); node = graph.producer(v))
    v = node->inputs[static_cast<size_t>(op_def(node->op).quant_out.index)];
  const auto found = lathe::on_grid(graph, v);
  return found ? std::optional(found->quant) : std::nullopt;
}

// The grid that the only reader of a value puts it on.
std::optional<Quant> grid_behind(const Graph& graph, ValueId v) {
  for (const NodeId n : graph.consumers(v))
    if (const auto found = lathe::on_grid(graph, graph.node(n).outputs[0]); found && found->real == v) return found->quant;
  return {};
}

class Conversion {
 public:
  explicit Conversion(Graph& graph) : graph_(graph), rewriter_(graph) {}

  Result<uint32_t> run(const QuantizeOptions& quantize) {
    LATHE_TRY(const std::vector<bool> asked, kept_float(graph_, quantize.keep_float));
    std::set<NodeId> kept;
    for (size_t i = 0; i < asked.size(); ++i)
      if (asked[i]) kept.insert(graph_.order()[i]);
    for (const NodeId n : rewriter_.nodes())
      if (auto done = weights(n); !done)
        return tl::unexpected(with_context(std::move(done.error()), "node '" + graph_.node(n).name + "'"));
    rewriter_.sweep();
    for (const NodeId n : rewriter_.nodes())
      if (const auto grid = lathe::on_grid(graph_, graph_.node(n).outputs.empty() ? kNoId : graph_.node(n).outputs[0]))
        LATHE_CHECK_OK(state(n, *grid));
    if (!any_) return fail(Code::kInvalidArgument, "the graph has no values on grids; insert fake quantizers first");
    rewriter_.sweep();
    LATHE_CHECK_OK(rewriter_.ok());
    LATHE_CHECK_OK(passes::fuse_quantized_but(rewriter_, kept));
    for (const NodeId n : rewriter_.nodes())
      if (!kept.contains(n) && takes_embedding_rows(graph_, graph_.node(n))) LATHE_CHECK_OK(quantize_embedding(rewriter_, n));
    rewriter_.sweep();
    LATHE_CHECK_OK(rewriter_.ok());
    return widened_;
  }

 private:
  ValueId dequantized(NodeId before, const std::string& name, DType dtype, const std::vector<Dim>& dims, Constant steps, Quant quant) {
    const ValueId stored = rewriter_.constant(graph_.fresh_name(name), {dtype, dims}, std::move(steps), std::move(quant));
    return rewriter_.insert(before, Op::kDequantize, NoAttrs{}, {stored}, graph_.fresh_name(name + ":dequantize"));
  }

  // Weights on a grid, with a bias on that of the sums.
  Result<void> weights(NodeId n) {
    const Node node = graph_.node(n);
    const size_t w = operand_of(node, QuantRole::kWeight), b = operand_of(node, QuantRole::kBias);
    const auto grid = w < node.inputs.size() ? lathe::on_grid(graph_, node.inputs[w]) : std::nullopt;
    const auto x = grid ? grid_of(graph_, node.inputs[0]) : std::nullopt;
    const auto y = grid_behind(graph_, node.outputs.empty() ? kNoId : node.outputs[0]);
    if (!grid || !x || !y) return {};
    const Value weight = graph_.value(grid->real);
    const auto channels = graph_.dims().value(weight.type.dims[0]);
    if (!channels) return fail(Code::kUnsupported, "weight '" + weight.name + "' has symbolic dims");
    const bool has_bias = b < node.inputs.size();
    const Value bias = has_bias ? graph_.value(node.inputs[b]) : Value{};
    LATHE_TRY(auto q, quantize_weights(weight.constant.as<float>(), has_bias ? bias.constant.as<float>() : std::span<const float>{},
                                       static_cast<uint32_t>(*channels),
                                       {.per_channel = grid->quant.axis >= 0, .input_scale = x->scales[0], .output_scale = y->scales[0],
                                        .largest = grid->quant.qmax, .scales = grid->quant.scales}));
    widened_ += q.widened_channels;
    any_ = true;
    Quant sums{q.scales, grid->quant.zero_points, has_bias && q.scales.size() > 1 ? 0 : -1, INT32_MIN, INT32_MAX};
    for (float& s : sums.scales) s *= x->scales[0];
    const Quant steps{std::move(q.scales), grid->quant.zero_points, grid->quant.axis, grid->quant.qmin, grid->quant.qmax};
    rewriter_.set_input(n, w, dequantized(n, weight.name + ":s8", DType::kS8, weight.type.dims, Constant::of(q.values), steps));
    if (has_bias) rewriter_.set_input(n, b, dequantized(n, bias.name + ":s32", DType::kS32, bias.type.dims, Constant::of(q.bias), sums));
    return rewriter_.ok();
  }

  // The rounding as Quantize and Dequantize.
  Result<void> state(NodeId n, const OnGrid& grid) {
    const Node node = graph_.node(n);
    const Value x = graph_.value(grid.real);
    if (grid.quant.axis >= 0) return fail(Code::kUnsupported, "'" + x.name + "' has scales along an axis, but no operator whose weight it is");
    any_ = true;
    ValueId out = kNoId;
    if (x.kind == ValueKind::kConstant) {
      const auto values = x.constant.as<float>();
      std::vector<int8_t> steps(values.size());
      const Quant& q = grid.quant;
      for (size_t i = 0; i < steps.size(); ++i)
        steps[i] = static_cast<int8_t>(quantize(values[i], q.scales[0], q.zero_points[0], q.qmin, q.qmax));
      out = dequantized(n, x.name + ":s8", DType::kS8, x.type.dims, Constant::of(steps), q);
      rewriter_.replace(node.outputs[0], out);
      rewriter_.erase(n);
      return {};
    }
    const ValueId steps = rewriter_.insert(n, Op::kQuantize, NoAttrs{}, {grid.real}, graph_.fresh_name(node.name + ":quantize"), grid.quant);
    out = rewriter_.insert(n, Op::kDequantize, NoAttrs{}, {steps}, graph_.fresh_name(node.name + ":dequantize"));
    rewriter_.replace(node.outputs[0], out);
    rewriter_.erase(n);
    rewriter_.rename_producer(steps, node.name);
    return rewriter_.ok();
  }

  Graph& graph_;
  Rewriter rewriter_;
  uint32_t widened_ = 0;
  bool any_ = false;
};

}  // namespace

Result<Graph> insert(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& quantize, const Options& options) {
  LATHE_TRY(const std::vector<Decision> decisions, decide(graph, quantize));
  uint32_t widened = 0;
  LATHE_TRY(const Graph integer, integer_graph(graph, ranges, quantize, decisions, &widened));
  LATHE_TRY(Graph out, Insertion(graph, integer, options).run());
  LATHE_CHECK_OK(verify(out));
  return out;
}

Result<Converted> convert(const Graph& trained, const QuantizeOptions& quantize) {
  Converted result{trained, 0};
  LATHE_TRY(result.widened_channels, Conversion(result.graph).run(quantize));
  LATHE_CHECK_OK(verify(result.graph));
  return result;
}

}  // namespace lathe::qat
