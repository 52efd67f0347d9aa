#include "tools/conformance.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "graph/import/onnx/import_onnx.h"
#include "graph/import/onnx/model_proto.h"
#include "graph/import/onnx/tensor.h"
#include "graph/lower/load.h"
#include "runtime/host/mapped_file.h"
#include "tools/conformance_compare.h"
#include "tools/runner.h"

namespace lathe::tools {
namespace {

namespace fs = std::filesystem;
using onnx::ConstTensor;

// Larger inputs are data, not axes or shapes.
constexpr size_t kMaxFixedElems = 64;
constexpr int kMaxImports = 8;

tl::unexpected<Error> unsupported(std::string reason) { return fail(Code::kUnsupported, std::move(reason)); }

// One port of a case's model.
struct Port {
  std::string name;
  int32_t elem_type = 0;
  bool is_tensor = false;
  std::optional<size_t> rank;
};

Port port_of(const onnx::ValueInfo& v) {
  return {std::string(v.name), v.elem_type, v.is_tensor, v.has_shape ? std::optional(v.dims.size()) : std::nullopt};
}

struct CaseModel {
  std::shared_ptr<const MappedFile> file;
  std::vector<Port> inputs, outputs;  // inputs without those that an initializer fills
  std::string op;
  std::span<const std::byte> bytes() const { return bytes_of(*file); }
  static std::span<const std::byte> bytes_of(const MappedFile& file) {
    return {reinterpret_cast<const std::byte*>(file.bytes().data), file.bytes().size};
  }
};

std::string operator_of(const onnx::GraphProto& graph) {
  if (graph.nodes.size() != 1) return "(several)";
  const onnx::NodeProto& node = graph.nodes[0];
  const bool is_default = node.domain.empty() || node.domain == "ai.onnx";
  return (is_default ? "" : std::string(node.domain) + ".") + std::string(node.op_type);
}

Result<CaseModel> read_case_model(const std::string& folder) {
  CaseModel m;
  LATHE_TRY(m.file, MappedFile::open(folder + "/model.onnx"));
  LATHE_TRY(const onnx::ModelProto model, onnx::parse_model(m.bytes()));
  if (!model.graph) return fail(Code::kCorrupt, "the model has no graph");
  m.op = operator_of(*model.graph);
  std::set<std::string_view> filled;
  for (const auto& t : model.graph->initializers) filled.insert(t.name);
  for (const auto& v : model.graph->inputs)
    if (!filled.contains(v.name)) m.inputs.push_back(port_of(v));
  for (const auto& v : model.graph->outputs) m.outputs.push_back(port_of(v));
  return m;
}

// A case's file of one tensor. NumPy has no bfloat16: older cases say uint16 and hold its bits.
Result<ConstTensor> read_tensor(const std::string& path, const Port& port) {
  LATHE_TRY(const auto file, MappedFile::open(path));
  LATHE_TRY(onnx::TensorProto proto, onnx::parse_tensor(CaseModel::bytes_of(*file)));
  const auto bfloat16 = static_cast<int32_t>(onnx::ElemType::kBfloat16);
  if (port.elem_type == bfloat16 && proto.data_type == static_cast<int32_t>(onnx::ElemType::kUint16)) proto.data_type = bfloat16;
  LATHE_TRY(ConstTensor t, onnx::TensorReader(file, {}).read(proto, onnx::BeyondFloat::kInfinity));
  if (port.rank && *port.rank != t.dims.size())
    return unsupported("the case's data contradicts its model: '" + port.name + "' has rank " + std::to_string(t.dims.size()) +
                       ", not " + std::to_string(*port.rank));
  return t;
}

// Tensors of one test_data_set folder. `stem`: "input" or "output".
Result<std::vector<ConstTensor>> read_tensors(const std::string& set, const char* stem, const std::vector<Port>& ports) {
  std::vector<ConstTensor> out;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (!ports[i].is_tensor) return unsupported(std::string(stem) + " '" + ports[i].name + "' is a sequence, map or optional");
    LATHE_TRY(out.emplace_back(), read_tensor(set + "/" + stem + "_" + std::to_string(i) + ".pb", ports[i]));
  }
  return out;
}

std::vector<double> numbers_of(const ConstTensor& t) {
  if (t.dtype == DType::kF32) {
    const auto values = t.bytes.as<float>();
    return {values.begin(), values.end()};
  }
  const auto values = t.ints();
  return {values.begin(), values.end()};
}

// What import asks for: every input that a reason names, or, where it names a value that is computed from inputs, all small
// integer inputs. False if nothing new can be fixed.
bool fix_inputs(const ImportReport& report, const CaseModel& m, const std::vector<ConstTensor>& values, ImportOptions* options) {
  const auto fix = [&](size_t i) { return options->constants.emplace(m.inputs[i].name, numbers_of(values[i])).second; };
  bool changed = false;
  for (const UnsupportedItem& item : report.unsupported) {
    const bool wants_const = item.reason.find("--const") != std::string::npos;
    if (item.reason.find("--shape") != std::string::npos)
      for (size_t i = 0; i < m.inputs.size(); ++i)
        if (!options->constants.contains(m.inputs[i].name))
          changed = options->shapes.emplace(m.inputs[i].name, values[i].dims).second || changed;
    bool named = false;
    for (size_t i = 0; wants_const && i < m.inputs.size(); ++i) {
      if (item.reason.find("'" + m.inputs[i].name + "'") == std::string::npos) continue;
      changed = fix(i) || changed;
      named = true;
    }
    for (size_t i = 0; wants_const && !named && i < m.inputs.size(); ++i)
      if (values[i].dtype != DType::kF32 && values[i].elems() <= kMaxFixedElems) changed = fix(i) || changed;
  }
  for (const auto& [name, unused] : options->constants) options->shapes.erase(name);
  return changed;
}

// The graph, imported as a user would: with as little fixed as it takes.
Result<Graph> import_case(const CaseModel& m, const std::string& folder, const std::vector<ConstTensor>& values,
                          CaseResult* result) {
  ImportOptions options;
  for (int i = 0;; ++i) {
    ImportReport report;
    auto graph = import_onnx(OnnxSource{m.file, m.bytes(), folder}, options, &report);
    result->fixed = !options.constants.empty() || !options.shapes.empty();
    if (graph || graph.error().code != Code::kUnsupported) return graph;
    if (i + 1 < kMaxImports && fix_inputs(report, m, values, &options)) continue;
    if (report.unsupported.empty()) return graph;
    if (!report.unsupported[0].op.empty()) result->op = report.unsupported[0].op;
    return unsupported(report.unsupported[0].reason);
  }
}

Result<void> load_inputs(Runner& runner, const CaseModel& m, const std::vector<ConstTensor>& values) {
  const auto& names = runner.program().input_names;
  std::vector<const ConstTensor*> by_port;
  std::vector<Shape> shapes;
  for (const std::string& name : names) {
    const auto port = std::find_if(m.inputs.begin(), m.inputs.end(), [&](const Port& p) { return p.name == name; });
    if (port == m.inputs.end()) return fail(Code::kInvalidArgument, "the program has an input '" + name + "' of its own");
    by_port.push_back(&values[static_cast<size_t>(port - m.inputs.begin())]);
    Shape& s = shapes.emplace_back();
    s.rank = static_cast<uint32_t>(by_port.back()->dims.size());
    for (uint32_t a = 0; a < s.rank; ++a) s.dims[a] = static_cast<int32_t>(by_port.back()->dims[a]);
  }
  LATHE_CHECK_OK(runner.bind(shapes));
  for (size_t i = 0; i < by_port.size(); ++i) LATHE_CHECK_OK(copy_tensor(*by_port[i], runner.input_tensor(i), runner.input(i)));
  return {};
}

Result<void> run_data_set(const CaseModel& m, const std::string& folder, const std::string& set, const CaseOptions& o,
                          CaseResult* result) {
  LATHE_TRY(const auto inputs, read_tensors(set, "input", m.inputs));
  LATHE_TRY(const Graph graph, import_case(m, folder, inputs, result));
  LATHE_TRY(const auto expected, read_tensors(set, "output", m.outputs));
  LATHE_TRY(const auto program, compile_for_host(graph));
  LATHE_TRY(Runner runner, Runner::create(program, o.session));
  LATHE_CHECK_OK(load_inputs(runner, m, inputs));
  LATHE_CHECK_OK(runner.run());
  if (runner.output_count() != expected.size())
    return fail(Code::kInvalidArgument,
                "it has " + std::to_string(runner.output_count()) + " outputs, expected " + std::to_string(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    const Computed computed{runner.output_tensor(i).dtype, (runner.output_tensor(i).flags & kTensorHasQuant) != 0,
                            runner.output_shape(i), runner.output(i)};
    auto same = compare_output(computed, expected[i], m.outputs[i].elem_type, o.shown_values);
    if (!same) return tl::unexpected(with_context(std::move(same.error()), "output '" + m.outputs[i].name + "'"));
  }
  return {};
}

Result<void> run_data_sets(const std::string& folder, const CaseOptions& o, CaseResult* result) {
  LATHE_TRY(const CaseModel model, read_case_model(folder));
  result->op = model.op;
  for (int i = 0;; ++i) {
    const std::string set = folder + "/test_data_set_" + std::to_string(i);
    if (!fs::is_directory(set)) return {};
    LATHE_CHECK_OK(run_data_set(model, folder, set, o, result));
  }
}

bool is_case(const fs::path& folder) { return fs::exists(folder / "model.onnx") && fs::is_directory(folder / "test_data_set_0"); }

}  // namespace

Result<std::vector<std::string>> find_cases(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> out;
  if (!fs::is_directory(folder, error)) return fail(Code::kIo, folder + ": is no folder");
  if (is_case(folder)) return std::vector<std::string>{folder};
  for (fs::recursive_directory_iterator it(folder, error), end; it != end; it.increment(error)) {
    if (error) return fail(Code::kIo, folder + ": " + error.message());
    if (!it->is_directory(error) || !is_case(it->path())) continue;
    out.push_back(it->path().string());
    it.disable_recursion_pending();
  }
  std::sort(out.begin(), out.end());
  if (out.empty()) return fail(Code::kInvalidArgument, folder + ": holds no case (model.onnx beside test_data_set_0)");
  return out;
}

CaseResult run_case(const std::string& folder, const CaseOptions& options) {
  CaseResult result;
  const auto ok = run_data_sets(folder, options, &result);
  result.outcome = ok ? Outcome::kPassed : ok.error().code == Code::kUnsupported ? Outcome::kUnsupported : Outcome::kFailed;
  if (!ok) result.reason = ok.error().message;
  return result;
}

}  // namespace lathe::tools
