#include "tools/evaluation.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>

#include "base/file.h"
#include "data/npy.h"
#include "graph/lower/load.h"

namespace lathe::tools {
namespace {

// Makes the rows of a report.
struct RowMaker {
  const Metric& metric;
  const ModelScores& scores;
  const ModelScores* baseline;
  bool with_uncertainty;

  FigureRow make(std::string name, std::span<const uint32_t> which, uint64_t few) const {
    FigureRow row{std::move(name), which.size(), figure(metric, scores.samples, which)};
    row.few = which.size() < few;
    if (with_uncertainty) row.interval = interval95(metric, scores.samples, which);
    if (baseline == nullptr) return row;
    row.reference = figure(metric, baseline->samples, which);
    row.drop = metric.drop(row.reference, row.value);
    if (with_uncertainty) row.p = paired_p(metric, baseline->samples, scores.samples, which);
    return row;
  }
};

std::string gate_line(const Metric& metric, const FigureRow& row, double limit) {
  char text[160];
  std::snprintf(text, sizeof text, "%s fell by %.2f %s (%.4g to %.4g), at most %.2f is allowed", metric.name().c_str(), row.drop,
                metric.is_share() ? "points" : "percent", row.reference, row.value, limit);
  return (row.name.empty() ? "" : "group " + row.name + ": ") + text;
}

HostTensor integers(const DataSplit& split, uint64_t count) {
  HostTensor t{DType::kS32, {static_cast<int64_t>(count)}, std::vector<std::byte>(count * sizeof(int32_t))};
  for (uint64_t i = 0; i < count; ++i) t.as<int32_t>()[i] = split.label(i);
  return t;
}

HostTensor targets(const DataSplit& split, uint64_t count) {
  const size_t row = split.target(0).size();
  HostTensor t{DType::kF32, {static_cast<int64_t>(count), static_cast<int64_t>(row)}, std::vector<std::byte>(count * row * sizeof(float))};
  for (uint64_t i = 0; i < count; ++i) std::copy_n(split.target(i).begin(), row, t.as<float>().begin() + static_cast<ptrdiff_t>(i * row));
  return t;
}

// A folder that lives as long as the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "lathe-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // empty if there is none

 private:
  std::string path_;
};

// What a shell command prints; its path argument is quoted.
Result<std::string> output_of(const std::string& command, const std::string& path) {
  FILE* pipe = ::popen((command + " '" + path + "'").c_str(), "r");
  if (pipe == nullptr) return fail(Code::kIo, "cannot run '" + command + "': " + errno_text(errno));
  std::string text;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  if (const int status = ::pclose(pipe); status != 0)
    return fail(Code::kInvalidArgument, "'" + command + "' ended with status " + std::to_string(status));
  return text;
}

}  // namespace

Result<void> check_metric(const Metric& metric, const Dataset& data, const DataSplit& split) {
  const std::string where = data.description().path + ": split '" + split.name() + "' has no ";
  if (metric.wants_label() && !split.has_labels())
    return fail(Code::kInvalidArgument,
                where + "labels, which " + metric.name() + " needs; `lathe check` compares two models without them");
  if (!metric.wants_label() && !split.has_targets())
    return fail(Code::kInvalidArgument, where + "targets, which " + metric.name() + " needs");
  return {};
}

Result<ModelScores> score_model(const HostModel& model, const std::string& name, const Dataset& data, const DataSplit& split,
                                const EvalRequest& request) {
  LATHE_CHECK_OK(check_metric(request.metric, data, split));
  LATHE_TRY(const auto matching, match_inputs(model_inputs(*model.program), model.metadata, data));
  LATHE_TRY(Runner runner, Runner::create(model.program, request.session));
  const size_t classes = request.metric.wants_label() && request.metric.kind != MetricKind::kAuc ? data.classes().size() : 0;
  ModelScores scores;
  std::vector<float> kept;
  const auto sink = [&](uint64_t i, const std::vector<std::span<const float>>& outputs) -> Result<void> {
    if (outputs[0].size() < classes)
      return fail(Code::kInvalidArgument, name + ": the first output has " + std::to_string(outputs[0].size()) +
                                              " values per sample, the data set has " + std::to_string(classes) + " classes");
    auto scored = score_sample(request.metric, outputs[0], split.has_labels() ? split.label(i) : 0,
                               split.has_targets() ? split.target(i) : std::span<const float>{});
    if (!scored) return tl::unexpected(with_context(std::move(scored.error()), name + ": " + split.where(i)));
    scores.samples.push_back(*scored);
    if (request.keep_outputs) kept.insert(kept.end(), outputs[0].begin(), outputs[0].end());
    return {};
  };
  const PredictOptions options{.limit = request.limit, .batch = request.batch, .progress = request.progress};
  LATHE_CHECK_OK(predict(runner, data, split, matching, options, sink));
  if (kept.empty()) return scores;
  const size_t count = scores.samples.size();
  scores.outputs = {DType::kF32, {static_cast<int64_t>(count), static_cast<int64_t>(kept.size() / count)}, {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(kept.data());
  scores.outputs.bytes.assign(bytes, bytes + kept.size() * sizeof(float));
  return scores;
}

Result<ModelScores> score_graph(const Graph& graph, const std::string& name, const Dataset& data, const DataSplit& split,
                                const EvalRequest& request) {
  LATHE_TRY(auto program, compile_for_host(graph));
  return score_model({std::move(program), graph.metadata, 0}, name, data, split, request);
}

EvalReport make_report(const Metric& metric, const DataSplit& split, const ModelScores& scores, const ModelScores* baseline,
                       bool with_uncertainty) {
  const RowMaker rows{metric, scores, baseline, with_uncertainty};
  EvalReport report;
  report.metric = metric;
  report.has_baseline = baseline != nullptr;
  std::vector<uint32_t> all(scores.samples.size());
  std::iota(all.begin(), all.end(), 0u);
  report.all = rows.make("", all, kFewSamples);
  std::map<std::string, std::vector<uint32_t>> members;
  for (const GroupColumn& column : split.groups())
    for (const uint32_t i : all) members[column.name + "=" + column.values[i]].push_back(i);
  for (const auto& [name, which] : members) report.groups.push_back(rows.make(name, which, kFewInGroup));
  report.worst = worst_group(report);
  return report;
}

std::optional<size_t> worst_group(const EvalReport& report) {
  std::optional<size_t> worst;
  const auto badness = [&](const FigureRow& r) { return report.has_baseline ? r.drop : report.metric.is_share() ? -r.value : r.value; };
  for (size_t i = 0; i < report.groups.size(); ++i) {
    const FigureRow& row = report.groups[i];
    if (row.few || std::isnan(badness(row))) continue;
    if (!worst || badness(row) > badness(report.groups[*worst])) worst = i;
  }
  return worst;
}

std::string value_text(const Metric& metric, double v) {
  char text[32];
  std::snprintf(text, sizeof text, metric.is_share() ? "%.2f %%" : "%.6g", metric.is_share() ? 100 * v : v);
  return text;
}

Result<void> check_gates(const EvalReport& report, const Gates& gates) {
  std::vector<std::string> lines;
  // A drop that cannot be told holds no gate.
  const auto holds = [](const FigureRow& row, double limit) { return row.drop <= limit; };
  if (gates.max_drop && !holds(report.all, *gates.max_drop)) lines.push_back(gate_line(report.metric, report.all, *gates.max_drop));
  for (const FigureRow& row : report.groups)
    if (gates.max_group_drop && !row.few && !holds(row, *gates.max_group_drop))
      lines.push_back(gate_line(report.metric, row, *gates.max_group_drop));
  if (lines.empty()) return {};
  std::string text = std::to_string(lines.size()) + (lines.size() == 1 ? " gate does" : " gates do") + " not hold:";
  for (const std::string& line : lines) text += "\n  " + line;
  return fail(Code::kInvalidArgument, text);
}

Result<double> run_metric_command(const std::string& command, const DataSplit& split, const ModelScores& scores) {
  const uint64_t count = scores.samples.size();
  std::vector<NamedTensor> arrays{{"outputs", scores.outputs}};
  if (split.has_labels()) arrays.push_back({"labels", integers(split, count)});
  if (split.has_targets()) arrays.push_back({"targets", targets(split, count)});
  const ScratchFolder folder;
  if (folder.path().empty()) return fail(Code::kIo, "cannot make a temporary folder: " + errno_text(errno));
  const std::string path = folder.path() + "/predictions.npz";
  LATHE_CHECK_OK(write_npz(path, arrays));
  LATHE_TRY(const std::string text, output_of(command, path));
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || std::strspn(end, " \t\r\n") != std::strlen(end) || !std::isfinite(value))
    return fail(Code::kInvalidArgument, "'" + command + "' printed '" + text.substr(0, 60) + "', which is not one number");
  return value;
}

}  // namespace lathe::tools
