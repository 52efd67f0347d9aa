// Models judged on a split: scores, figures by group, the difference to a baseline, and gates.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/evaluation.h"
#include "tools/data_binding.h"
#include "tools/model.h"

namespace lathe::tools {

// A figure of fewer samples than these is marked as noise.
inline constexpr uint64_t kFewSamples = 300, kFewInGroup = 30;

struct EvalRequest {
  Metric metric;
  uint64_t limit = 0;  // 0: all samples
  uint32_t batch = 0;
  SessionOptions session;
  bool keep_outputs = false;
  std::string progress = "evaluating";  // empty: nothing
};

// Whether a split has the labels or targets that the metric judges by.
Result<void> check_metric(const Metric& metric, const Dataset& data, const DataSplit& split);

struct ModelScores {
  std::vector<SampleScore> samples;
  HostTensor outputs;  // f32, [samples, values of the first output]; empty unless they are kept
};

// `name` opens errors: a split without what the metric needs, data that does not fit the model, score_sample()'s with the sample.
Result<ModelScores> score_model(const HostModel& model, const std::string& name, const Dataset& data, const DataSplit& split,
                                const EvalRequest& request);

// The same of a graph, lowered for this host.
Result<ModelScores> score_graph(const Graph& graph, const std::string& name, const Dataset& data, const DataSplit& split,
                                const EvalRequest& request);

struct FigureRow {
  std::string name;  // "column=value"; empty: all samples
  uint64_t samples = 0;
  double value = 0;
  Interval interval = {};
  bool few = false;
  // With a baseline: its figure, how much worse ours is (Metric::drop) and the probability of that by chance.
  double reference = 0, drop = 0, p = 1;
};

struct EvalReport {
  Metric metric;
  bool has_baseline = false;
  FigureRow all;
  std::vector<FigureRow> groups;  // by name
  // Of the groups that are not few: the one with the worst figure, or with the largest drop if there is a baseline.
  std::optional<size_t> worst;
};

// `baseline` may be null. Intervals and probabilities cost up to 1,000 times what figures do and may be left out.
EvalReport make_report(const Metric& metric, const DataSplit& split, const ModelScores& scores, const ModelScores* baseline,
                       bool with_uncertainty = true);

// What report.worst should be, from its groups.
std::optional<size_t> worst_group(const EvalReport& report);

// "93.02 %", or the number of an error or perplexity.
std::string value_text(const Metric& metric, double value);

struct Gates {
  std::optional<double> max_drop, max_group_drop;  // percentage points of a share, percent of an error or perplexity
};
// Fails with one line per gate that does not hold; groups of few samples do not count.
Result<void> check_gates(const EvalReport& report, const Gates& gates);

// Runs `command` with the path of an .npz file as its last argument (arrays `outputs`, and `labels` or `targets` where the split has
// them) and returns the number that it prints. Errors: it fails, or prints something else.
Result<double> run_metric_command(const std::string& command, const DataSplit& split, const ModelScores& scores);

}  // namespace lathe::tools
