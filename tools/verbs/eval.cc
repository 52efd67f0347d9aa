// lathe eval: how good a model is on a data set's test split, overall and per group, alone or beside a baseline.
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "data/metrics.h"
#include "tools/evaluation.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, data, metric = "accuracy", baseline, command;
  uint64_t limit = 0;
  uint32_t batch = 0;
  std::optional<double> max_drop, max_group_drop;
  bool json = false;
  SessionFlags session;
  ImportFlags import;
};

struct Evaluation {
  EvalReport report;
  std::optional<ClassificationScore> classes;  // where the metric judges by class
  std::optional<double> command, command_baseline;
  std::string split, note;
};

std::optional<ClassificationScore> by_class(const Metric& metric, const Dataset& data, const ModelScores& scores) {
  if (metric.kind != MetricKind::kAccuracy && metric.kind != MetricKind::kMacroF1 && metric.kind != MetricKind::kTopK) return {};
  ClassificationScore out(static_cast<uint32_t>(data.classes().size()));
  for (const SampleScore& s : scores.samples) out.add(static_cast<uint32_t>(s.label), s.predicted);
  return out;
}

Result<Evaluation> evaluate(const Options& o, const Dataset& data) {
  EvalRequest request;
  LATHE_TRY(request.metric, parse_metric(o.metric));
  LATHE_TRY(request.session, o.session.options());
  request.limit = o.limit;
  request.batch = o.batch;
  request.keep_outputs = !o.command.empty();
  LATHE_TRY(const ChosenSplit chosen, data.for_report());
  const auto score = [&](const std::string& path) -> Result<ModelScores> {
    LATHE_TRY(const HostModel model, load_host_model(path, o.import));
    return score_model(model, path, data, *chosen.split, request);
  };
  LATHE_TRY(const ModelScores scores, score(o.model));
  std::optional<ModelScores> baseline;
  if (!o.baseline.empty()) {
    LATHE_TRY(baseline, score(o.baseline));
  }
  Evaluation e{make_report(request.metric, *chosen.split, scores, baseline ? &*baseline : nullptr),
               by_class(request.metric, data, scores), {}, {}, chosen.split->name(), chosen.note};
  if (o.command.empty()) return e;
  LATHE_TRY(e.command, run_metric_command(o.command, *chosen.split, scores));
  if (baseline) {
    LATHE_TRY(e.command_baseline, run_metric_command(o.command, *chosen.split, *baseline));
  }
  return e;
}

// JSON has no NaN.
Tree number_json(double v) { return std::isfinite(v) ? Tree(v) : Tree(); }
Tree interval_json(const Interval& i) { return Tree(Tree::array().push(number_json(i.low)).push(number_json(i.high))); }

void set_row(Tree* to, const FigureRow& row, const EvalReport& report) {
  const std::string name = report.metric.name();
  to->set("samples", row.samples).set(name, number_json(row.value)).set(name + "_95", interval_json(row.interval)).set("few", row.few);
  if (report.has_baseline)
    to->set("baseline", number_json(row.reference)).set("drop", number_json(row.drop)).set("p", number_json(row.p));
}

void print_json(const Evaluation& e, const Dataset& data) {
  Tree groups = Tree::table(), out = Tree::table();
  for (const FigureRow& row : e.report.groups) {
    Tree g = Tree::table();
    set_row(&g, row, e.report);
    groups.set(row.name, std::move(g));
  }
  set_row(&out, e.report.all, e.report);
  out.set("split", e.split).set("metric", e.report.metric.name()).set("groups", std::move(groups));
  if (e.report.worst) out.set("worst_group", e.report.groups[*e.report.worst].name);
  if (e.classes) {
    Tree confusion = Tree::array(), classes = Tree::array();
    for (uint32_t r = 0; r < e.classes->classes(); ++r) {
      Tree row = Tree::array();
      for (uint32_t c = 0; c < e.classes->classes(); ++c) row.push(e.classes->confusion(r, c));
      confusion.push(std::move(row));
      classes.push(data.classes()[r]);
    }
    out.set("macro_f1", e.classes->macro_f1()).set("classes", std::move(classes)).set("confusion", std::move(confusion));
  }
  if (e.command) out.set("command", *e.command);
  if (e.command_baseline) out.set("command_baseline", *e.command_baseline);
  std::printf("%s\n", to_json(out).c_str());
}

std::string number_text(const char* format, double v) {
  char text[32];
  std::snprintf(text, sizeof text, format, v);
  return text;
}

void print_confusion(const ClassificationScore& score, const Dataset& data) {
  std::vector<std::string> headers{"true \\ predicted"};
  for (const std::string& c : data.classes()) headers.push_back(c);
  Table confusion(headers);
  for (uint32_t r = 0; r < score.classes(); ++r) {
    std::vector<std::string> cells{data.classes()[r]};
    for (uint32_t c = 0; c < score.classes(); ++c) cells.push_back(std::to_string(score.confusion(r, c)));
    confusion.add(std::move(cells));
  }
  std::printf("\n%s", confusion.text().c_str());
}

void print_groups(const EvalReport& report) {
  const std::string name = report.metric.name();
  std::vector<std::string> headers{"group", "samples", name, "95 % interval"};
  if (report.has_baseline) headers.insert(headers.end(), {"baseline", "drop", "p"});
  headers.push_back("");
  Table table(headers);
  for (const FigureRow& row : report.groups) {
    std::vector<std::string> cells{row.name, std::to_string(row.samples), value_text(report.metric, row.value),
                                   value_text(report.metric, row.interval.low) + " to " + value_text(report.metric, row.interval.high)};
    if (report.has_baseline)
      cells.insert(cells.end(), {value_text(report.metric, row.reference), number_text("%.2f", row.drop), number_text("%.3f", row.p)});
    cells.push_back(row.few ? "few samples: noise" : "");
    table.add(std::move(cells));
  }
  std::printf("\n%s", table.text().c_str());
  if (report.worst) std::printf("worst group: %s\n", report.groups[*report.worst].name.c_str());
}

void print_text(const Evaluation& e, const Dataset& data) {
  if (!e.note.empty()) std::printf("note: %s\n", e.note.c_str());
  const Metric& metric = e.report.metric;
  const FigureRow& all = e.report.all;
  std::printf("%llu samples of split '%s'\n%s %s (95 %% interval %s to %s)", static_cast<unsigned long long>(all.samples),
              e.split.c_str(), metric.name().c_str(), value_text(metric, all.value).c_str(),
              value_text(metric, all.interval.low).c_str(), value_text(metric, all.interval.high).c_str());
  if (e.classes && metric.kind != MetricKind::kMacroF1) std::printf(", macro F1 %.4f", e.classes->macro_f1());
  std::printf("\n");
  if (e.report.has_baseline)
    std::printf("baseline %s, drop %.2f %s, p = %.3f\n", value_text(metric, all.reference).c_str(), all.drop,
                metric.is_share() ? "points" : "percent", all.p);
  if (all.few)
    std::printf("note: fewer than %llu samples: differences of this size are noise\n", static_cast<unsigned long long>(kFewSamples));
  if (e.command) std::printf("metric command: %.6g\n", *e.command);
  if (e.command_baseline) std::printf("metric command on the baseline: %.6g\n", *e.command_baseline);
  if (e.classes) print_confusion(*e.classes, data);
  if (!e.report.groups.empty()) print_groups(e.report);
}

Result<void> run(const Options& o) {
  if ((o.max_drop || o.max_group_drop) && o.baseline.empty())
    return fail(Code::kInvalidArgument, "--max-drop and --max-group-drop compare with a model that --baseline names");
  LATHE_TRY(const Dataset data, Dataset::load(o.data));
  LATHE_TRY(const Evaluation e, evaluate(o, data));
  if (o.json)
    print_json(e, data);
  else
    print_text(e, data);
  return check_gates(e.report, {o.max_drop, o.max_group_drop});
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file").required();
  args.option("--data", o->data, "data set (TOML); reads its split test").required();
  args.option("--metric", o->metric, "accuracy, top-K, macro-f1, auc, mse, perplexity, recall@K or ndcg@K").show_default();
  args.option("--baseline", o->baseline, "a model to compare with on the same samples");
  args.option("--max-drop", o->max_drop,
              "gate: how much worse than the baseline at most, in percentage points (percent for mse and perplexity)");
  args.option("--max-group-drop", o->max_group_drop, "gate: the same for every group of 30 samples or more");
  args.option("--metric-cmd", o->command,
              "a command that gets an .npz file (outputs, and labels or targets) as last argument and prints one number");
  args.option("--limit", o->limit, "samples at most, from the start of the split; 0: all").show_default();
  args.option("--batch", o->batch, "samples per run; 0: 16 where the model leaves it open, else 1").show_default();
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_eval{"eval", "evaluate a model on a data set, overall and per group",
                      "lathe eval int8.lathe --data set.toml --baseline float.lathe --max-drop 0.5 --max-group-drop 1", setup};

}  // namespace lathe::tools
