// Turns what exporters of quantized models write (Dequantize, a float op, Quantize) into the op on integers. Operators on
// integers come from the importer in the same form, so this is the one place that knows it.
//
// First, what float graphs fuse is fused. Then, until nothing changes:
//   1. Data movement goes to the integers' side: M(Dequantize(q)) is Dequantize(M(q)), Quantize(M(x)) is M(Quantize(x)), and
//      M(ToInteger(q)) is ToInteger(M(q)). Both are exact: these ops copy elements, or take the largest.
//   2. FromInteger of ToInteger on the same grid is nothing, Quantize of Dequantize is nothing or a Regrid.
//   3. An op whose operands are all Dequantize (of activations, or of constants where it wants weights), with a clamp behind it
//      or not, whose result only Quantizes of one grid read, becomes the same op on what they read.
// Every rounding that the model states stays: an op rounds where its Quantize stood. What is left of Dequantize of constants
// becomes floats.
#include "graph/passes/fuse_quantized.h"

#include <algorithm>
#include <cmath>

#include "graph/op_def.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "lathe/arith.h"

namespace lathe::passes {
namespace {

const Node* producer_of(const Graph& graph, ValueId v, Op op) {
  const Node* n = graph.producer(v);
  return n != nullptr && n->op == op ? n : nullptr;
}

bool moves_data(const Node& node) {
  const OpDef& def = op_def(node.op);
  return def.quant_out.role == QuantRole::kSameAs && def.quant_out.index == 0 && def.has_s8 && node.outputs.size() == 1 &&
         node.regions.empty();
}

// A pad's value must lie on the grid to be the same on integers.
bool keeps_value(const Node& node, const Quant& q) {
  const auto* pad = std::get_if<PadAttrs>(&node.attrs);
  if (pad == nullptr) return true;
  const int32_t step = quantize(pad->value, q.scales[0], q.zero_points[0], q.qmin, q.qmax);
  return dequantize(step, q.scales[0], q.zero_points[0]) == pad->value;
}

bool is_step_tensor(const Graph& graph, ValueId v) {
  const Value& value = graph.value(v);
  return value.type.dtype == DType::kS8 && value.quant && value.quant->axis < 0;
}

// Puts `result` in place of node n's only result, and n's name on the node that does its work.
void put_in_place(Rewriter& rewriter, NodeId n, ValueId work, ValueId result) {
  const Node node = rewriter.graph().node(n);
  rewriter.replace(node.outputs[0], result);
  rewriter.erase(n);
  rewriter.rename_producer(work, node.name);
}

// M(border(q)) becomes border(M(q)); `border` is Dequantize or ToInteger.
bool sink_border(Rewriter& rewriter, NodeId n, Op border) {
  Graph& graph = rewriter.graph();
  const Node node = graph.node(n);
  const Node* above = producer_of(graph, node.inputs[0], border);
  if (above == nullptr || !moves_data(node) || !is_step_tensor(graph, above->inputs[0])) return false;
  const ValueId from = above->inputs[0];
  if (border == Op::kToInteger ? std::holds_alternative<PadAttrs>(node.attrs) : !keeps_value(node, *graph.value(from).quant))
    return false;
  const Attrs border_attrs = above->attrs;
  const std::string border_name = above->name;
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = from;
  const ValueId moved = rewriter.insert(n, node.op, node.attrs, inputs, graph.fresh_name(node.name), graph.value(from).quant);
  const ValueId out = rewriter.insert(n, border, border_attrs, {moved}, graph.fresh_name(border_name));
  put_in_place(rewriter, n, moved, out);
  return true;
}

// Quantize(M(x)) becomes M(Quantize(x)), if nothing else reads M's result.
bool hoist_quantize(Rewriter& rewriter, NodeId n) {
  Graph& graph = rewriter.graph();
  const Node node = graph.node(n);
  const Node* above = graph.producer(node.inputs[0]);
  if (node.op != Op::kQuantize || !is_step_tensor(graph, node.outputs[0]) || above == nullptr || !moves_data(*above) ||
      !read_once(graph, node.inputs[0]))
    return false;
  const Quant quant = *graph.value(node.outputs[0]).quant;
  if (!is_float(graph, above->inputs[0]) || !keeps_value(*above, quant)) return false;
  const Node mover = *above;
  const NodeId mover_id = graph.value(node.inputs[0]).producer;
  std::vector<ValueId> inputs = mover.inputs;
  inputs[0] = rewriter.insert(mover_id, Op::kQuantize, NoAttrs{}, {mover.inputs[0]}, graph.fresh_name(node.name), quant);
  const ValueId moved = rewriter.insert(n, mover.op, mover.attrs, inputs, graph.fresh_name(mover.name), quant);
  rewriter.replace(node.outputs[0], moved);
  rewriter.erase(n);
  rewriter.erase(mover_id);
  rewriter.rename_producer(moved, mover.name);
  return true;
}

bool cancel_borders(Rewriter& rewriter, NodeId n) {
  Graph& graph = rewriter.graph();
  const Node node = graph.node(n);
  const ValueId out = node.outputs[0];
  if ((node.op != Op::kFromInteger && node.op != Op::kQuantize) || !is_step_tensor(graph, out)) return false;
  const bool plain = node.op == Op::kFromInteger;
  const Node* above = producer_of(graph, node.inputs[0], plain ? Op::kToInteger : Op::kDequantize);
  if (above == nullptr || !is_step_tensor(graph, above->inputs[0])) return false;
  const ValueId from = above->inputs[0];
  if (graph.value(from).quant == graph.value(out).quant) {
    if (graph.is_output(out)) return false;
    rewriter.replace(out, from);
    rewriter.erase(n);
    return true;
  }
  if (plain) return false;
  rewriter.substitute(n, Op::kRegrid, NoAttrs{}, {from});
  return true;
}

// One op in float form and what its parts become.
class Fusion {
 public:
  Fusion(const Graph& graph, NodeId n) : graph_(graph), node_(graph.node(n)), id_(n) {}

  // Empty, or why the op stays float.
  std::string obstacle() {
    const OpDef& def = op_def(node_.op);
    const QuantRole role = def.quant_out.role;
    if (node_.outputs.size() != 1 || !node_.regions.empty() || (!def.has_s8 && !def.as_table) ||
        (role != QuantRole::kActivation && role != QuantRole::kFixed))
      return "no integer kernel";
    if (std::string why = find_result(); !why.empty()) return why;
    for (size_t i = 0; i < node_.inputs.size(); ++i)
      if (std::string why = check_operand(i); !why.empty()) return why;
    const QuantParams& f = def.quant_out.fixed;
    if (role == QuantRole::kFixed && !def.as_table && quant_ != Quant{{f.scale}, {f.zero_point}, -1, f.qmin, f.qmax})
      return "the integer kernel has another grid, of scale " + std::to_string(f.scale) + " and zero point " +
             std::to_string(f.zero_point);
    return "";
  }

  // Requires: obstacle() gave none.
  void apply(Rewriter& rewriter) {
    std::vector<ValueId> inputs = node_.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = integer_operand(rewriter, inputs, i);
    const ValueId made = rewriter.insert(id_, node_.op, attrs_, inputs, graph_.fresh_name(node_.name), quant_);
    for (const NodeId q : quantizes_) {
      rewriter.replace(graph_.node(q).outputs[0], made);
      rewriter.erase(q);
    }
    if (clamp_ != kNoId) rewriter.erase(clamp_);
    rewriter.erase(id_);
    rewriter.rename_producer(made, node_.name);
  }

 private:
  // The Quantizes behind the op, and the clamp between.
  std::string find_result() {
    attrs_ = node_.attrs;
    ValueId out = node_.outputs[0];
    if (!is_float(graph_, out)) return "its result is no real number";
    if (node_.op != Op::kClamp && clamp_of(attrs_) && read_once(graph_, out)) {
      const NodeId reader = graph_.consumers(out)[0];
      if (graph_.node(reader).op == Op::kClamp) {
        set_clamp(attrs_, clamp_after(*clamp_of(attrs_), *clamp_of(graph_.node(reader).attrs)));
        clamp_ = reader;
        out = graph_.node(reader).outputs[0];
      }
    }
    quantizes_ = graph_.consumers(out);
    if (graph_.is_output(out)) return "its result is an output of the model";
    for (const NodeId q : quantizes_) {
      if (graph_.node(q).op != Op::kQuantize) return "its result is also read as floats, by '" + graph_.node(q).name + "'";
      const ValueId steps = graph_.node(q).outputs[0];
      if (!is_step_tensor(graph_, steps))
        return std::string("its result is quantized to ") + dtype_name(graph_.value(steps).type.dtype);
      const Quant& quant = *graph_.value(steps).quant;
      if (q != quantizes_[0] && quant != quant_) return "its result is quantized to different grids";
      quant_ = quant;
    }
    return quantizes_.empty() ? "nothing reads its result" : "";
  }

  // Whether pass split-weights makes symmetric weights of those with zero points: of groups it must know the image.
  bool splits() const {
    const auto* a = std::get_if<Conv2dAttrs>(&node_.attrs);
    if (a == nullptr) return node_.op == Op::kFullyConnected;
    const std::vector<Dim>& x = graph_.value(node_.inputs[0]).type.dims;
    return a->groups == 1 || (a->dilation[1] == 1 &&
                              std::all_of(x.begin() + 1, x.end(), [&](Dim d) { return graph_.dims().value(d).has_value(); }));
  }

  std::string check_weight(const Value& w, const QuantRule& rule) const {
    if (w.type.dtype != DType::kS8) return "weight '" + w.name + "' is " + dtype_name(w.type.dtype);
    if (w.quant->axis != -1 && w.quant->axis != rule.axis)
      return "weight '" + w.name + "' has scales along axis " + std::to_string(w.quant->axis) + ", not along its channels";
    const std::vector<int32_t>& zeros = w.quant->zero_points;
    const bool symmetric = std::all_of(zeros.begin(), zeros.end(), [](int32_t z) { return z == 0; });
    return symmetric || splits() ? "" : "weight '" + w.name + "' has zero points";
  }

  std::string check_operand(size_t i) {
    const ValueId v = node_.inputs[i];
    if (v == kNoId) return "";
    const QuantRule& rule = quant_rule(op_def(node_.op), i);
    const Value& value = graph_.value(v);
    const Node* real = producer_of(graph_, v, Op::kDequantize);
    const Value* steps = real != nullptr ? &graph_.value(real->inputs[0]) : nullptr;
    const bool stored = steps != nullptr && steps->kind == ValueKind::kConstant;
    switch (rule.role) {
      case QuantRole::kInteger: return "";
      case QuantRole::kFloatConstant:
        return stored || value.kind == ValueKind::kConstant ? "" : "operand '" + value.name + "' is not constant";
      case QuantRole::kBias:
        if ((stored && steps->type.dtype == DType::kS32) || f32_constant(graph_, v)) return "";
        return "bias '" + value.name + "' is not constant";
      case QuantRole::kWeight: return stored ? check_weight(*steps, rule) : "weight '" + value.name + "' is not quantized";
      case QuantRole::kFloatOnly: return "no integer kernel";
      default: break;
    }
    if (const auto constant = f32_constant(graph_, v); constant && constant->size() == 1) return "";
    return real != nullptr && is_step_tensor(graph_, real->inputs[0]) ? "" : "operand '" + value.name + "' is not quantized";
  }

  // `inputs`: those before i are done.
  ValueId integer_operand(Rewriter& rewriter, const std::vector<ValueId>& inputs, size_t i) {
    const ValueId v = node_.inputs[i];
    if (v == kNoId) return v;
    const QuantRole role = quant_rule(op_def(node_.op), i).role;
    if (role == QuantRole::kInteger || role == QuantRole::kFloatConstant) return v;
    if (role == QuantRole::kBias)
      return integer_bias(rewriter, *graph_.value(inputs[0]).quant, *graph_.value(inputs[1]).quant, v);
    const Node* real = producer_of(graph_, v, Op::kDequantize);
    return real != nullptr ? real->inputs[0] : scalar(rewriter, v);
  }

  // One number is a step of its own size.
  ValueId scalar(Rewriter& rewriter, ValueId v) {
    const Value value = graph_.value(v);
    const float x = value.constant.as<float>()[0];
    const bool normal = std::isnormal(x);
    Quant quant{{normal ? std::fabs(x) : 1.0f}, {0}, -1, -128, 127};
    const std::vector<int8_t> step = {static_cast<int8_t>(normal ? (x > 0 ? 1 : -1) : 0)};
    return rewriter.constant(graph_.fresh_name(value.name + ":s8"), {DType::kS8, value.type.dims}, Constant::of(step),
                             std::move(quant));
  }

  // On the grid of the sums, s_x * s_w[c]: as stored if it has that, else rounded to it.
  ValueId integer_bias(Rewriter& rewriter, const Quant& x, const Quant& w, ValueId v) {
    const auto scale = [&](const std::vector<float>& s, size_t c) { return s[s.size() == 1 ? 0 : c]; };
    const Node* real = producer_of(graph_, v, Op::kDequantize);
    const Value value = graph_.value(real != nullptr ? real->inputs[0] : v);
    const size_t n = value.constant.bytes.size() / 4;
    std::vector<int32_t> steps(n);
    for (size_t c = 0; c < n; ++c) {
      const double grid = static_cast<double>(x.scales[0]) * static_cast<double>(scale(w.scales, c));
      double given = 0, unit = 1;
      if (real != nullptr) {
        given = value.constant.as<int32_t>()[c] -
                static_cast<double>(value.quant->zero_points[value.quant->zero_points.size() == 1 ? 0 : c]);
        unit = static_cast<double>(scale(value.quant->scales, c));
      } else {
        given = static_cast<double>(value.constant.as<float>()[c]);
      }
      constexpr double kSameGrid = 1e-6;
      const double ratio = unit / grid;
      const double rounded = std::fabs(ratio - 1) < kSameGrid ? given : std::nearbyint(given * ratio);
      steps[c] = static_cast<int32_t>(std::clamp(rounded, -2147483647.0, 2147483647.0));
    }
    return rewriter.constant(graph_.fresh_name(value.name + ":s32"), {DType::kS32, value.type.dims}, Constant::of(steps));
  }

  const Graph& graph_;
  const Node node_;
  const NodeId id_;
  Attrs attrs_;
  NodeId clamp_ = kNoId;
  std::vector<NodeId> quantizes_;
  Quant quant_;
};

bool fuse(Rewriter& rewriter, NodeId n) {
  Fusion fusion(rewriter.graph(), n);
  if (!fusion.obstacle().empty()) return false;
  fusion.apply(rewriter);
  return true;
}

bool change(Rewriter& rewriter, NodeId n) {
  return sink_border(rewriter, n, Op::kDequantize) || sink_border(rewriter, n, Op::kToInteger) || hoist_quantize(rewriter, n) ||
         cancel_borders(rewriter, n) || fuse(rewriter, n);
}

// The numbers that a constant's steps stand for.
void fold_dequantize(Rewriter& rewriter, NodeId n) {
  Graph& graph = rewriter.graph();
  const Value value = graph.value(graph.node(n).inputs[0]);
  const ValueId out = graph.node(n).outputs[0];
  const bool known = value.type.dtype == DType::kS8 || value.type.dtype == DType::kS32;
  if (value.kind != ValueKind::kConstant || !known || graph.is_output(out)) return;
  const std::optional<std::vector<int64_t>> dims = known_dims(graph, graph.node(n).inputs[0]);
  const Quant& q = *value.quant;
  size_t inner = 1;
  for (size_t i = static_cast<size_t>(q.axis + 1); q.axis >= 0 && i < dims->size(); ++i) inner *= static_cast<size_t>((*dims)[i]);
  std::vector<float> values(value.constant.bytes.size() / dtype_bytes(value.type.dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t c = q.axis < 0 ? 0 : i / inner % q.scales.size();
    const int64_t step = value.type.dtype == DType::kS8 ? value.constant.as<int8_t>()[i] : value.constant.as<int32_t>()[i];
    values[i] = static_cast<float>(step - q.zero_points[c]) * q.scales[c];
  }
  rewriter.replace(out, new_f32_constant(rewriter, value.name + ":f32", *dims, values));
  rewriter.erase(n);
}

// Floats between a Dequantize and a Quantize are fused as in a float graph (the bias and residual of a product, its scale,
// functions that are written with others): one op then rounds once, where the model rounds. Biases in steps become numbers where
// an Add reads them.
Result<void> fuse_float_ops(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (const NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    if (node.op != Op::kDequantize || graph.value(node.inputs[0]).type.dtype != DType::kS32) continue;
    const std::vector<NodeId> readers = graph.consumers(node.outputs[0]);
    if (std::all_of(readers.begin(), readers.end(), [&](NodeId r) { return graph.node(r).op == Op::kAdd; }))
      fold_dequantize(rewriter, n);
  }
  for (const auto pass : {fuse_layer_norm, fuse_gelu, fuse_silu, fold_matmul_transposes, fuse_scale, fuse_bias, fuse_residual})
    LATHE_CHECK_OK(pass(rewriter));
  return {};
}

}  // namespace

std::string integer_obstacle(const Graph& graph, NodeId n) {
  return Fusion(graph, n).obstacle();
}

Result<void> fuse_quantized(Rewriter& rewriter) { return fuse_quantized_but(rewriter, {}); }

Result<void> fuse_quantized_but(Rewriter& rewriter, const std::set<NodeId>& kept) {
  Graph& graph = rewriter.graph();
  const auto is_border = [&](NodeId n) { return graph.node(n).op == Op::kQuantize || graph.node(n).op == Op::kDequantize; };
  if (const auto nodes = rewriter.nodes(); std::none_of(nodes.begin(), nodes.end(), is_border)) return {};
  LATHE_CHECK_OK(fuse_float_ops(rewriter));
  // Every change moves a border past a node for good or removes nodes; the bound keeps a mistake in that from hanging.
  for (size_t rounds = 0; rounds < 64 && rewriter.ok(); ++rounds) {
    rewriter.sweep();
    bool changed = false;
    for (const NodeId n : rewriter.nodes())
      if (!graph.node(n).dead && !graph.node(n).inputs.empty() && graph.node(n).outputs.size() == 1 && !kept.contains(n))
        changed = change(rewriter, n) || changed;
    if (!changed) break;
  }
  rewriter.sweep();
  for (const NodeId n : rewriter.nodes())
    if (graph.node(n).op == Op::kDequantize) fold_dequantize(rewriter, n);
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
