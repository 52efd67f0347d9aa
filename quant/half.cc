#include "quant/half.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/op_def.h"
#include "lathe/float16.h"
#include "quant/decide.h"

namespace lathe {
namespace {

// A constant that is no weight, but a bound or a mask of infinities.
bool is_infinite_bound(const Graph& graph, const Node& node, size_t i) {
  const ValueId v = node.inputs[i];
  if (v == kNoId || graph.value(v).kind != ValueKind::kConstant || graph.value(v).type.dtype != DType::kF32) return false;
  if (quant_rule(op_def(node.op), i).role == QuantRole::kWeight) return false;
  const auto values = graph.value(v).constant.as<float>();
  return std::any_of(values.begin(), values.end(), [](float f) { return !std::isfinite(f); });
}

bool is_f32(const Graph& graph, ValueId v) { return v == kNoId || graph.value(v).type.dtype == DType::kF32; }

// Why a node stays float, whatever the caller asks for; empty if it need not.
std::string obstacle(const Graph& graph, const Node& node, const RangeTable& ranges) {
  if (op_def(node.op).half == HalfForm::kNone) return "no half-precision form";
  bool real = !node.outputs.empty();
  for (const ValueId v : node.outputs) real = real && is_f32(graph, v);
  if (!real) return "its result is no float";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (is_infinite_bound(graph, node, i)) return "constant '" + graph.value(node.inputs[i]).name + "' is not finite";
  }
  for (const ValueId v : node.outputs) {
    const auto range = ranges.find(graph.value(v).name);
    if (range == ranges.end()) continue;
    const double reach = std::max(std::fabs(double{range->second.min}), std::fabs(double{range->second.max}));
    if (reach > kMaxHalfRange) return "calibration saw " + std::to_string(static_cast<int64_t>(reach));
  }
  return {};
}

// Builds the new graph node by node. Every float value has at most one float and one half counterpart, made when first asked for.
class Converter {
 public:
  explicit Converter(const Graph& source) : source_(source), graph_(source.dim_table()) {}

  void add_inputs() {
    graph_.metadata = source_.metadata;
    for (const ValueId v : source_.inputs())
      float_[v] = graph_.add_input(source_.value(v).name, source_.value(v).type, source_.value(v).quant);
  }

  Result<void> add(const Node& node, bool half) {
    const OpDef& def = op_def(node.op);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const bool as_it_is = !half || !is_f32(source_, v) || quant_rule(def, i).role == QuantRole::kBias;
      LATHE_TRY(const ValueId in, v == kNoId ? Result<ValueId>(kNoId) : as_it_is ? as_float(v) : as_half(v));
      inputs.push_back(in);
    }
    std::vector<std::string> names;
    std::vector<std::optional<Quant>> quants;
    for (const ValueId v : node.outputs) {
      const std::string& name = source_.value(v).name;
      names.push_back(half && source_.is_output(v) ? graph_.fresh_name(name + ":f16") : name);
      quants.push_back(source_.value(v).quant);
    }
    LATHE_TRY(const NodeId id, graph_.add_node(node.op, node.attrs, std::move(inputs), node.name, names, std::move(quants)));
    // A Cast to float32 gives float32 whatever it reads.
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId made = graph_.node(id).outputs[i];
      (graph_.value(made).type.dtype == DType::kF16 ? half_ : float_)[node.outputs[i]] = made;
    }
    return {};
  }

  Result<void> add_outputs() {
    for (const ValueId v : source_.outputs()) {
      LATHE_TRY(const ValueId out, as_float(v));
      graph_.add_output(out);
    }
    return {};
  }

  HalfResult take() { return {std::move(graph_), {}, std::move(clamped_)}; }

 private:
  Result<ValueId> as_float(ValueId v) {
    if (const auto found = float_.find(v); found != float_.end()) return found->second;
    const Value& value = source_.value(v);
    if (value.kind == ValueKind::kConstant)
      return float_[v] = graph_.add_constant(graph_.fresh_name(value.name), value.type, value.constant, value.quant);
    if (value.kind == ValueKind::kVariable) return float_[v] = graph_.add_variable(value.name, value.type, value.constant);
    const std::string name = source_.is_output(v) ? value.name : graph_.fresh_name(value.name + ":f32");
    LATHE_TRY(float_[v], cast(half_.at(v), DType::kF32, name));
    return float_[v];
  }

  Result<ValueId> as_half(ValueId v) {
    if (const auto found = half_.find(v); found != half_.end()) return found->second;
    const Value& value = source_.value(v);
    if (value.kind == ValueKind::kConstant) {
      LATHE_TRY(half_[v], narrow(value));
      return half_[v];
    }
    LATHE_TRY(const ValueId real, as_float(v));
    LATHE_TRY(half_[v], cast(real, DType::kF16, graph_.fresh_name(value.name + ":f16")));
    return half_[v];
  }

  Result<ValueId> cast(ValueId v, DType to, const std::string& name) {
    LATHE_TRY(const NodeId id,
              graph_.add_node(Op::kCast, CastAttrs{static_cast<int32_t>(to)}, {v}, graph_.fresh_name(name + ":cast"), {name}));
    return graph_.node(id).outputs[0];
  }

  Result<ValueId> narrow(const Value& value) {
    std::vector<uint16_t> halves;
    size_t beyond = 0;
    for (const float f : value.constant.as<float>()) {
      if (!std::isfinite(f)) return fail(Code::kInvalidArgument, "'" + value.name + "' has an element that is not finite");
      beyond += std::fabs(f) > kMaxHalf;
      halves.push_back(float_to_half(std::min(std::max(f, -kMaxHalf), kMaxHalf)));
    }
    if (beyond > 0) clamped_.push_back(value.name + ": " + std::to_string(beyond));
    return graph_.add_constant(graph_.fresh_name(value.name), {DType::kF16, value.type.dims}, Constant::of(halves));
  }

  const Graph& source_;
  Graph graph_;
  std::map<ValueId, ValueId> float_, half_;
  std::vector<std::string> clamped_;
};

}  // namespace

Result<HalfResult> half_graph(const Graph& graph, const HalfOptions& options) {
  LATHE_TRY(const std::vector<bool> kept, kept_float(graph, options.keep_float));
  Converter converter(graph);
  converter.add_inputs();
  std::vector<HalfRow> rows;
  for (size_t i = 0; i < kept.size(); ++i) {
    const Node& node = graph.node(graph.order()[i]);
    const bool other = options.only && !options.only->contains(node.name);
    std::string reason = kept[i] ? "kept by --keep" : other ? "not chosen" : obstacle(graph, node, options.ranges);
    const bool half = reason.empty();
    if (auto done = converter.add(node, half); !done)
      return tl::unexpected(with_context(std::move(done.error()), "node '" + node.name + "'"));
    rows.push_back({node.name, op_name(node.op), half, std::move(reason)});
  }
  LATHE_CHECK_OK(converter.add_outputs());
  HalfResult result = converter.take();
  result.rows = std::move(rows);
  return result;
}

}  // namespace lathe
