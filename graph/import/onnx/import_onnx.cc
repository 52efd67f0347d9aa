#include "graph/import/onnx/import_onnx.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/hash.h"
#include "graph/import/onnx/importer.h"
#include "graph/import/onnx/legacy.h"
#include "graph/import/onnx/nested.h"
#include "graph/import/onnx/node_order.h"
#include "graph/passes/fuse_quantized.h"
#include "runtime/host/mapped_file.h"

namespace lathe {
namespace onnx {
namespace {

bool is_default_domain(std::string_view domain) { return domain.empty() || domain == "ai.onnx"; }

Result<int64_t> default_opset(const ModelProto& model) {
  std::optional<int64_t> opset;
  for (const OpsetProto& o : model.opsets) {
    if (!is_default_domain(o.domain)) continue;
    if (opset && *opset != o.version)
      return fail(Code::kInvalidArgument,
                  "the model names two opsets, " + std::to_string(*opset) + " and " + std::to_string(o.version));
    opset = o.version;
  }
  if (!opset) return fail(Code::kUnsupported, "the model names no opset of the default domain");
  if (*opset < kOldestOpset || *opset > kNewestOpset)
    return fail(Code::kUnsupported, "opset " + std::to_string(*opset) + " is not supported, only " +
                                        std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset));
  return *opset;
}

// Symbols are written in text forms and on command lines: letters, digits, _ and . only.
std::string symbol_name(std::string_view param) {
  std::string s;
  for (char c : param) s += (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.') ? c : '_';
  if (std::isdigit(static_cast<unsigned char>(s[0])) != 0) s.insert(0, "_");
  return s;
}

std::string node_place(const std::string& label, const std::string& type, int64_t opset) {
  return label + " (" + type + ", opset " + std::to_string(opset) + ")";
}

// ": why", for operators that are known and not supported.
std::string unsupported_reason(std::string_view op_type) {
#define ONNX_UNSUPPORTED(name, reason) \
  if (op_type == #name) return std::string(": ") + reason;
#include "graph/import/onnx/unsupported.inc"
#undef ONNX_UNSUPPORTED
  return {};
}

// One import, step by step; import_model() is the order of the steps.
class Import {
 public:
  Import(const ModelProto& model, const ImportOptions& options, TensorReader& reader, ImportReport& report)
      : model_(model),
        proto_(*model.graph),
        options_(options),
        builder_(reader, report),
        report_(report),
        nested_(model, builder_, used_, [this](const NodeProto& node) { return import_node(node); }) {
    builder_.nested = &nested_;
  }

  Result<void> read_header();
  Result<void> read_initializers();
  Result<void> read_inputs();
  Result<void> read_fixed_values();
  Result<void> import_nodes();
  Result<void> read_outputs();
  // The list of what is missing, if anything is.
  Result<void> check_supported() const;
  Result<Graph> finish();

 private:
  Result<std::vector<Dim>> input_dims(const ValueInfo& info);
  Result<Dim> input_dim(const ValueInfo& info, size_t axis, int64_t wanted);
  Result<void> add_input(const ValueInfo& info);
  Result<Binding> fixed_value(const std::string& name, const std::vector<double>& values, const ValueInfo* info);
  Result<void> import_node(const NodeProto& node);
  Result<void> run_import(const OpImport& op, NodeImport& n);
  void check_outputs_bound(const NodeProto& node, const std::string& type);
  Result<ValueId> named_output(ValueId v, const std::string& name);
  Result<void> check_declared(const ValueInfo& info, ValueId v);
  void unsupported(UnsupportedItem item) { report_.unsupported.push_back(std::move(item)); }
  void count_weights();
  void note_folded_batch_norm();
  void note_float_ops();

  const ModelProto& model_;
  const GraphProto& proto_;
  const ImportOptions& options_;
  Builder builder_;
  ImportReport& report_;
  std::set<std::string_view> given_;  // names that no node makes
  std::set<std::string_view> used_;   // names that a node or the graph's outputs read
  NestedGraphs nested_;
};

Result<void> Import::read_header() {
  LATHE_TRY(builder_.opset, default_opset(model_));
  report_.opset = builder_.opset;
  report_.ir_version = model_.ir_version;
  report_.format = "opset " + std::to_string(builder_.opset) + ", ir version " + std::to_string(model_.ir_version);
  report_.producer = std::string(model_.producer_name);
  if (!model_.producer_version.empty()) report_.producer += " " + std::string(model_.producer_version);
  for (const NodeProto& node : proto_.nodes) {
    used_.insert(node.inputs.begin(), node.inputs.end());
    for (std::string_view name : node.outputs) builder_.reserved.emplace(name);
  }
  for (const ValueInfo& v : proto_.outputs) {
    used_.insert(v.name);
    builder_.outputs.emplace(v.name);
  }
  for (const auto* list : {&proto_.values, &proto_.outputs, &proto_.inputs})
    for (const ValueInfo& v : *list) builder_.elem_types[std::string(v.name)] = v.is_tensor ? v.elem_type : 0;
  for (const TensorProto& t : proto_.initializers) builder_.elem_types[std::string(t.name)] = t.data_type;
  for (const ValueInfo& v : proto_.inputs) builder_.reserved.emplace(v.name);
  for (const TensorProto& t : proto_.initializers) builder_.reserved.emplace(t.name);
  if (proto_.sparse_initializers != 0)
    unsupported({"", "graph", std::to_string(proto_.sparse_initializers) + " sparse initializers are not supported"});
  return {};
}

Result<void> Import::read_initializers() {
  for (const TensorProto& t : proto_.initializers) {
    if (t.name.empty()) return fail(Code::kInvalidArgument, "an initializer has no name");
    if (!given_.insert(t.name).second)
      return fail(Code::kInvalidArgument, "two initializers are called '" + std::string(t.name) + "'");
    auto tensor = builder_.reader.read(t);
    if (!tensor && tensor.error().code != Code::kUnsupported) return tl::unexpected(std::move(tensor.error()));
    Binding& binding = builder_.names[std::string(t.name)];
    if (tensor) binding.tensor = std::make_shared<const ConstTensor>(std::move(*tensor));
    else if (used_.contains(t.name)) unsupported({"", "", tensor.error().message});
  }
  return {};
}

Result<Dim> Import::input_dim(const ValueInfo& info, size_t axis, int64_t wanted) {
  const DimProto dim = info.has_shape ? info.dims[axis] : DimProto{};
  const std::string where = "input '" + std::string(info.name) + "': dim " + std::to_string(axis);
  if (dim.value && (*dim.value < 0 || *dim.value > INT32_MAX))
    return fail(Code::kInvalidArgument, where + " is " + std::to_string(*dim.value));
  if (wanted == -1) {
    if (dim.value) return builder_.graph.dims().constant(*dim.value);
    return builder_.graph.dims().symbol(
        symbol_name(dim.param.empty() ? std::string(info.name) + "_d" + std::to_string(axis) : std::string(dim.param)));
  }
  if (wanted < 1 || wanted > INT32_MAX) return fail(Code::kInvalidArgument, where + " cannot become " + std::to_string(wanted));
  if (dim.value && *dim.value != wanted)
    return fail(Code::kInvalidArgument,
                where + " is " + std::to_string(*dim.value) + " in the file, " + std::to_string(wanted) + " was asked for");
  return builder_.graph.dims().constant(wanted);
}

Result<std::vector<Dim>> Import::input_dims(const ValueInfo& info) {
  const auto asked = options_.shapes.find(std::string(info.name));
  if (!info.has_shape && asked == options_.shapes.end())
    return fail(Code::kUnsupported, "input '" + std::string(info.name) + "' has no shape; --shape can give it");
  const size_t rank = info.has_shape ? info.dims.size() : asked->second.size();
  if (asked != options_.shapes.end() && asked->second.size() != rank)
    return fail(Code::kInvalidArgument, "input '" + std::string(info.name) + "' has rank " + std::to_string(rank) +
                                            ", a shape of rank " + std::to_string(asked->second.size()) + " was asked for");
  if (rank > kMaxRank)
    return fail(Code::kUnsupported, "input '" + std::string(info.name) + "' has rank " + std::to_string(rank) + ", at most " +
                                        std::to_string(kMaxRank) + " are supported");
  std::vector<Dim> dims;
  std::vector<int64_t> least;  // unknown dims as 1
  for (size_t i = 0; i < rank; ++i) {
    LATHE_TRY(dims.emplace_back(), input_dim(info, i, asked == options_.shapes.end() ? -1 : asked->second[i]));
    least.push_back(builder_.graph.dims().value(dims.back()).value_or(1));
  }
  if (auto size = checked_bytes(least, 4); !size)
    return tl::unexpected(with_context(std::move(size.error()), "input '" + std::string(info.name) + "'"));
  return dims;
}

Result<void> Import::add_input(const ValueInfo& info) {
  const std::string name(info.name);
  if (!info.is_tensor) return fail(Code::kUnsupported, "input '" + name + "' is not a tensor");
  auto dtype = dtype_of(info.elem_type);
  if (!dtype) return tl::unexpected(with_context(std::move(dtype.error()), "input '" + name + "'"));
  if (*dtype == DType::kF32 && info.elem_type != static_cast<int32_t>(ElemType::kFloat))
    report_.notes.push_back("input '" + name + "' is " + elem_type_name(info.elem_type) + " in the file and f32 here");
  LATHE_TRY(auto dims, input_dims(info));
  builder_.names[name].value = builder_.graph.add_input(name, {*dtype, std::move(dims)});
  return {};
}

// Inputs with an initializer of the same name are constants: that is how IR version 3 lists weights.
Result<void> Import::read_inputs() {
  std::set<std::string_view> seen;
  for (const ValueInfo& info : proto_.inputs) {
    if (info.name.empty()) return fail(Code::kInvalidArgument, "an input has no name");
    if (!seen.insert(info.name).second)
      return fail(Code::kInvalidArgument, "two inputs are called '" + std::string(info.name) + "'");
    if (!given_.insert(info.name).second) continue;
    if (options_.constants.contains(std::string(info.name))) continue;
    if (auto ok = add_input(info); !ok) {
      if (ok.error().code != Code::kUnsupported) return ok;
      unsupported({"", "", ok.error().message});
    }
  }
  for (const auto& [name, dims] : options_.shapes)
    if (!seen.contains(name)) return fail(Code::kInvalidArgument, "a shape was given for '" + name + "', which is no input");
  return {};
}

// Integers that are given lie in [lo, hi].
template <class T> Result<Constant> given_integers(const std::vector<double>& values, double lo, double hi) {
  for (const double v : values)
    if (v != std::trunc(v) || v < lo || v > hi)
      return fail(Code::kInvalidArgument, std::to_string(v) + " is not an integer of " + std::to_string(static_cast<int64_t>(lo)) +
                                              " to " + std::to_string(static_cast<int64_t>(hi)));
  return Constant::of(std::vector<T>(values.begin(), values.end()));
}

Result<Constant> given_numbers(DType dtype, const std::vector<double>& values) {
  switch (dtype) {
    case DType::kF32: return Constant::of(std::vector<float>(values.begin(), values.end()));
    case DType::kS64: return given_integers<int64_t>(values, -0x1p31, 0x1p31);
    case DType::kS32: return given_integers<int32_t>(values, INT32_MIN, INT32_MAX);
    case DType::kS16: return given_integers<int16_t>(values, INT16_MIN, INT16_MAX);
    case DType::kU16: return given_integers<uint16_t>(values, 0, UINT16_MAX);
    case DType::kS8: return given_integers<int8_t>(values, INT8_MIN, INT8_MAX);
    case DType::kU8: return given_integers<uint8_t>(values, 0, UINT8_MAX);
    case DType::kBool: return given_integers<uint8_t>(values, 0, 1);
    default: return fail(Code::kUnsupported, std::string("values of type ") + dtype_name(dtype) + " cannot be fixed");
  }
}

// A constant of what the file says about the value; if it says nothing, a vector of s64.
Result<Binding> Import::fixed_value(const std::string& name, const std::vector<double>& values, const ValueInfo* info) {
  ConstTensor t{name, DType::kS64, {static_cast<int64_t>(values.size())}, {}};
  if (info != nullptr && info->is_tensor) {
    LATHE_TRY(t.dtype, dtype_of(info->elem_type));
    if (info->has_shape) {
      std::vector<int64_t> dims;
      for (const DimProto& d : info->dims)
        dims.push_back(d.value.value_or(info->dims.size() == 1 ? static_cast<int64_t>(values.size()) : 1));
      LATHE_TRY(const size_t bytes, checked_bytes(dims, 1));
      if (bytes != values.size())
        return fail(Code::kInvalidArgument, "dims " + dims_text(dims) + " need " + std::to_string(bytes) + " values, " +
                                                std::to_string(values.size()) + " were given");
      t.dims = dims;
    }
  }
  LATHE_TRY(t.bytes, given_numbers(t.dtype, values));
  return Binding{kNoId, std::make_shared<const ConstTensor>(std::move(t))};
}

Result<void> Import::read_fixed_values() {
  for (const auto& [name, values] : options_.constants) {
    if (!builder_.reserved.contains(name))
      return fail(Code::kInvalidArgument, "a constant was given for '" + name + "', which is no value of the model");
    const ValueInfo* info = nullptr;
    for (const auto* list : {&proto_.inputs, &proto_.outputs, &proto_.values})
      for (const ValueInfo& v : *list)
        if (v.name == name) info = &v;
    auto fixed = fixed_value(name, values, info);
    if (!fixed) return tl::unexpected(with_context(std::move(fixed.error()), "constant '" + name + "'"));
    builder_.names[name] = std::move(*fixed);
    builder_.fixed.insert(name);
  }
  return {};
}

// An output that someone reads but import gives no value is missing.
void Import::check_outputs_bound(const NodeProto& node, const std::string& type) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string name(node.outputs[i]);
    if (name.empty() || !used_.contains(name) || builder_.names.contains(name)) continue;
    unsupported({type, node_label(node), "output " + std::to_string(i) + " ('" + name + "') is not supported"});
  }
}

Result<void> Import::run_import(const OpImport& op, NodeImport& n) {
  if (is_default_domain(n.proto().domain) && builder_.opset < op.since)
    return fail(Code::kUnsupported, "the form before opset " + std::to_string(op.since) + " is not supported");
  const size_t count = n.input_count();
  if (count < op.min_inputs || count > op.max_inputs)
    return fail(Code::kInvalidArgument, "it has " + std::to_string(count) + " inputs, " + std::to_string(op.min_inputs) +
                                            (op.max_inputs == op.min_inputs ? ""
                                             : op.max_inputs == kVariadic   ? " or more"
                                                                            : " to " + std::to_string(op.max_inputs)) +
                                            " are expected");
  for (size_t i = 0; i < op.min_inputs; ++i)
    if (!n.has_input(i)) return fail(Code::kInvalidArgument, "input " + std::to_string(i) + " is missing");
  if (!n.has_any_output()) return fail(Code::kInvalidArgument, "it has no output");
  LATHE_CHECK_OK(op.import(n));
  if (const auto unread = n.unread_attribute()) return fail(Code::kUnsupported, "attribute '" + *unread + "' is not supported");
  return {};
}

// Unsupported nodes are listed and their results left without a value; other errors end the import.
Result<void> Import::import_node(const NodeProto& node) {
  const std::string type = (is_default_domain(node.domain) ? "" : std::string(node.domain) + ".") + std::string(node.op_type);
  ++report_.file_ops[type];
  const bool all_fixed =
      std::all_of(node.outputs.begin(), node.outputs.end(), [&](std::string_view o) { return builder_.fixed.contains(o); });
  if (all_fixed && !node.outputs.empty()) return {};
  const FunctionProto* function = nested_.find(node);
  const OpImport* op = find_op_import(node.domain, node.op_type);
  if (op == nullptr && function == nullptr) {
    unsupported({type, node_label(node),
                 is_default_domain(node.domain) || node.domain == "com.microsoft"
                     ? "operator " + type + " is not supported" + unsupported_reason(node.op_type)
                     : "operators of domain '" + std::string(node.domain) + "' are not supported"});
    return {};
  }
  NodeProto modern;
  if (builder_.opset < 7) {
    auto form = modern_form(builder_, node);
    if (!form)
      return tl::unexpected(with_context(std::move(form.error()), node_place(node_label(node), type, builder_.opset)));
    modern = std::move(*form);
  }
  NodeImport n(builder_, builder_.opset < 7 ? modern : node,
               node.name.empty() && !node.outputs.empty() ? std::string(node.outputs[0]) : std::string(node.name));
  auto result = function != nullptr ? nested_.import_function(*function, node) : run_import(*op, n);
  if (result) {
    check_outputs_bound(node, type);
    return {};
  }
  Error error = std::move(result.error());
  if (error.code == Code::kCancelled) return {};
  if (error.code != Code::kUnsupported)
    return tl::unexpected(with_context(std::move(error), node_place(node_label(node), type, builder_.opset)));
  unsupported({type, node_label(node), error.message});
  return {};
}

Result<void> Import::import_nodes() {
  LATHE_TRY(const auto order, node_order(proto_, given_, {builder_.fixed.begin(), builder_.fixed.end()}));
  for (size_t i : order) {
    LATHE_CHECK_OK(import_node(proto_.nodes[i]));
  }
  return {};
}

// A graph output is a temporary with the file's name: where a node gave it another (or it is an input, a constant or an output
// already), a cast to its own type makes one.
Result<ValueId> Import::named_output(ValueId v, const std::string& name) {
  Graph& graph = builder_.graph;
  if (graph.value(v).name == name && graph.producer(v) != nullptr) return v;
  const CastAttrs same{static_cast<int32_t>(graph.value(v).type.dtype)};
  const std::string result = graph.find_value(name) == kNoId ? name : builder_.value_name(name);
  LATHE_TRY(const NodeId node, graph.add_node(Op::kCast, same, {v}, builder_.node_name("output:" + name), {result}));
  return graph.node(node).outputs[0];
}

// What the file declares about an output against what was inferred. A type that differs is an error; dims are a note, since
// exporters often leave those of another batch behind.
Result<void> Import::check_declared(const ValueInfo& info, ValueId v) {
  const TensorType& type = builder_.graph.value(v).type;
  const std::string name = "output '" + std::string(info.name) + "'";
  if (!info.is_tensor || info.elem_type == 0) return {};
  const auto dtype = dtype_of(info.elem_type);
  if (!dtype || *dtype != type.dtype)
    return fail(Code::kInvalidArgument,
                name + " is " + elem_type_name(info.elem_type) + " in the file and computed as " + dtype_name(type.dtype));
  if (!info.has_shape) return {};
  bool same = info.dims.size() == type.dims.size();
  for (size_t i = 0; same && i < type.dims.size(); ++i) {
    const auto computed = builder_.graph.dims().value(type.dims[i]);
    same = !computed || !info.dims[i].value || *computed == *info.dims[i].value;
  }
  if (!same)
    report_.notes.push_back(name + " has other dims in the file than those computed, " + print_type(builder_.graph.dims(), type));
  return {};
}

Result<void> Import::read_outputs() {
  if (proto_.outputs.empty()) return fail(Code::kInvalidArgument, "the graph has no output");
  std::set<std::string_view> seen;
  for (const ValueInfo& info : proto_.outputs) {
    const std::string name(info.name);
    if (!seen.insert(info.name).second) return fail(Code::kInvalidArgument, "two outputs are called '" + name + "'");
    const auto it = builder_.names.find(name);
    if (it == builder_.names.end() && !builder_.reserved.contains(name))
      return fail(Code::kInvalidArgument, "output '" + name + "' is made by no node");
    if (it == builder_.names.end() || it->second.blocked()) continue;  // behind an unsupported node
    LATHE_TRY(ValueId v, builder_.materialize(it->second));
    LATHE_CHECK_OK(check_declared(info, v));
    LATHE_TRY(v, named_output(v, name));
    builder_.graph.add_output(v);
  }
  return {};
}

Result<void> Import::check_supported() const {
  const auto& items = report_.unsupported;
  if (items.empty()) return {};
  std::string message = std::to_string(items.size()) + (items.size() == 1 ? " thing is" : " things are") + " not supported:";
  for (const UnsupportedItem& item : items) {
    const std::string place = item.op.empty() ? item.where : node_place(item.where, item.op, builder_.opset);
    message += "\n  " + place + (place.empty() ? "" : ": ") + item.reason;
  }
  return fail(Code::kUnsupported, std::move(message));
}

void Import::count_weights() {
  for (ValueId v = 0; v < builder_.graph.value_count(); ++v) {
    const Value& value = builder_.graph.value(v);
    if (value.dead || value.kind != ValueKind::kConstant) continue;
    (builder_.reader.owns(value.constant) ? report_.mapped_bytes : report_.copied_bytes) += value.constant.bytes.size();
  }
}

void Import::note_folded_batch_norm() {
  const auto convolutions = report_.file_ops.find("Conv");
  if (convolutions == report_.file_ops.end() || report_.file_ops.contains("BatchNormalization")) return;
  report_.notes.push_back("the model has " + std::to_string(convolutions->second) +
                          " convolutions and no BatchNormalization: batch normalization was folded before export");
}

// Ops that stand between integers and stay float.
void Import::note_float_ops() {
  const Graph& graph = builder_.graph;
  const auto is_border = [&](const Node* n, Op op) { return n != nullptr && n->op == op; };
  for (const NodeId n : graph.order()) {
    const Node& node = graph.node(n);
    if (node.op == Op::kQuantize || node.op == Op::kDequantize) continue;
    bool touches = std::any_of(node.inputs.begin(), node.inputs.end(),
                               [&](ValueId v) { return is_border(graph.producer(v), Op::kDequantize); });
    for (const ValueId v : node.outputs)
      for (const NodeId reader : graph.consumers(v)) touches = touches || graph.node(reader).op == Op::kQuantize;
    if (touches)
      report_.notes.push_back("node '" + node.name + "' (" + op_name(node.op) + ") runs on floats between integers: " +
                              passes::integer_obstacle(graph, n));
  }
}

Result<Graph> Import::finish() {
  Graph& graph = builder_.graph;
  graph.metadata["onnx.opset"] = std::to_string(builder_.opset);
  graph.metadata["onnx.ir_version"] = std::to_string(model_.ir_version);
  if (!report_.producer.empty()) graph.metadata["onnx.producer"] = report_.producer;
  LATHE_CHECK_OK(verify(graph));
  if (options_.run_passes) {
    LATHE_CHECK_OK(run_passes(graph, import_passes(), options_.passes));
  }
  for (NodeId n : graph.order()) ++report_.graph_ops[op_name(graph.node(n).op)];
  count_weights();
  note_folded_batch_norm();
  note_float_ops();
  return std::move(graph);
}

Result<Graph> import_model(const ModelProto& model, const OnnxSource& source, const ImportOptions& options,
                           ImportReport& report) {
  if (model.ir_version < kOldestIrVersion)
    return fail(model.ir_version == 0 ? Code::kCorrupt : Code::kUnsupported,
                model.ir_version == 0 ? "not an onnx model: it has no IR version"
                                      : "IR version " + std::to_string(model.ir_version) + " is not supported, only " +
                                            std::to_string(kOldestIrVersion) + " and up");
  if (!model.graph) return fail(Code::kCorrupt, "the model has no graph");
  TensorReader reader(source.owner, source.folder);
  Import import(model, options, reader, report);
  LATHE_CHECK_OK(import.read_header());
  LATHE_CHECK_OK(import.read_initializers());
  LATHE_CHECK_OK(import.read_inputs());
  LATHE_CHECK_OK(import.read_fixed_values());
  LATHE_CHECK_OK(import.import_nodes());
  LATHE_CHECK_OK(import.read_outputs());
  LATHE_CHECK_OK(import.check_supported());
  return import.finish();
}

}  // namespace
}  // namespace onnx

Result<Graph> import_onnx(const OnnxSource& source, const ImportOptions& options, ImportReport* report) {
  ImportReport unread;
  ImportReport& to = report != nullptr ? *report : unread;
  to = {};
  LATHE_TRY(const onnx::ModelProto model, onnx::parse_model(source.bytes));
  LATHE_TRY(Graph graph, onnx::import_model(model, source, options, to));
  graph.metadata["source.hash"] = to_hex(hash128(source.bytes));
  return graph;
}

Result<Graph> import_onnx(const std::filesystem::path& path, const ImportOptions& options, ImportReport* report) {
  LATHE_TRY(const auto file, MappedFile::open(path.string()));
  const Bytes bytes = file->bytes();
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  auto graph =
      import_onnx(OnnxSource{file, {reinterpret_cast<const std::byte*>(bytes.data), bytes.size}, folder}, options, report);
  if (!graph) return tl::unexpected(with_context(std::move(graph.error()), path.string()));
  graph->metadata["source.file"] = path.filename().string();
  return graph;
}

}  // namespace lathe
