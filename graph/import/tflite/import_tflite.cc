#include "graph/import/tflite/import_tflite.h"

#include <algorithm>

#include "base/hash.h"
#include "graph/import/tflite/importer.h"
#include "graph/op_def.h"
#include "runtime/host/mapped_file.h"

namespace lathe {
namespace tflite {
namespace {

// An operator as messages call it.
std::string operator_name(const FileOperator& op) {
  if (op.code == kCustomCode) return "custom operator " + std::string(op.custom);
  if (const OpImport* known = find_op_import(op.code)) return known->name;
  return "operator number " + std::to_string(op.code);
}

// One import, step by step; import_file() is the order of the steps.
class Import {
 public:
  Import(const FileModel& model, std::shared_ptr<const void> owner, size_t file_bytes, const ImportOptions& options,
         ImportReport& report)
      : options_(options), report_(report), builder_(model, model.subgraphs[0], std::move(owner), file_bytes, report) {}

  Result<void> read_inputs();
  Result<void> import_operators();
  Result<void> read_outputs();
  // The list of what is missing, if anything is.
  Result<void> check_supported() const;
  Result<void> write_state() { return builder_.write_resources(); }
  Result<Graph> finish();

 private:
  const FileSubgraph& file() const { return builder_.file; }
  std::string tensor_label(int32_t t) const { return "'" + builder_.names[static_cast<size_t>(t)] + "'"; }
  Result<std::vector<Dim>> input_dims(const FileTensor& t, const std::string& name);
  Result<void> add_input(int32_t tensor);
  Result<ValueId> fixed_input(int32_t tensor, const std::vector<double>& values);
  Result<void> check_named(const char* what, const std::string& name) const;
  Result<void> check_operator(const FileOperator& op) const;
  Result<void> import_operator(size_t index);
  Result<void> run_import(const FileOperator& op);
  Result<ValueId> named_output(ValueId v, const std::string& name);

  const ImportOptions& options_;
  ImportReport& report_;
  Builder builder_;
  std::vector<bool> made_;  // by tensor: an input, or made by an operator before
};

// The file's shape; --shape may change what the signature leaves open.
Result<std::vector<Dim>> Import::input_dims(const FileTensor& t, const std::string& name) {
  std::vector<Dim> dims;
  const auto asked = options_.shapes.find(name);
  if (asked != options_.shapes.end() && asked->second.size() != t.dims.size())
    return fail(Code::kInvalidArgument, "it has rank " + std::to_string(t.dims.size()) + ", a shape of rank " +
                                            std::to_string(asked->second.size()) + " was asked for");
  for (size_t i = 0; i < t.dims.size(); ++i) {
    const int64_t wanted = asked == options_.shapes.end() || asked->second[i] == -1 ? t.dims[i] : asked->second[i];
    const bool open = !t.signature.empty() && t.signature[i] == -1;
    if (wanted != t.dims[i] && !open)
      return fail(Code::kInvalidArgument, "dim " + std::to_string(i) + " is " + std::to_string(t.dims[i]) + " in the file, " +
                                              std::to_string(wanted) + " was asked for");
    if (wanted == 0) return fail(Code::kUnsupported, "dim " + std::to_string(i) + " is 0: tensors cannot be empty");
    if (wanted < 1 || wanted > INT32_MAX)
      return fail(Code::kInvalidArgument, "dim " + std::to_string(i) + " cannot become " + std::to_string(wanted));
    dims.push_back(builder_.graph.dims().constant(wanted));
  }
  return dims;
}

// A constant in the place of an input, of the type that the file says.
Result<ValueId> Import::fixed_input(int32_t tensor, const std::vector<double>& values) {
  const FileTensor& t = file().tensors[static_cast<size_t>(tensor)];
  LATHE_TRY(const DType dtype, dtype_of(t));
  int64_t elems = 1;
  for (const int32_t d : t.dims)
    if (__builtin_mul_overflow(elems, int64_t{d}, &elems)) return fail(Code::kInvalidArgument, "its shape is too large");
  if (elems != static_cast<int64_t>(values.size()))
    return fail(Code::kInvalidArgument,
                "it has " + std::to_string(elems) + " elements, " + std::to_string(values.size()) + " values were given");
  Constant bytes;
  if (dtype == DType::kF32) bytes = Constant::of(std::vector<float>(values.begin(), values.end()));
  else if (dtype == DType::kS32) bytes = Constant::of(std::vector<int32_t>(values.begin(), values.end()));
  else if (dtype == DType::kS64) bytes = Constant::of(std::vector<int64_t>(values.begin(), values.end()));
  else return fail(Code::kUnsupported, std::string("values of type ") + dtype_name(dtype) + " cannot be fixed");
  return builder_.graph.add_constant(builder_.names[static_cast<size_t>(tensor)], {dtype, builder_.dims_of(t.dims)},
                                     std::move(bytes));
}

Result<void> Import::add_input(int32_t tensor) {
  const auto i = static_cast<size_t>(tensor);
  const FileTensor& t = file().tensors[i];
  const std::string& name = builder_.names[i];
  if (made_[i]) return fail(Code::kCorrupt, "it is an input twice");
  made_[i] = true;
  if (const auto fixed = options_.constants.find(name); fixed != options_.constants.end()) {
    for (const double v : fixed->second)
      if (t.type != fbs::TensorType_FLOAT32 && !(v >= -0x1p31 && v <= 0x1p31 - 1))
        return fail(Code::kInvalidArgument, std::to_string(v) + " is not an integer of 32 bits");
    LATHE_TRY(builder_.values[i], fixed_input(tensor, fixed->second));
    return {};
  }
  LATHE_TRY(const DType dtype, dtype_of(t));
  LATHE_TRY(auto quant, quant_of(t));
  const TensorType file_type{dtype, builder_.dims_of(t.dims)};
  if (quant) {
    LATHE_CHECK_OK(check_quant(builder_.graph.dims(), file_type, *quant));
  }
  LATHE_TRY(auto dims, input_dims(t, name));
  if (t.type == fbs::TensorType_UINT8 && dtype == DType::kS8)
    report_.notes.push_back("input '" + name + "' is uint8 in the file and s8 here: 128 less");
  if (dtype == DType::kF32 && t.type != fbs::TensorType_FLOAT32)
    report_.notes.push_back("input '" + name + "' is " + type_name(t.type) + " in the file and f32 here");
  builder_.values[i] = builder_.graph.add_input(name, {dtype, std::move(dims)}, std::move(quant));
  return {};
}

Result<void> Import::read_inputs() {
  made_.resize(file().tensors.size(), false);
  for (const int32_t t : file().inputs) {
    auto ok = add_input(t);
    if (ok) continue;
    Error error = with_context(std::move(ok.error()), "input " + tensor_label(t));
    if (error.code != Code::kUnsupported) return tl::unexpected(std::move(error));
    report_.unsupported.push_back({"", "", error.message});
    builder_.blocked[static_cast<size_t>(t)] = true;
  }
  for (const auto& [name, dims] : options_.shapes) LATHE_CHECK_OK(check_named("a shape", name));
  for (const auto& [name, values] : options_.constants) LATHE_CHECK_OK(check_named("a constant", name));
  return {};
}

Result<void> Import::check_named(const char* what, const std::string& name) const {
  for (const int32_t t : file().inputs)
    if (builder_.names[static_cast<size_t>(t)] == name) return {};
  return fail(Code::kInvalidArgument, std::string(what) + " was given for '" + name + "', which is no input");
}

// Operands are made before they are read, results once.
Result<void> Import::check_operator(const FileOperator& op) const {
  constexpr int32_t kCallOnce = 129, kAssignVariable = 144;
  const bool has_results = op.code != kCallOnce && op.code != kAssignVariable;
  if (has_results && op.outputs.empty()) return fail(Code::kUnsupported, "it has no output");
  for (const int32_t t : op.inputs) {
    if (t < 0) continue;
    const auto i = static_cast<size_t>(t);
    if (!made_[i] && !file().tensors[i].is_constant() && !file().tensors[i].is_variable)
      return fail(Code::kCorrupt, "input " + tensor_label(t) + " is read before anything makes it");
  }
  for (const int32_t t : op.outputs) {
    const auto i = static_cast<size_t>(t);
    if (made_[i] || file().tensors[i].is_constant())
      return fail(Code::kCorrupt, "output " + tensor_label(t) + " is made twice");
    if (std::count(op.outputs.begin(), op.outputs.end(), t) > 1)
      return fail(Code::kCorrupt, "output " + tensor_label(t) + " is made twice");
  }
  return {};
}

Result<void> Import::run_import(const FileOperator& op) {
  const OpImport* known = op.code == kCustomCode ? nullptr : find_op_import(op.code);
  if (known == nullptr) return fail(Code::kUnsupported, "the operator is not supported");
  if (op.inputs.size() < known->min_inputs || op.inputs.size() > known->max_inputs)
    return fail(Code::kInvalidArgument, "it has " + std::to_string(op.inputs.size()) + " inputs, " +
                                            std::to_string(known->min_inputs) +
                                            (known->max_inputs == known->min_inputs ? ""
                                             : known->max_inputs == kVariadic       ? " or more"
                                                                              : " to " + std::to_string(known->max_inputs)) +
                                            " are expected");
  NodeImport n(builder_, op);
  LATHE_CHECK_OK(known->import(n));
  for (const int32_t t : op.outputs)
    if (builder_.values[static_cast<size_t>(t)] == kNoId && !builder_.handles.contains(t))
      return fail(Code::kUnsupported, "output " + tensor_label(t) + " is not supported");
  return {};
}

// Unsupported operators are listed and their results left without a value; other errors end the import.
Result<void> Import::import_operator(size_t index) {
  const FileOperator& op = file().operators[index];
  const std::string name = operator_name(op);
  ++report_.file_ops[name];
  const std::string where =
      name + " " + std::to_string(index) +
      (op.outputs.empty() ? "" : " (" + tensor_label(op.outputs[0]) + ", version " + std::to_string(op.version) + ")");
  auto result = check_operator(op);
  if (result) result = run_import(op);
  for (const int32_t t : op.outputs) {
    made_[static_cast<size_t>(t)] = true;
    builder_.blocked[static_cast<size_t>(t)] = builder_.values[static_cast<size_t>(t)] == kNoId;
  }
  if (result || result.error().code == Code::kCancelled) return {};
  if (result.error().code != Code::kUnsupported) return tl::unexpected(with_context(std::move(result.error()), where));
  report_.unsupported.push_back({name, where, result.error().message});
  return {};
}

Result<void> Import::import_operators() {
  for (size_t i = 0; i < file().operators.size(); ++i) {
    LATHE_CHECK_OK(import_operator(i));
  }
  return {};
}

// A graph output is a temporary with the file's name: where an operator left another value in its place, a copy makes one.
Result<ValueId> Import::named_output(ValueId v, const std::string& name) {
  Graph& graph = builder_.graph;
  if (graph.producer(v) != nullptr && !graph.is_output(v) && graph.value(v).name == name) return v;
  std::vector<int64_t> target;
  int open = 0;
  for (const Dim d : graph.value(v).type.dims) {
    target.push_back(graph.dims().value(d).value_or(-1));
    open += target.back() == -1 ? 1 : 0;
  }
  if (open > 1) return fail(Code::kUnsupported, "output '" + name + "' has " + std::to_string(open) + " open dims");
  const TensorType vector{DType::kS64, {graph.dims().constant(static_cast<int64_t>(target.size()))}};
  const ValueId shape = graph.add_constant(builder_.value_name(name + ":shape"), vector, Constant::of(target));
  const std::string result = graph.find_value(name) == kNoId ? name : builder_.value_name(name);
  LATHE_TRY(const NodeId node,
            graph.add_node(Op::kReshape, NoAttrs{}, {v, shape}, builder_.node_name("output:" + name), {result}));
  return graph.node(node).outputs[0];
}

Result<void> Import::read_outputs() {
  if (file().outputs.empty()) return fail(Code::kInvalidArgument, "the graph has no output");
  for (const int32_t t : file().outputs) {
    const auto i = static_cast<size_t>(t);
    if (builder_.blocked[i]) continue;  // behind an unsupported operator
    LATHE_TRY(const ValueId v, builder_.value(t));
    LATHE_TRY(const ValueId out, named_output(v, builder_.names[i]));
    builder_.graph.add_output(out);
    if (file().tensors[i].type == fbs::TensorType_UINT8 && builder_.graph.value(out).type.dtype == DType::kS8)
      report_.notes.push_back("output '" + builder_.names[i] + "' is uint8 in the file and s8 here: 128 less");
  }
  return {};
}

Result<void> Import::check_supported() const {
  const auto& items = report_.unsupported;
  if (items.empty()) return {};
  std::string message = std::to_string(items.size()) + (items.size() == 1 ? " thing is" : " things are") + " not supported:";
  for (const UnsupportedItem& i : items) message += "\n  " + (i.where.empty() ? "" : i.where + ": ") + i.reason;
  return fail(Code::kUnsupported, std::move(message));
}

Result<Graph> Import::finish() {
  Graph& graph = builder_.graph;
  graph.metadata["tflite.version"] = std::to_string(builder_.model.version);
  if (!builder_.model.description.empty()) graph.metadata["tflite.description"] = std::string(builder_.model.description);
  LATHE_CHECK_OK(verify(graph));
  if (options_.run_passes) {
    LATHE_CHECK_OK(run_passes(graph, import_passes(), options_.passes));
  }
  for (NodeId n : graph.order()) ++report_.graph_ops[op_name(graph.node(n).op)];
  return std::move(graph);
}

Result<Graph> import_file(const FileModel& model, std::shared_ptr<const void> owner, size_t file_bytes,
                          const ImportOptions& options, ImportReport& report) {
  report.format = "tflite version " + std::to_string(model.version);
  report.producer = std::string(model.description);
  Import import(model, std::move(owner), file_bytes, options, report);
  LATHE_CHECK_OK(import.read_inputs());
  LATHE_CHECK_OK(import.import_operators());
  LATHE_CHECK_OK(import.read_outputs());
  LATHE_CHECK_OK(import.check_supported());
  LATHE_CHECK_OK(import.write_state());
  return import.finish();
}

}  // namespace
}  // namespace tflite

Result<Graph> import_tflite(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, const ImportOptions& options,
                            ImportReport* report) {
  ImportReport unread;
  ImportReport& to = report != nullptr ? *report : unread;
  to = {};
  LATHE_TRY(const tflite::FileModel model, tflite::read_file_model(bytes));
  LATHE_TRY(Graph graph, tflite::import_file(model, std::move(owner), bytes.size(), options, to));
  graph.metadata["source.hash"] = to_hex(hash128(bytes));
  return graph;
}

Result<Graph> import_tflite(const std::filesystem::path& path, const ImportOptions& options, ImportReport* report) {
  LATHE_TRY(const auto file, MappedFile::open(path.string()));
  const Bytes bytes = file->bytes();
  auto graph = import_tflite(file, {reinterpret_cast<const std::byte*>(bytes.data), bytes.size}, options, report);
  if (!graph) return tl::unexpected(with_context(std::move(graph.error()), path.string()));
  graph->metadata["source.file"] = path.filename().string();
  return graph;
}

}  // namespace lathe
