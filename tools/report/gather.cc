#include "tools/report/gather.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "graph/pass.h"
#include "quant/layer_noise.h"
#include "runtime/host/cpu.h"
#include "tools/calibration.h"
#include "tools/measured_model.h"
#include "tools/timing.h"

namespace lathe::tools {
namespace {

// A model bound at batch 1.
struct Opened {
  HostModel model;
  Runner runner;
};

Result<Opened> open(const std::string& path, const ReportRequest& r, const SessionOptions& session) {
  MeasureFlags flags;
  flags.model = path;
  flags.import = r.import;
  LATHE_TRY(HostModel model, load_host_model(path, r.import));
  LATHE_TRY(Runner runner, make_runner(flags, model, session));
  return Opened{std::move(model), std::move(runner)};
}

ReportSide describe(const std::string& path, Opened& opened, const std::vector<double>& us) {
  ReportSide side;
  side.path = path;
  const HostSession& session = opened.runner.session();
  const Program& program = opened.model.program->program;
  std::error_code error;
  side.file_bytes = std::filesystem::file_size(path, error);
  side.arena_bytes = session.arena_bytes();
  for (uint32_t t = 0; t < program.tensor_count(); ++t)
    if (program.tensor(t).kind == TensorKind::kConstant) side.parameter_bytes += program.tensor(t).stored_bytes;
  for (uint32_t s = 0; s < program.step_count(); ++s) side.macs += session.step_macs(s);
  side.p50_us = percentile(us, 0.5);
  side.p99_us = percentile(us, 0.99);
  return side;
}

LayerPrecision precision_of(const Program& program, const ProgramStep& step) {
  if (step.n_in == 0 || program.input(step, 0) == kNoTensor) return LayerPrecision::kOther;
  switch (program.tensor(program.input(step, 0)).dtype) {
    case DType::kS8:
    case DType::kU8: return LayerPrecision::kInt8;
    case DType::kF16: return LayerPrecision::kHalf;
    case DType::kF32: return LayerPrecision::kFloat;
    default: return LayerPrecision::kOther;
  }
}

// Rows of the profile in the order of the program.
Result<std::vector<ReportLayer>> profile(Opened& opened, double seconds) {
  Profiler profiler(opened.runner.session(), *opened.model.program);
  LATHE_CHECK_OK(profile_runs(opened.runner, profiler, seconds));
  std::map<std::string, ProfileRow> rows;
  for (ProfileRow& row : profiler.rows(ProfileBy::kNode)) rows.emplace(row.name, std::move(row));
  const LoadedProgram& loaded = *opened.model.program;
  std::vector<ReportLayer> layers;
  for (uint32_t s = 0; s < loaded.program.step_count(); ++s) {
    if (s >= loaded.step_names.size()) break;  // a stripped file has no names
    const auto row = rows.find(loaded.step_names[s]);
    if (row == rows.end()) continue;
    layers.push_back({row->second.name, row->second.op, precision_of(loaded.program, loaded.program.step(s)), row->second.p50_ns / 1e3,
                      row->second.share, row->second.macs, {}});
    rows.erase(row);  // a node of several steps is one row, where its first one stands
  }
  return layers;
}

Result<void> add_noise(const ReportRequest& r, Graph changed, const Dataset& data, const DataSplit& split,
                       const SessionOptions& session, Report* report) {
  LATHE_TRY(Graph reference, load_graph(r.baseline, r.import));
  LATHE_CHECK_OK(run_passes(reference, lowering_passes()));
  LATHE_CHECK_OK(run_passes(changed, lowering_passes()));
  LATHE_TRY(auto matching, match_inputs(graph_inputs(changed), changed.metadata, data));
  const SampleSource source = first_samples(split, std::move(matching), r.noise_samples);
  report->noise_samples = source.count;
  LATHE_TRY(const std::vector<LayerNoise> noise, layer_noise(reference, changed, source, session));
  std::map<std::string, double> by_node;
  for (const LayerNoise& n : noise) by_node[n.node] = n.sqnr_db;
  for (ReportLayer& layer : report->layers)
    if (const auto it = by_node.find(layer.name); it != by_node.end()) layer.sqnr_db = it->second;
  return {};
}

Result<void> add_accuracy(const ReportRequest& r, Graph graph, const Opened& model, const Opened* baseline,
                          const SessionOptions& session, Report* report) {
  LATHE_TRY(const Dataset data, Dataset::load(r.data));
  LATHE_TRY(const ChosenSplit chosen, data.for_report());
  EvalRequest request;
  LATHE_TRY(request.metric, parse_metric(r.metric));
  request.limit = r.limit;
  request.session = session;
  LATHE_TRY(const ModelScores scores, score_model(model.model, r.model, data, *chosen.split, request));
  std::optional<ModelScores> reference;
  if (baseline != nullptr) {
    LATHE_TRY(reference, score_model(baseline->model, r.baseline, data, *chosen.split, request));
  }
  report->accuracy = make_report(request.metric, *chosen.split, scores, reference ? &*reference : nullptr);
  report->split = chosen.split->name();
  return baseline == nullptr ? Result<void>() : add_noise(r, std::move(graph), data, *chosen.split, session, report);
}

std::optional<double> number_of(const Tree& row, std::string_view key) {
  double v = 0;
  const Tree* found = row.find(key);
  return found != nullptr && found->as_number(&v) ? std::optional(v) : std::nullopt;
}

Result<std::vector<SensitiveLayer>> read_sensitivity(const std::string& path) {
  LATHE_TRY(const std::string text, read_text_file(path));
  LATHE_TRY(const Tree tree, parse_json(text, path));
  const Tree* layers = tree.find("layers");
  if (layers == nullptr || layers->as_array() == nullptr)
    return fail(Code::kInvalidArgument, path + ": not what `lathe sensitivity --json` prints: no list 'layers'");
  std::vector<SensitiveLayer> out;
  for (const Tree& row : *layers->as_array()) {
    const Tree *name = row.find("layer"), *keep = row.find("keep");
    if (name == nullptr || name->as_string() == nullptr)
      return fail(Code::kInvalidArgument, path + ":" + std::to_string(row.line()) + ": a layer without a name");
    out.push_back({*name->as_string(), number_of(row, "output_db"), number_of(row, "drop_alone"),
                   keep != nullptr && keep->as_bool() != nullptr && *keep->as_bool()});
  }
  return out;
}

}  // namespace

const char* precision_name(LayerPrecision precision) {
  constexpr const char* kNames[] = {"INT8", "FP16", "FP32", "other"};
  return kNames[static_cast<size_t>(precision)];
}

Result<Report> gather_report(const ReportRequest& r) {
  Report report;
  LATHE_TRY(const SessionOptions session, r.session.options());
  report.isa = isa_text(session.isa);
  report.threads = session.threads;
  if (!r.sensitivity.empty()) {
    LATHE_TRY(report.sensitivity, read_sensitivity(r.sensitivity));
  }
  LATHE_TRY(ModelFile file, load_model(r.model, r.import));
  LATHE_TRY(Opened model, open(r.model, r, session));
  std::optional<Opened> baseline;
  std::vector<Runner*> runners{&model.runner};
  if (!r.baseline.empty()) {
    LATHE_TRY(baseline, open(r.baseline, r, session));
    runners.push_back(&baseline->runner);
  }
  LATHE_TRY(const auto us, measure(runners, r.seconds));
  report.model = describe(r.model, model, us[0]);
  if (baseline) report.baseline = describe(r.baseline, *baseline, us[1]);
  LATHE_TRY(report.layers, profile(model, r.seconds));
  report.metadata = file.graph.metadata;
  report.calibration = std::move(file.calib);
  if (!r.data.empty())
    LATHE_CHECK_OK(add_accuracy(r, std::move(file.graph), model, baseline ? &*baseline : nullptr, session, &report));
  return report;
}

}  // namespace lathe::tools
