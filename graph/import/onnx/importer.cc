#include "graph/import/onnx/importer.h"

#include <algorithm>
#include <span>

#include "graph/op_def.h"
#include "graph/passes/evaluate.h"

namespace lathe::onnx {
namespace {

constexpr OpImport kOps[] = {
#define ONNX_OP(name, since, min_inputs, max_inputs, function) {#name, since, min_inputs, max_inputs, function},
#include "graph/import/onnx/ops.inc"
#undef ONNX_OP
};
constexpr OpImport kPreviewOps[] = {
#define ONNX_OP(name, since, min_inputs, max_inputs, function) {#name, since, min_inputs, max_inputs, function},
#include "graph/import/onnx/preview_ops.inc"
#undef ONNX_OP
};

constexpr OpImport kMicrosoftOps[] = {
#define ONNX_OP(name, since, min_inputs, max_inputs, function) {#name, since, min_inputs, max_inputs, function},
#include "graph/import/onnx/ms_ops.inc"
#undef ONNX_OP
};

const OpImport* find_in(std::span<const OpImport> ops, std::string_view name) {
  const auto it = std::find_if(ops.begin(), ops.end(), [&](const OpImport& o) { return name == o.name; });
  return it == ops.end() ? nullptr : &*it;
}

const char* attribute_type_name(AttributeType type) {
  switch (type) {
    case AttributeType::kFloat: return "a float";
    case AttributeType::kInt: return "an integer";
    case AttributeType::kString: return "a string";
    case AttributeType::kTensor: return "a tensor";
    case AttributeType::kGraph: return "a graph";
    case AttributeType::kFloats: return "a list of floats";
    case AttributeType::kInts: return "a list of integers";
    case AttributeType::kStrings: return "a list of strings";
    default: return "of another type";
  }
}

std::string numbered(const std::string& stem, int i) { return i == 1 ? stem : stem + ":" + std::to_string(i); }

tl::unexpected<Error> blocked() { return fail(Code::kCancelled, "an operand was not imported"); }

}  // namespace

const OpImport* find_op_import(std::string_view name) { return find_in(kOps, name); }

const OpImport* find_op_import(std::string_view domain, std::string_view name) {
  if (domain.empty() || domain == "ai.onnx") return find_op_import(name);
  if (domain == "ai.onnx.preview") return find_in(kPreviewOps, name);
  return domain == "com.microsoft" ? find_in(kMicrosoftOps, name) : nullptr;
}

std::string Builder::value_name(const std::string& stem) {
  for (int& i = value_numbers_.try_emplace(stem, 1).first->second;; ++i) {
    std::string name = numbered(stem, i);
    if (graph.find_value(name) == kNoId && !reserved.contains(name)) return name;
  }
}

std::string Builder::node_name(const std::string& stem) {
  for (int& i = node_numbers_.try_emplace(stem, 1).first->second;; ++i)
    if (const auto [it, is_new] = node_names_.insert(numbered(stem, i)); is_new) return *it;
}

TensorType Builder::tensor_type(const ConstTensor& t) const {
  TensorType type{t.dtype, {}};
  for (int64_t d : t.dims) type.dims.push_back(graph.dims().constant(d));
  return type;
}

// The file's own name, if no other value has it: then it is free for this one, though reserved for the file.
std::string Builder::constant_name(const std::string& name) {
  return graph.find_value(name) == kNoId && !outputs.contains(name) ? name : value_name(name);
}

Result<ValueId> Builder::dequantized_constant(const ConstTensor& t) {
  if (t.elems() == 0) return fail(Code::kUnsupported, "tensor '" + t.name + "' is empty (dims " + dims_text(t.dims) + ")");
  const ValueId v = graph.add_constant(constant_name(t.name), tensor_type(t), t.bytes, t.quant);
  LATHE_TRY(const NodeId n, graph.add_node(Op::kDequantize, NoAttrs{}, {v}, node_name(t.name + ":dequantize"),
                                           {value_name(t.name + ":f32")}));
  return graph.node(n).outputs[0];
}

Result<ValueId> Builder::constant(const ConstTensor& t) {
  if (t.quant) return dequantized_constant(t);
  const Key key{t.bytes.bytes.data(), t.dtype, t.dims};
  if (const auto it = constants_.find(key); it != constants_.end()) return it->second;
  LATHE_CHECK_OK(check_numbers(t));
  const ValueId v = graph.add_constant(constant_name(t.name), tensor_type(t), t.bytes);
  constants_.emplace(key, v);
  return v;
}

Result<ValueId> Builder::materialize(Binding& b) {
  if (b.value == kNoId) {
    LATHE_TRY(b.value, constant(*b.tensor));
  }
  return b.value;
}

std::shared_ptr<const ConstTensor> Builder::evaluated(ValueId id, std::string name) const {
  auto bytes = passes::evaluate(graph, id);
  if (!bytes) return nullptr;
  const TensorType& type = graph.value(id).type;
  ConstTensor t{std::move(name), type.dtype, {}, std::move(*bytes)};
  for (Dim d : type.dims) t.dims.push_back(*graph.dims().value(d));
  return std::make_shared<const ConstTensor>(std::move(t));
}

Result<std::shared_ptr<const ConstTensor>> Builder::known(const Binding& b) const {
  if (b.blocked()) return blocked();
  return b.tensor ? b.tensor : evaluated(b.value, graph.value(b.value).name);
}

const Attribute* NodeImport::find(std::string_view attribute) const {
  for (const Attribute& a : proto_.attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

const Attribute* NodeImport::take(std::string_view attribute) {
  const Attribute* a = find(attribute);
  if (a != nullptr) read_.insert(a->name);
  return a;
}

std::optional<std::string> NodeImport::unread_attribute() const {
  for (const Attribute& a : proto_.attributes)
    if (!read_.contains(a.name)) return std::string(a.name);
  return std::nullopt;
}

Result<const Attribute*> NodeImport::typed(std::string_view attribute, AttributeType type) {
  const Attribute* a = take(attribute);
  if (a == nullptr) return nullptr;
  if (!a->reference.empty())
    return fail(Code::kInvalidArgument, "attribute '" + std::string(attribute) + "' refers to a function's, but is in none");
  if (a->type != type)
    return fail(Code::kInvalidArgument, "attribute '" + std::string(attribute) + "' is " + attribute_type_name(a->type) +
                                            ", not " + attribute_type_name(type));
  return a;
}

Result<int64_t> NodeImport::integer(std::string_view attribute, int64_t absent) {
  LATHE_TRY(const Attribute* a, typed(attribute, AttributeType::kInt));
  return a == nullptr ? absent : a->i;
}

Result<bool> NodeImport::flag(std::string_view attribute, bool absent) {
  LATHE_TRY(const int64_t v, integer(attribute, absent ? 1 : 0));
  return v != 0;
}

Result<float> NodeImport::real(std::string_view attribute, float absent) {
  LATHE_TRY(const Attribute* a, typed(attribute, AttributeType::kFloat));
  return a == nullptr ? absent : a->f;
}

Result<std::string_view> NodeImport::text(std::string_view attribute, std::string_view absent) {
  LATHE_TRY(const Attribute* a, typed(attribute, AttributeType::kString));
  return a == nullptr ? absent : a->s;
}

Result<std::optional<std::vector<int64_t>>> NodeImport::integers(std::string_view attribute) {
  LATHE_TRY(const Attribute* a, typed(attribute, AttributeType::kInts));
  return a == nullptr ? std::nullopt : std::optional(a->ints);
}

Result<std::vector<float>> NodeImport::reals(std::string_view attribute) {
  LATHE_TRY(const Attribute* a, typed(attribute, AttributeType::kFloats));
  return a == nullptr ? std::vector<float>{} : a->floats;
}

// An operand that the operator's form needs, whatever least number its list has.
static tl::unexpected<Error> missing(size_t i) {
  return fail(Code::kInvalidArgument, "input " + std::to_string(i) + " is missing");
}

Binding NodeImport::stored_binding(size_t i) const {
  if (!has_input(i)) return {};
  const auto it = builder_.names.find(proto_.inputs[i]);
  return it == builder_.names.end() ? Binding{} : it->second;
}

Binding NodeImport::binding(size_t i) const {
  Binding b = stored_binding(i);
  if (b.tensor && b.tensor->quant) b.tensor = std::make_shared<const ConstTensor>(dequantized(*b.tensor));
  return b;
}

int32_t NodeImport::elem_type(size_t i) const {
  if (!has_input(i)) return 0;
  const auto stated = builder_.elem_types.find(proto_.inputs[i]);
  if (stated != builder_.elem_types.end() && stated->second != 0) return stated->second;
  const Binding b = binding(i);
  if (b.blocked()) return 0;
  return elem_type_of(b.tensor ? b.tensor->dtype : type(b.value).dtype);
}

Result<ValueId> NodeImport::value(size_t i) {
  if (!has_input(i)) return missing(i);
  const auto it = builder_.names.find(proto_.inputs[i]);
  if (it == builder_.names.end() || it->second.blocked()) return blocked();
  return builder_.materialize(it->second);
}

Result<std::shared_ptr<const ConstTensor>> NodeImport::constant(size_t i) {
  if (!has_input(i)) return missing(i);
  const Binding b = binding(i);
  if (b.blocked()) return blocked();
  return b.tensor;
}

Result<std::shared_ptr<const ConstTensor>> NodeImport::weight(size_t i) {
  if (!has_input(i)) return missing(i);
  const Binding b = stored_binding(i);
  if (b.blocked()) return blocked();
  return b.tensor;
}

Result<std::vector<Binding>> NodeImport::import_body(std::string_view attribute, const std::vector<Binding>& inputs) {
  LATHE_TRY(const Attribute* a, typed(attribute, AttributeType::kGraph));
  if (a == nullptr) return fail(Code::kInvalidArgument, "attribute '" + std::string(attribute) + "' is missing");
  LATHE_TRY(const GraphProto body, parse_graph(a->graph));
  return builder_.nested->import_body(body, inputs);
}

Result<std::shared_ptr<const ConstTensor>> NodeImport::known_tensor(size_t i) {
  if (!has_input(i)) return missing(i);
  const auto it = builder_.names.find(proto_.inputs[i]);
  if (it == builder_.names.end() || it->second.blocked()) return blocked();
  Binding& b = it->second;
  if (b.tensor) return constant(i);
  auto t = builder_.evaluated(b.value, it->first);
  if (t == nullptr) return nullptr;
  // From now on the name is a constant, so that what is computed from it starts here.
  if (!builder_.outputs.contains(it->first) && check_numbers(*t)) b.value = kNoId;
  b.tensor = std::move(t);
  return b.tensor;
}

Result<std::vector<Dim>> NodeImport::known_dims(size_t i, const char* what) {
  if (!has_input(i)) return missing(i);
  const Binding b = binding(i);
  if (b.blocked()) return blocked();
  const DType dtype = b.tensor ? b.tensor->dtype : type(b.value).dtype;
  if (dtype != DType::kS64 && dtype != DType::kS32)
    return fail(Code::kInvalidArgument, std::string(what) + " are " + dtype_name(dtype) + ", not integers");
  if (!b.tensor && builder_.graph.value(b.value).contents) return *builder_.graph.value(b.value).contents;
  LATHE_TRY(const auto t, known_tensor(i));
  if (!t)
    return fail(Code::kUnsupported,
                std::string(what) + " '" + std::string(proto_.inputs[i]) + "' are not constant; --const can fix them");
  std::vector<Dim> out;
  for (int64_t v : t->ints()) out.push_back(dims().constant(v));
  return out;
}

Result<std::vector<int64_t>> NodeImport::known_integers(size_t i, const char* what) {
  LATHE_TRY(const auto elements, known_dims(i, what));
  std::vector<int64_t> out;
  for (Dim d : elements) {
    const auto v = dims().value(d);
    if (!v)
      return fail(Code::kUnsupported, std::string(what) + " '" + std::string(proto_.inputs[i]) +
                                          "' depend on a dim that is not known; --shape can fix it");
    out.push_back(*v);
  }
  return out;
}

Result<float> NodeImport::known_real(size_t i, const char* what) {
  LATHE_TRY(const auto t, known_tensor(i));
  if (!t)
    return fail(Code::kUnsupported,
                std::string(what) + " '" + std::string(proto_.inputs[i]) + "' is not constant; --const can fix it");
  if (t->elems() != 1)
    return fail(Code::kUnsupported, std::string(what) + " has " + std::to_string(t->elems()) + " elements, not 1");
  if (t->dtype == DType::kF32) return t->bytes.as<float>()[0];
  const int64_t whole = t->ints()[0];
  if (whole < -(1 << 24) || whole > 1 << 24) return fail(Code::kUnsupported, std::string(what) + " is " + std::to_string(whole));
  return static_cast<float>(whole);
}

Result<std::optional<std::vector<int64_t>>> NodeImport::integers_or_input(std::string_view attribute, int64_t since, size_t i) {
  const std::string quoted_name = "'" + std::string(attribute) + "'";
  if (opset() < since) {
    if (has_input(i))
      return fail(Code::kInvalidArgument,
                  quoted_name + " is an attribute before opset " + std::to_string(since) + ", not an input");
    return integers(attribute);
  }
  if (has(attribute))
    return fail(Code::kInvalidArgument,
                quoted_name + " is an input from opset " + std::to_string(since) + " on, not an attribute");
  if (!has_input(i)) return std::nullopt;
  LATHE_TRY(auto list, known_integers(i, std::string(attribute).c_str()));
  return list;
}

Result<int32_t> NodeImport::normalized_axis(int64_t axis, size_t rank) const {
  const auto r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r)
    return fail(Code::kInvalidArgument, "axis " + std::to_string(axis) + " is outside a tensor of rank " + std::to_string(rank));
  return static_cast<int32_t>(axis < 0 ? axis + r : axis);
}

Result<std::vector<int32_t>> NodeImport::normalized_axes(const std::vector<int64_t>& axes, size_t rank) const {
  std::vector<int32_t> out;
  for (int64_t a : axes) {
    LATHE_TRY(const int32_t axis, normalized_axis(a, rank));
    if (std::find(out.begin(), out.end(), axis) != out.end())
      return fail(Code::kInvalidArgument, "axis " + std::to_string(a) + " is given twice");
    out.push_back(axis);
  }
  return out;
}

Result<std::vector<ValueId>> NodeImport::add(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs,
                                             std::vector<std::string> results, std::optional<Quant> quant) {
  Graph& graph = builder_.graph;
  // Operators that take quantized values have no form for small integers without parameters; the op table calls them ill-typed.
  const bool small_integers = std::any_of(inputs.begin(), inputs.end(), [&](ValueId v) {
    return v != kNoId && dtype_bytes(type(v).dtype) < 4 && type(v).dtype != DType::kBool;
  });
  auto node = graph.add_node(op, std::move(attrs), std::move(inputs), builder_.node_name(stem(tag)), std::move(results),
                             {std::move(quant)});
  if (node) return graph.node(*node).outputs;
  if (small_integers) node.error().code = Code::kUnsupported;
  return tl::unexpected(std::move(node.error()));
}

// The file's name of an output, unless it has none or a value of ours has taken it.
std::string NodeImport::result_name(size_t output) const {
  if (!has_output(output)) return builder_.value_name(stem("output" + std::to_string(output)));
  const std::string name(proto_.outputs[output]);
  const bool is_taken = builder_.graph.find_value(name) != kNoId || (builder_.is_nested && builder_.reserved.contains(name));
  return is_taken ? builder_.value_name(name) : name;
}

Result<ValueId> NodeImport::emit(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs,
                                 std::optional<Quant> quant) {
  LATHE_TRY(const auto values,
            add(tag, op, std::move(attrs), std::move(inputs), {builder_.value_name(stem(tag))}, std::move(quant)));
  return values[0];
}

Result<ValueId> NodeImport::emit_output(Op op, Attrs attrs, std::vector<ValueId> inputs, size_t output, const std::string& tag) {
  LATHE_TRY(const auto values, add(tag, op, std::move(attrs), std::move(inputs), {result_name(output)}));
  return values[0];
}

Result<void> NodeImport::finish(Op op, Attrs attrs, std::vector<ValueId> inputs, size_t output, const std::string& tag) {
  LATHE_TRY(const ValueId v, emit_output(op, std::move(attrs), std::move(inputs), output, tag));
  bind(Binding{v, nullptr}, output);
  return {};
}

Result<std::vector<ValueId>> NodeImport::emit_all(const std::string& tag, Op op, Attrs attrs, std::vector<ValueId> inputs) {
  std::vector<std::string> names;
  for (int i = 0; i < op_def(op).outputs; ++i) names.push_back(builder_.value_name(stem(tag) + "." + std::to_string(i)));
  return add(tag, op, std::move(attrs), std::move(inputs), std::move(names));
}

Result<void> NodeImport::finish_all(Op op, Attrs attrs, std::vector<ValueId> inputs) {
  std::vector<std::string> names;
  const size_t count = op_def(op).outputs;
  for (size_t i = 0; i < count; ++i) names.push_back(result_name(i));
  LATHE_TRY(const auto values, add({}, op, std::move(attrs), std::move(inputs), std::move(names)));
  for (size_t i = 0; i < count; ++i) bind(Binding{values[i], nullptr}, i);
  return {};
}

void NodeImport::bind(Binding binding, size_t output) {
  if (has_output(output) && !builder_.fixed.contains(proto_.outputs[output]))
    builder_.names[std::string(proto_.outputs[output])] = std::move(binding);
}

Result<void> NodeImport::bind_constant(ConstTensor t) {
  bind(Binding{kNoId, std::make_shared<const ConstTensor>(std::move(t))});
  return {};
}

Result<ValueId> NodeImport::scalar_constant(const std::string& tag, float value) {
  return builder_.constant({builder_.value_name(stem(tag)), DType::kF32, {}, Constant::of(std::vector<float>{value})});
}

Result<ValueId> NodeImport::integers_constant(const std::string& tag, const std::vector<int64_t>& values) {
  const ConstTensor t{
      name_ + ":" + tag, DType::kS64, {static_cast<int64_t>(values.size())}, Constant::of(values)};
  return builder_.constant(t);
}

}  // namespace lathe::onnx
