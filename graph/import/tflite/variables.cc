// Resource variables: state that operators read and write by name. CALL_ONCE runs a subgraph before the first run; one that
// assigns constants to variables gives their initial values, and no other is supported.
//
// Reads see what was written last; the variable itself is written when everything has been imported, so that no reader is behind
// the Assign. Quantized ones are kept as real values.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {
namespace {

constexpr int32_t kVarHandle = 142, kAssignVariable = 144;

std::string resource_name(const fbs::Operator& op) {
  const auto* o = op.options_as_VarHandle();
  if (o == nullptr) return {};
  const auto text = [](const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); };
  return text(o->container()) + "/" + text(o->shared_name());
}

// The variable behind operand 0.
Result<Resource*> resource_of(NodeImport& n) {
  Builder& b = n.builder();
  if (!n.has_input(0)) return fail(Code::kInvalidArgument, "no variable");
  const auto handle = b.handles.find(n.op().inputs[0]);
  if (handle == b.handles.end()) return fail(Code::kUnsupported, "its first input is no handle of a variable");
  const auto at = b.resources.find(handle->second);
  if (at == b.resources.end() || at->second.initial == nullptr)
    return fail(Code::kUnsupported, "variable '" + handle->second + "' has no initial value");
  return &at->second;
}

Result<Constant> initial_elements(Builder& b, const FileTensor& t) {
  if (t.type == fbs::TensorType_FLOAT32 || t.scales.empty()) return b.share(t.data, type_bytes(t.type));
  if (t.type != fbs::TensorType_INT8) return fail(Code::kUnsupported, "a variable of type " + type_name(t.type));
  LATHE_TRY(const auto quant, quant_of(t));
  if (quant->axis != -1) return fail(Code::kUnsupported, "a variable that is quantized per channel");
  std::vector<float> out;
  LATHE_CHECK_OK(b.charge(t.data.size() * sizeof(float)));
  for (const std::byte v : t.data)
    out.push_back(static_cast<float>(static_cast<int8_t>(v) - quant->zero_points[0]) * quant->scales[0]);
  return Constant::of(out);
}

// Makes the variable on first use.
Result<void> prepare(NodeImport& n, Resource& r) {
  if (r.variable != kNoId) return {};
  Builder& b = n.builder();
  const FileTensor& t = *r.initial;
  LATHE_TRY(DType dtype, dtype_of(t));
  if (dtype == DType::kS8 && !t.scales.empty()) dtype = DType::kF32;
  if (t.data.empty()) return fail(Code::kUnsupported, "an empty variable");
  if (t.scales.empty() && type_bytes(t.type) != dtype_bytes(dtype))
    return fail(Code::kUnsupported, "a variable of type " + type_name(t.type));
  LATHE_TRY(Constant initial, initial_elements(b, t));
  const std::string name = b.value_name(n.name() + ":variable");
  r.variable = r.held = b.graph.add_variable(name, {dtype, b.dims_of(t.dims)}, std::move(initial));
  return {};
}

}  // namespace

Result<void> import_call_once(NodeImport& n) {
  const auto* o = n.options().options_as_CallOnce();
  Builder& b = n.builder();
  if (o == nullptr || o->subgraph() < 1 || static_cast<size_t>(o->subgraph()) >= b.model.subgraphs.size())
    return fail(Code::kCorrupt, "it calls no subgraph of the file");
  const FileSubgraph& graph = b.model.subgraphs[static_cast<size_t>(o->subgraph())];
  std::map<int32_t, std::string> handles;
  for (const FileOperator& op : graph.operators) {
    if (op.code == kVarHandle && op.outputs.size() == 1) {
      handles[op.outputs[0]] = resource_name(*op.options);
      continue;
    }
    if (op.code != kAssignVariable || op.inputs.size() != 2 || op.inputs[1] < 0 || !handles.contains(op.inputs[0]))
      return fail(Code::kUnsupported, "a subgraph that does more than to assign constants to variables");
    const FileTensor& value = graph.tensors[static_cast<size_t>(op.inputs[1])];
    if (!value.is_constant()) return fail(Code::kUnsupported, "an initial value that is computed");
    b.resources[handles[op.inputs[0]]].initial = &value;
  }
  return {};
}

Result<void> import_var_handle(NodeImport& n) {
  n.builder().handles[n.op().outputs[0]] = resource_name(n.options());
  return {};
}

Result<void> import_read_variable(NodeImport& n) {
  LATHE_TRY(Resource* const r, resource_of(n));
  LATHE_CHECK_OK(prepare(n, *r));
  return n.finish_value(r->held);
}

Result<void> import_assign_variable(NodeImport& n) {
  LATHE_TRY(Resource* const r, resource_of(n));
  LATHE_CHECK_OK(prepare(n, *r));
  LATHE_TRY(ValueId v, n.value(1));
  LATHE_TRY(v, n.real(v));
  if (n.type(v) != n.type(r->variable))
    return fail(Code::kUnsupported, "a value of another type or other dims than the variable's");
  if (n.builder().graph.value(v).kind == ValueKind::kVariable && v != r->variable)
    return fail(Code::kUnsupported, "a variable becomes what another one is");
  r->held = v;
  return {};
}

Result<void> Builder::write_resources() {
  for (const auto& [name, r] : resources) {
    if (r.held == r.variable) continue;
    LATHE_CHECK_OK(graph.add_node(Op::kAssign, NoAttrs{}, {r.variable, r.held}, node_name("assign:" + name)));
  }
  return {};
}

}  // namespace lathe::tflite
