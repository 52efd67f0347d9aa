#include "graph/import/tflite/importer.h"

#include <algorithm>

#include "graph/op_def.h"

namespace lathe::tflite {
namespace {

constexpr OpImport kOps[] = {
#define TFLITE_OP(name, code, min_inputs, max_inputs, function) {#name, code, min_inputs, max_inputs, function},
#include "graph/import/tflite/ops.inc"
#undef TFLITE_OP
};

// Converted constants may take this much, and so many times the file: a small file that uses one buffer a million times over
// does not fill memory.
constexpr size_t kBaseBudget = size_t{64} << 20;
constexpr size_t kBudgetPerByte = 32;

tl::unexpected<Error> blocked_operand() { return fail(Code::kCancelled, "an operand was not imported"); }

// Whether the executor has a form of `op` for these quantized operands.
bool runs_on_integers(const Graph& graph, Op op, const std::vector<ValueId>& inputs) {
  const OpDef& def = op_def(op);
  if (!def.has_s8) return false;
  const bool layer = op == Op::kConv2d || op == Op::kConvTranspose2d || op == Op::kFullyConnected;
  if (layer && graph.value(inputs[0]).type.dtype == DType::kS16) {
    const Value& w = graph.value(inputs[1]);
    return w.type.dtype == DType::kS8 && w.quant;
  }
  const bool moves_bytes = def.quant_out.role == QuantRole::kSameAs && op != Op::kMaxPool2d;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == kNoId || !graph.value(inputs[i]).quant) continue;
    const Value& v = graph.value(inputs[i]);
    if (v.quant->axis != -1 && quant_rule(def, i).role != QuantRole::kWeight) return false;
    if (v.type.dtype != DType::kS8 && !moves_bytes) return false;
  }
  return true;
}

bool same_grid(const Quant& a, const Quant& b) {
  return a.scales == b.scales && a.zero_points == b.zero_points && a.axis == b.axis;
}

// The parameters that the op gives its result whatever was asked for.
std::optional<Quant> ruled_quant(const Graph& graph, Op op, const std::vector<ValueId>& inputs) {
  const QuantRule& rule = op_def(op).quant_out;
  if (rule.role == QuantRole::kSameAs) return graph.value(inputs[static_cast<size_t>(rule.index)]).quant;
  if (rule.role != QuantRole::kFixed) return std::nullopt;
  return Quant{.scales = {rule.fixed.scale},
               .zero_points = {rule.fixed.zero_point},
               .axis = -1,
               .qmin = rule.fixed.qmin,
               .qmax = rule.fixed.qmax};
}

}  // namespace

const OpImport* find_op_import(int32_t code) {
  const auto it = std::find_if(std::begin(kOps), std::end(kOps), [&](const OpImport& o) { return code == o.code; });
  return it == std::end(kOps) ? nullptr : it;
}

Result<ActivationBounds> activation_bounds(fbs::Activation activation) {
  switch (activation) {
    case fbs::Activation_NONE: return ActivationBounds{};
    case fbs::Activation_RELU: return ActivationBounds{0.0f, kInfinity};
    case fbs::Activation_RELU_N1_TO_1: return ActivationBounds{-1.0f, 1.0f};
    case fbs::Activation_RELU6: return ActivationBounds{0.0f, 6.0f};
    default:
      return fail(Code::kUnsupported, "fused activation " + std::to_string(static_cast<int>(activation)) + " is not supported");
  }
}

Builder::Builder(const FileModel& model, const FileSubgraph& file, std::shared_ptr<const void> owner, size_t file_bytes,
                 ImportReport& report)
    : model(model), file(file), report(report), owner_(std::move(owner)), budget_(kBaseBudget + kBudgetPerByte * file_bytes) {
  values.resize(file.tensors.size(), kNoId);
  blocked.resize(file.tensors.size(), false);
  std::set<std::string, std::less<>> taken;
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    std::string name(file.tensors[i].name);
    if (name.empty() || taken.contains(name)) name += (name.empty() ? "tensor:" : ":") + std::to_string(i);
    while (taken.contains(name)) name += "'";
    names.push_back(*taken.insert(std::move(name)).first);
  }
  for (const std::string& name : names) stems_.emplace(name, 1);
}

std::string Builder::value_name(const std::string& stem) {
  for (;;) {
    const int count = ++stems_[stem];
    std::string name = count == 1 ? stem : stem + ":" + std::to_string(count);
    if (count == 1 || stems_.emplace(name, 1).second) return name;
  }
}

std::string Builder::node_name(const std::string& stem) {
  if (node_names_.insert(stem).second) return stem;
  for (;;) {
    std::string name = value_name(stem);
    if (node_names_.insert(name).second) return name;
  }
}

Result<void> Builder::charge(size_t bytes) {
  if (bytes > budget_)
    return fail(Code::kUnsupported, "its constants and layers take more memory than a file of this size may ask for");
  budget_ -= bytes;
  return {};
}

Result<Constant> Builder::share(std::span<const std::byte> bytes, size_t elem_bytes) {
  if (reinterpret_cast<uintptr_t>(bytes.data()) % elem_bytes == 0) {
    report.mapped_bytes += bytes.size();
    return Constant{owner_, bytes};
  }
  LATHE_CHECK_OK(charge(bytes.size()));
  report.copied_bytes += bytes.size();
  return Constant::copy(bytes);
}

std::vector<Dim> Builder::dims_of(std::span<const int32_t> dims) const {
  std::vector<Dim> out;
  for (const int32_t d : dims) out.push_back(graph.dims().constant(d));
  return out;
}

Result<ValueId> Builder::value(int32_t tensor) {
  const auto i = static_cast<size_t>(tensor);
  if (values[i] != kNoId) return values[i];
  if (blocked[i]) return blocked_operand();
  if (!file.tensors[i].is_constant()) return fail(Code::kCorrupt, "tensor '" + names[i] + "' is read before anything makes it");
  auto v = add_constant(tensor);
  if (!v) return tl::unexpected(with_context(std::move(v.error()), "tensor '" + names[i] + "'"));
  values[i] = *v;
  return *v;
}

NodeImport::NodeImport(Builder& builder, const FileOperator& op)
    : builder_(builder),
      op_(op),
      name_(op.outputs.empty() ? "operator:" + std::to_string(op.code) : builder.names[static_cast<size_t>(op.outputs[0])]) {}

Result<ValueId> NodeImport::value(size_t i) {
  if (!has_input(i)) return fail(Code::kInvalidArgument, "input " + std::to_string(i) + " is missing");
  return builder_.value(op_.inputs[i]);
}

Result<const FileTensor*> NodeImport::constant(size_t i, const char* what) {
  if (!has_input(i)) return fail(Code::kInvalidArgument, std::string(what) + " is missing");
  const FileTensor& t = input(i);
  if (t.is_constant()) return &t;
  return fail(Code::kUnsupported, std::string(what) + " is not constant; --const can fix it");
}

Result<std::vector<Dim>> NodeImport::known_dims(size_t i, const char* what) {
  if (!has_input(i)) return fail(Code::kInvalidArgument, std::string(what) + " is missing");
  if (input(i).dims.size() > 2)
    return fail(Code::kInvalidArgument, std::string(what) + " has rank " + std::to_string(input(i).dims.size()));
  if (input(i).is_constant() && input(i).data.empty()) return std::vector<Dim>{};
  LATHE_TRY(const ValueId v, value(i));
  if (const DType t = type(v).dtype; t != DType::kS32 && t != DType::kS64)
    return fail(Code::kInvalidArgument, std::string(what) + " is " + dtype_name(t) + ", not integers");
  if (const auto& contents = builder_.graph.value(v).contents) return *contents;
  return fail(Code::kUnsupported, std::string(what) + " is not constant; --const can fix it");
}

Result<std::vector<int64_t>> NodeImport::known_integers(size_t i, const char* what) {
  LATHE_TRY(const auto elements, known_dims(i, what));
  std::vector<int64_t> out;
  for (const Dim d : elements) {
    const auto v = dims().value(d);
    if (!v) return fail(Code::kUnsupported, std::string(what) + " depends on a dim that is not known; --shape can fix it");
    out.push_back(*v);
  }
  return out;
}

Result<int32_t> NodeImport::normalized_axis(int64_t axis, size_t rank) const {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    return fail(Code::kInvalidArgument,
                "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  return static_cast<int32_t>(axis < 0 ? axis + r : axis);
}

Result<Ints> NodeImport::normalized_axes(const std::vector<int64_t>& axes, size_t rank) const {
  std::set<int32_t> sorted;
  for (const int64_t a : axes) {
    LATHE_TRY(const int32_t axis, normalized_axis(a, rank));
    sorted.insert(axis);
  }
  Ints out;
  for (const int32_t a : sorted) out.values[out.count++] = a;
  return out;
}

Result<ValueId> NodeImport::add(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs,
                                const std::string& result, std::optional<Quant> quant) {
  Graph& graph = builder_.graph;
  LATHE_TRY(const NodeId node, graph.add_node(op, std::move(attrs), std::move(inputs), builder_.node_name(stem(tag)), {result},
                                              {std::move(quant)}));
  return graph.node(node).outputs[0];
}

Result<ValueId> NodeImport::emit(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs,
                                 std::optional<Quant> quant) {
  return add(tag, op, std::move(attrs), std::move(inputs), builder_.value_name(stem(tag)), std::move(quant));
}

Result<std::vector<ValueId>> NodeImport::emit_all(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs) {
  Graph& graph = builder_.graph;
  std::vector<std::string> results;
  for (size_t i = 0; i < op_def(op).outputs; ++i) results.push_back(builder_.value_name(stem(tag + std::to_string(i))));
  LATHE_TRY(const NodeId node,
            graph.add_node(op, std::move(attrs), std::move(inputs), builder_.node_name(stem(tag)), std::move(results)));
  return graph.node(node).outputs;
}

Result<void> NodeImport::bind(ValueId v, size_t output) {
  const auto tensor = static_cast<size_t>(op_.outputs[output]);
  LATHE_TRY(const DType wanted, dtype_of(builder_.file.tensors[tensor]));
  if (type(v).dtype != wanted)
    return fail(Code::kInvalidArgument, "output " + std::to_string(output) + " is " + dtype_name(wanted) +
                                            " in the file and computed as " + dtype_name(type(v).dtype));
  builder_.values[tensor] = v;
  return {};
}

Result<void> NodeImport::finish(Op op, Attrs attrs, std::vector<ValueId> inputs, size_t output) {
  Graph& graph = builder_.graph;
  // A quantized weight alone leaves the layer float.
  const auto is_quantized = [&](size_t i) {
    return inputs[i] != kNoId && graph.value(inputs[i]).quant && quant_rule(op_def(op), i).role != QuantRole::kWeight;
  };
  LATHE_TRY(const auto wanted, quant_of(this->output(output)));
  bool quantized = false;
  for (size_t i = 0; i < inputs.size(); ++i) quantized = quantized || is_quantized(i);
  const std::string& result = builder_.names[static_cast<size_t>(op_.outputs[output])];
  const auto ruled = quantized && runs_on_integers(graph, op, inputs) ? ruled_quant(graph, op, inputs) : std::nullopt;
  if (!quantized || (wanted && runs_on_integers(graph, op, inputs) && (!ruled || same_grid(*ruled, *wanted)))) {
    const bool named = quantized || !wanted;
    LATHE_TRY(const ValueId v, named ? add("", op, std::move(attrs), std::move(inputs), result, ruled ? ruled : wanted)
                                     : emit("real", op, std::move(attrs), std::move(inputs)));
    return finish_value(v, output);
  }
  if (ruled) {
    LATHE_TRY(const ValueId v, emit("grid", op, std::move(attrs), std::move(inputs)));
    return finish_value(v, output);
  }
  if (!wanted && runs_on_integers(graph, op, inputs)) {  // Shape and the like: the result is no real number
    LATHE_TRY(const ValueId v, add("", op, std::move(attrs), std::move(inputs), result, std::nullopt));
    return finish_value(v, output);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (is_quantized(i)) {
      LATHE_TRY(inputs[i], real(inputs[i]));
    }
  }
  LATHE_TRY(const ValueId v, emit("real", op, std::move(attrs), std::move(inputs)));
  return finish_value(v, output);
}

Result<void> NodeImport::finish_value(ValueId v, size_t output) {
  const FileTensor& t = this->output(output);
  LATHE_TRY(const auto wanted, quant_of(t));
  LATHE_TRY(const DType dtype, dtype_of(t));
  const std::optional<Quant> has = quant(v);
  const std::string& result = builder_.names[static_cast<size_t>(op_.outputs[output])];
  const std::string tag = output == 0 ? "" : std::to_string(output);
  if (has && dtype == DType::kF32) {
    LATHE_TRY(v, add(tag + "dequantize", Op::kDequantize, NoAttrs{}, {v}, result, std::nullopt));
  } else if (wanted && !has && type(v).dtype == DType::kF32) {
    LATHE_TRY(v, add(tag + "quantize", Op::kQuantize, NoAttrs{}, {v}, result, wanted));
  } else if (wanted && has && (dtype != DType::kS8 || type(v).dtype != DType::kS8) &&
             (type(v).dtype != dtype || !same_grid(*wanted, *has))) {
    LATHE_TRY(v, real(v));
    LATHE_TRY(v, add(tag + "quantize", Op::kQuantize, NoAttrs{}, {v}, result, wanted));
  } else if (wanted && has && !same_grid(*wanted, *has)) {
    LATHE_TRY(v, add(tag + "regrid", Op::kRegrid, NoAttrs{}, {v}, result, wanted));
  }
  return bind(v, output);
}

Result<std::vector<ValueId>> NodeImport::few_parts(int32_t axis, std::vector<ValueId> parts, const std::optional<Quant>& grid) {
  constexpr size_t kMost = 32;
  while (parts.size() > kMost) {
    std::vector<ValueId> joined;
    for (size_t first = 0; first < parts.size(); first += kMost) {
      const auto begin = parts.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = parts.begin() + static_cast<std::ptrdiff_t>(std::min(first + kMost, parts.size()));
      LATHE_TRY(joined.emplace_back(), emit("joined", Op::kConcat, AxisAttrs{axis}, std::vector<ValueId>(begin, end), grid));
    }
    parts = std::move(joined);
  }
  return parts;
}

Result<void> NodeImport::assign(const std::string& tag, ValueId variable, ValueId v) {
  LATHE_TRY(const NodeId node, builder_.graph.add_node(Op::kAssign, NoAttrs{}, {variable, v}, builder_.node_name(stem(tag))));
  static_cast<void>(node);
  return {};
}

Result<ValueId> NodeImport::real(ValueId v) {
  if (!quant(v)) return v;
  return emit("dequantize", Op::kDequantize, NoAttrs{}, {v});
}

Result<ValueId> NodeImport::reshaped(const std::string& tag, ValueId v, const std::vector<Dim>& target) {
  LATHE_TRY(const ValueId shape, shape_constant(tag + ":shape", target));
  return emit(tag, Op::kReshape, NoAttrs{}, {v, shape});
}

Result<void> NodeImport::finish_reshaped(ValueId v, const std::vector<Dim>& target, size_t output) {
  LATHE_TRY(const ValueId shape, shape_constant("shape" + (output == 0 ? "" : std::to_string(output)), target));
  return finish(Op::kReshape, NoAttrs{}, {v, shape}, output);
}

Result<ValueId> NodeImport::shape_constant(const std::string& tag, const std::vector<Dim>& target) {
  std::vector<int64_t> numbers;
  int open = 0;
  for (const Dim d : target) {
    const auto n = dims().value(d);
    numbers.push_back(n.value_or(-1));
    open += n ? 0 : 1;
  }
  if (open > 1) return fail(Code::kUnsupported, std::to_string(open) + " dims are not known; --shape can fix them");
  return integers_constant(tag, numbers);
}

Result<ValueId> NodeImport::integers_constant(const std::string& tag, const std::vector<int64_t>& values) {
  const TensorType type{DType::kS64, {dims().constant(static_cast<int64_t>(values.size()))}};
  return builder_.graph.add_constant(builder_.value_name(stem(tag)), type, Constant::of(values));
}

Result<ValueId> NodeImport::real_constant(const std::string& tag, float value) {
  return builder_.graph.add_constant(builder_.value_name(stem(tag)), {DType::kF32, {}},
                                     Constant::of(std::vector<float>{value}));
}

Result<ValueId> NodeImport::number(const std::string& tag, DType dtype, int64_t value) {
  Constant c;
  switch (dtype) {
    case DType::kF32: c = Constant::of(std::vector<float>{static_cast<float>(value)}); break;
    case DType::kS8:
    case DType::kU8:
    case DType::kBool: c = Constant::of(std::vector<uint8_t>{static_cast<uint8_t>(value)}); break;
    case DType::kS16: c = Constant::of(std::vector<int16_t>{static_cast<int16_t>(value)}); break;
    case DType::kS32: c = Constant::of(std::vector<int32_t>{static_cast<int32_t>(value)}); break;
    case DType::kS64: c = Constant::of(std::vector<int64_t>{value}); break;
    default: return fail(Code::kUnsupported, std::string("element type ") + dtype_name(dtype) + " is not supported");
  }
  return builder_.graph.add_constant(builder_.value_name(stem(tag)), {dtype, {}}, std::move(c));
}

Result<ValueId> NodeImport::extents(const std::string& tag, ValueId v) {
  if (builder_.graph.value(v).contents) return v;
  return emit(tag, Op::kExtents, ExtentsAttrs{static_cast<int32_t>(dims().unused_data_tensor())}, {v});
}

}  // namespace lathe::tflite
