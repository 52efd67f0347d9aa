#include "graph/export/onnx/node_export.h"

#include <algorithm>

#include "graph/passes/match.h"
#include "graph/passes/permutation.h"

namespace lathe::onnx {
namespace {

constexpr Ints kToSecond{4, {0, 3, 1, 2}}, kToNative{4, {0, 2, 3, 1}};

std::string numbered(const std::string& stem, std::set<std::string>& taken) {
  for (int i = 1;; ++i) {
    std::string name = i == 1 ? stem : stem + ":" + std::to_string(i);
    if (taken.insert(name).second) return name;
  }
}

std::vector<int64_t> list(const Ints& ints) { return {ints.values, ints.values + ints.count}; }

}  // namespace

// Values keep their names: none of ours may take one.
Exporter::Exporter(const Graph& g, int64_t least) : graph(g), opset(least) {
  for (ValueId v = 0; v < g.value_count(); ++v)
    if (!g.value(v).dead) names_.insert(g.value(v).name);
}

std::string Exporter::fresh(const std::string& stem) { return numbered(stem, names_); }
std::string Exporter::node_name(const std::string& stem) { return numbered(stem, node_names_); }

DType Exporter::steps_type(ValueId v) const {
  const Value& value = graph.value(v);
  const bool inside = value.kind == ValueKind::kTemporary && !graph.is_output(v);
  return inside && value.type.dtype == DType::kS8 ? DType::kU8 : value.type.dtype;
}

std::vector<std::string> Exporter::parameters(const std::string& stem, const Quant& quant, DType dtype) {
  std::vector<int64_t> dims;
  if (quant.axis >= 0) dims.push_back(static_cast<int64_t>(quant.scales.size()));
  std::vector<std::string> names = {constant(stem + "_scale", DType::kF32, dims, quant.scales)};
  if (dtype == DType::kS32) return names;  // its zero point is 0 by definition
  std::vector<int8_t> zeros;
  const int32_t shift = dtype == DType::kU8 ? 128 : 0;
  for (const int32_t z : quant.zero_points) zeros.push_back(static_cast<int8_t>(static_cast<uint8_t>(z + shift)));
  names.push_back(constant(stem + "_zero_point", dtype, dims, zeros));  // the bytes of s8 or u8
  return names;
}

std::string Exporter::dequantized(const std::string& steps, const std::string& name, const Quant& quant, DType dtype,
                                  int64_t axis, const std::string& node) {
  std::vector<std::string> inputs = parameters(steps, quant, dtype);
  inputs.insert(inputs.begin(), steps);
  std::vector<std::string> attributes;
  if (quant.axis >= 0) attributes.push_back(int_attribute("axis", axis));
  writer.node("DequantizeLinear", node_name(node.empty() ? steps + ":dequantize" : node), inputs, {name}, attributes);
  return name;
}

std::string Exporter::stored(ValueId v, const std::vector<int32_t>& perm, const std::string& stem) {
  std::string& known = stored_[{v, perm}];
  if (!known.empty()) return known;
  const Value& value = graph.value(v);
  std::vector<int64_t> dims;
  for (const Dim d : value.type.dims) dims.push_back(graph.dims().value(d).value_or(0));
  Constant bytes = value.constant;
  int64_t axis = value.quant ? value.quant->axis : -1;
  if (!perm.empty()) {
    // A vector that broadcasts along channels gets its axes.
    if (axis >= 0) axis += static_cast<int64_t>(perm.size() - dims.size());
    dims.insert(dims.begin(), perm.size() - dims.size(), 1);
    Ints order;
    for (const int32_t a : perm) order.values[order.count++] = a;
    bytes = passes::permuted(value.constant, dtype_bytes(value.type.dtype), dims, order);
    std::vector<int64_t> moved;
    for (const int32_t a : perm) moved.push_back(dims[static_cast<size_t>(a)]);
    dims = moved;
    if (axis >= 0) axis = std::find(perm.begin(), perm.end(), static_cast<int32_t>(axis)) - perm.begin();
  }
  // The first form of a constant keeps its name.
  const std::string name = tensors_[v].steps_native.empty() ? (tensors_[v].steps_native = value.name) : fresh(stem);
  writer.initializer(name, value.type.dtype, dims, bytes.bytes);
  return known = value.quant ? dequantized(name, fresh(name + ":f32"), *value.quant, value.type.dtype, axis) : name;
}

std::string Exporter::transposed(const std::string& from, const std::string& to, bool to_second) {
  writer.node("Transpose", node_name(to), {from}, {to}, {ints_attribute("perm", list(to_second ? kToSecond : kToNative))});
  return to;
}

bool Exporter::is_made(ValueId v) const {
  const auto it = tensors_.find(v);
  if (it == tensors_.end()) return false;
  const Tensors& t = it->second;
  return !(t.native.empty() && t.second.empty() && t.steps_native.empty() && t.steps_second.empty());
}

bool Exporter::is_channels_second(ValueId v) const {
  const auto it = tensors_.find(v);
  if (it == tensors_.end() || graph.value(v).kind == ValueKind::kConstant) return false;
  const Tensors& t = it->second;
  return t.native.empty() && t.steps_native.empty() && !(t.second.empty() && t.steps_second.empty());
}

std::string Exporter::tensor(ValueId v, bool channels_second) {
  const Value& value = graph.value(v);
  if (value.kind == ValueKind::kConstant) {
    std::vector<int32_t> perm;
    if (channels_second && !value.type.dims.empty()) perm = {0, 3, 1, 2};
    return stored(v, perm, value.name);
  }
  Tensors& t = tensors_[v];
  std::string& mine = channels_second ? t.second : t.native;
  if (!mine.empty()) return mine;
  // Real elements in this order from integers in this order, else from real elements in the other one.
  const std::string& mine_steps = channels_second ? t.steps_second : t.steps_native;
  if (!mine_steps.empty()) return mine = dequantized(mine_steps, fresh(value.name + ":f32"), *value.quant, steps_type(v), -1);
  // Its node could not be written; the export fails for that, but first names all others that cannot either.
  if (!is_made(v)) return missing = value.name;
  return mine = transposed(tensor(v, !channels_second), wanted(v, channels_second), channels_second);
}

// A Transpose of the graph that goes from v to this order gives its name, so that it needs no node.
std::string Exporter::wanted(ValueId v, bool channels_second) {
  const Value& value = graph.value(v);
  if (!channels_second) return value.quant || !tensors_[v].native.empty() ? fresh(value.name + ":nhwc") : value.name;
  for (const NodeId reader : graph.consumers(v)) {
    const Ints* perm = passes::transpose_perm(graph, reader);
    const ValueId out = graph.node(reader).outputs.empty() ? kNoId : graph.node(reader).outputs[0];
    if (perm != nullptr && *perm == kToSecond && !value.quant && tensors_[out].native.empty())
      return graph.value(out).name;
  }
  // An operator that the file named like its result gave that name to a transposed one.
  if (const Node* made = graph.producer(v); made != nullptr && made->name != value.name && names_.insert(made->name).second)
    return made->name;
  return fresh(value.name + ":nchw");
}

std::string Exporter::define(ValueId v, bool channels_second) {
  const std::string name = wanted(v, channels_second);
  return (channels_second ? tensors_[v].second : tensors_[v].native) = name;
}

std::string Exporter::define_steps(ValueId v, bool channels_second) {
  return (channels_second ? tensors_[v].steps_second : tensors_[v].steps_native) = graph.value(v).name;
}

void Exporter::alias(ValueId v, bool channels_second, const std::string& name) {
  (channels_second ? tensors_[v].second : tensors_[v].native) = name;
}

void Exporter::name_real(ValueId v, bool channels_second, const std::string& name, const std::string& node) {
  Tensors& t = tensors_[v];
  const std::string& steps = channels_second ? t.steps_second : t.steps_native;
  std::string& real = channels_second ? t.second : t.native;
  if (!real.empty() || steps.empty()) return;
  const Value& value = graph.value(v);
  real = dequantized(steps, channels_second ? fresh(name + ":nchw") : name, *value.quant, steps_type(v), -1, node);
}

std::string Exporter::steps(ValueId v, bool channels_second) {
  Tensors& t = tensors_[v];
  std::string& mine = channels_second ? t.steps_second : t.steps_native;
  if (!mine.empty()) return mine;
  const std::string& other = channels_second ? t.steps_native : t.steps_second;
  if (other.empty()) return mine;
  return mine = transposed(other, fresh(graph.value(v).name + (channels_second ? ":nchw" : ":nhwc")), channels_second);
}

void Exporter::finish_output(ValueId v) {
  const Value& value = graph.value(v);
  const std::string made = value.quant ? steps(v, false) : tensor(v, false);
  if (made != value.name) writer.node("Identity", node_name(value.name), {made}, {value.name}, {});
}

std::string NodeExport::step(const std::string& tag, const std::string& op_type, const std::vector<std::string>& inputs,
                             const std::vector<std::string>& attributes) {
  const std::string name = out_.fresh(node_.name + ":" + tag);
  out_.writer.node(op_type, out_.node_name(name), inputs, {name}, attributes);
  return name;
}

Result<std::string> NodeExport::stored_operand(size_t i, const std::vector<int32_t>& perm) {
  if (value(i).kind == ValueKind::kConstant) return out_.stored(node_.inputs[i], perm, value(i).name);
  return fail(Code::kUnsupported, "weight '" + value(i).name + "' is not constant");
}

// s32 without parameters is in steps of x's scale times w's.
Result<std::string> NodeExport::bias_operand(size_t i) {
  const Value& b = value(i);
  if (b.type.dtype != DType::kS32 || b.quant) return native_input(i);
  if (b.kind != ValueKind::kConstant) return fail(Code::kUnsupported, "bias '" + b.name + "' is not constant");
  Quant q{{}, {}, value(1).quant->scales.size() == 1 ? -1 : 0, INT32_MIN, INT32_MAX};
  for (const float s : value(1).quant->scales)
    q.scales.push_back(static_cast<float>(static_cast<double>(value(0).quant->scales[0]) * static_cast<double>(s)));
  const std::string name = out_.stored(node_.inputs[i], {}, b.name);
  return out_.dequantized(name, out_.fresh(name + ":f32"), q, DType::kS32, 0);
}

std::string NodeExport::integers(const std::string& tag, const std::vector<int64_t>& values) {
  return out_.constant(node_.name + ":" + tag, DType::kS64, {static_cast<int64_t>(values.size())}, values);
}

std::string NodeExport::integer(const std::string& tag, int64_t v) {
  return out_.constant(node_.name + ":" + tag, DType::kS64, {}, std::vector<int64_t>{v});
}

std::string NodeExport::real(const std::string& tag, float v) {
  return out_.constant(node_.name + ":" + tag, DType::kF32, {}, std::vector<float>{v});
}

Result<void> NodeExport::result(const std::string& op_type, const std::vector<std::string>& inputs,
                                const std::vector<std::string>& attributes) {
  const ValueId y = node_.outputs[0];
  const Value& value = graph().value(y);
  passes::ClampBounds clamp;
  if (node_.op != Op::kClamp) clamp = passes::clamp_of(node_.attrs).value_or(clamp);
  const bool clamps = clamp.lo != -kInfinity || clamp.hi != kInfinity;
  std::string last = value.quant ? out_.fresh(value.name + ":real") : out_.define(y, result_second_);
  const std::string first = clamps ? out_.fresh(value.name + ":open") : last;
  out_.writer.node(op_type, out_.node_name(node_.name), inputs, {first}, attributes);
  if (clamps && clamp.lo == 0 && clamp.hi == kInfinity) {
    out_.writer.node("Relu", out_.node_name(node_.name + ":clamp"), {first}, {last}, {});
  } else if (clamps) {
    std::vector<std::string> bounds = {first, clamp.lo == -kInfinity ? "" : real("lo", clamp.lo)};
    if (clamp.hi != kInfinity) bounds.push_back(real("hi", clamp.hi));
    out_.writer.node("Clip", out_.node_name(node_.name + ":clamp"), bounds, {last}, {});
  }
  if (!value.quant) return {};
  std::vector<std::string> operands = out_.parameters(value.name, *value.quant, out_.steps_type(y));
  operands.insert(operands.begin(), last);
  out_.writer.node("QuantizeLinear", out_.node_name(node_.name + ":quantize"), operands, {out_.define_steps(y, result_second_)},
                   {});
  return {};
}

Result<void> NodeExport::results(const std::string& op_type, const std::vector<std::string>& inputs,
                                 const std::vector<std::string>& attributes) {
  std::vector<std::string> outputs;
  for (const ValueId v : node_.outputs) outputs.push_back(out_.define(v, result_second_));
  out_.writer.node(op_type, out_.node_name(node_.name), inputs, outputs, attributes);
  return {};
}

namespace {

constexpr struct {
  Op op;
  OpExport entry;
} kOps[] = {
#define EXPORT_OP(op, layout, function) {Op::k##op, {TensorLayout::layout, function, nullptr}},
#define REFUSE_OP(op, reason) {Op::k##op, {TensorLayout::kNative, nullptr, reason}},
#include "graph/export/onnx/ops.inc"
#undef EXPORT_OP
#undef REFUSE_OP
};

}  // namespace

const OpExport* find_op_export(Op op) {
  const auto it = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& e) { return e.op == op; });
  return it == std::end(kOps) ? nullptr : &it->entry;
}

}  // namespace lathe::onnx
