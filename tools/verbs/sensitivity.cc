// lathe sensitivity: which layers a quantization hurts, one by one, and which should stay float.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/progress.h"
#include "graph/pass.h"
#include "quant/sensitivity.h"
#include "tools/bar_chart.h"
#include "tools/calibration.h"
#include "tools/evaluation.h"
#include "tools/keep_list.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, metric = "accuracy", keep_file, picture;
  uint64_t limit = 512;
  double min_drop = 0.2;
  bool per_tensor = false, json = false;
  CalibrationFlags calibration;
  SessionFlags session;
  ImportFlags import;
};

// What INT8 for a layer does to the metric.
struct MetricDrop {
  double all = 0;
  std::string worst_group;  // empty without groups of enough samples
  double worst = 0;
};

struct Row {
  Layer layer;
  LayerError error;
  MetricDrop alone, gained;  // gained: how much less all of INT8 drops when this layer stays float
  bool keep = false;
};

struct Study {
  std::vector<Row> rows;
  bool has_metric = false, by_metric = false;  // by_metric: it decided what to keep
  double all_drop = 0;  // of everything in INT8
  uint64_t samples = 0;
  std::string split, note;
};

// Everything that the measurements of one model share.
class Bench {
 public:
  Bench(const Options& o, const Dataset& data, const DataSplit& split, const SessionOptions& session, Graph graph, RangeTable ranges)
      : options_(o), data_(data), split_(split), graph_(std::move(graph)), ranges_(std::move(ranges)) {
    request_.session = session;
    request_.limit = o.limit;
    request_.progress = "";
    quantize_.per_channel = !o.per_tensor;
  }

  Result<Study> run() {
    LATHE_TRY(request_.metric, parse_metric(options_.metric));
    LATHE_TRY(auto matching, match_inputs(graph_inputs(graph_), graph_.metadata, data_));
    source_ = first_samples(split_, std::move(matching), options_.limit);
    Study study;
    study.has_metric = request_.metric.wants_label() ? split_.has_labels() : split_.has_targets();
    study.samples = source_.count;
    study.split = split_.name();
    LATHE_TRY(const std::vector<Layer> layers, int8_layers(graph_, quantize_));
    if (study.has_metric) {
      LATHE_TRY(baseline_, score(graph_));
      LATHE_TRY(const QuantizeResult all, quantize_graph(graph_, ranges_, quantize_));
      LATHE_TRY(const MetricDrop drop, drop_of(all.graph));
      study.all_drop = drop.all;
    }
    LATHE_TRY(reference_, SampleRunner::create(graph_, request_.session));
    Progress progress("measuring layers", layers.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      LATHE_TRY(study.rows.emplace_back(), measure(layers, i, study));
      progress.update(i + 1);
    }
    choose(&study);
    return study;
  }

 private:
  Result<ModelScores> score(const Graph& graph) {
    return score_graph(graph, options_.model, data_, split_, request_);
  }

  Result<MetricDrop> drop_of(const Graph& graph) {
    LATHE_TRY(const ModelScores scores, score(graph));
    const EvalReport report = make_report(request_.metric, split_, scores, &baseline_, false);
    MetricDrop drop{report.all.drop, "", 0};
    if (report.worst) {
      drop.worst_group = report.groups[*report.worst].name;
      drop.worst = report.groups[*report.worst].drop;
    }
    return drop;
  }

  Result<Row> measure(const std::vector<Layer>& layers, size_t i, const Study& study) {
    Row row{layers[i], {}, {}, {}, false};
    LATHE_TRY(const QuantizeResult alone, quantize_isolated(graph_, ranges_, quantize_, layers, i, Isolation::kAlone));
    LATHE_TRY(row.error, layer_error(graph_, *reference_, alone.graph, layers[i], source_, request_.session));
    if (!study.has_metric) return row;
    LATHE_TRY(row.alone, drop_of(alone.graph));
    LATHE_TRY(const QuantizeResult without, quantize_isolated(graph_, ranges_, quantize_, layers, i, Isolation::kWithout));
    LATHE_TRY(row.gained, drop_of(without.graph));
    row.gained.all = study.all_drop - row.gained.all;
    return row;
  }

  // Sensitive: INT8 there costs the metric --min-drop, and more than one sample, alone or beside all others. Without labels, and
  // where there are too few samples to tell, a divergence of three times the mean decides.
  void choose(Study* study) const {
    double mean = 0;
    for (const Row& r : study->rows) mean += r.error.kl / static_cast<double>(study->rows.size());
    study->by_metric = study->has_metric && study->samples >= kFewSamples;
    const double least = std::max(options_.min_drop, 150.0 / static_cast<double>(study->samples));
    for (Row& r : study->rows)
      r.keep = study->by_metric ? r.alone.all >= least || r.gained.all >= least : r.error.kl > 3 * mean;
  }

  const Options& options_;
  const Dataset& data_;
  const DataSplit& split_;
  Graph graph_;
  RangeTable ranges_;
  QuantizeOptions quantize_;
  EvalRequest request_;
  SampleSource source_;
  ModelScores baseline_;
  std::optional<SampleRunner> reference_;  // of the float graph
};

std::string number(const char* format, double v) {
  char text[32];
  std::snprintf(text, sizeof text, format, v);
  return std::isfinite(v) ? text : std::isnan(v) ? "-" : "exact";
}

void print_text(const Study& s, const Options& o) {
  if (!s.note.empty()) std::printf("note: %s\n", s.note.c_str());
  std::vector<std::string> headers{"layer", "op", "MACs %", "local dB", "output dB", "KL"};
  if (s.has_metric) headers.insert(headers.end(), {"drop alone", "gain if float", "worst group"});
  headers.insert(headers.end(), {"", "keep"});
  Table table(headers);
  for (const Row& r : s.rows) {
    std::vector<std::string> cells{r.layer.name, r.layer.op, number("%.1f", 100 * r.layer.macs_share), number("%.1f", r.error.local_db),
                                   number("%.1f", r.error.propagated_db), number("%.2e", r.error.kl)};
    if (s.has_metric)
      cells.insert(cells.end(), {number("%.2f", r.alone.all), number("%.2f", r.gained.all),
                                 r.alone.worst_group.empty() ? "" : r.alone.worst_group + " " + number("%.2f", r.alone.worst)});
    cells.insert(cells.end(), {part_name(r.layer.part), r.keep ? "float" : ""});
    table.add(std::move(cells));
  }
  std::printf("%s", table.text().c_str());
  std::printf("%llu samples of split '%s'", static_cast<unsigned long long>(s.samples), s.split.c_str());
  if (s.has_metric) std::printf("; all layers in INT8 drop %s by %.2f", o.metric.c_str(), s.all_drop);
  std::printf("\n");
  if (s.has_metric && !s.by_metric)
    std::printf("note: fewer than %llu samples: drops are noise, the divergence decides\n", static_cast<unsigned long long>(kFewSamples));
}

void print_json(const Study& s) {
  Tree rows = Tree::array();
  for (const Row& r : s.rows) {
    Tree row = Tree::table();
    row.set("layer", r.layer.name).set("op", r.layer.op).set("macs_share", r.layer.macs_share).set("part", part_name(r.layer.part));
    if (std::isfinite(r.error.local_db)) row.set("local_db", r.error.local_db);
    if (std::isfinite(r.error.propagated_db)) row.set("output_db", r.error.propagated_db);
    row.set("kl", r.error.kl);
    if (s.has_metric) {
      row.set("drop_alone", r.alone.all).set("gain_if_float", r.gained.all);
      if (!r.alone.worst_group.empty()) row.set("worst_group", r.alone.worst_group).set("worst_group_drop", r.alone.worst);
    }
    rows.push(row.set("keep", r.keep));
  }
  Tree out = Tree::table();
  out.set("samples", s.samples).set("split", s.split);
  if (s.has_metric) out.set("drop", s.all_drop);
  std::printf("%s\n", to_json(out.set("layers", std::move(rows))).c_str());
}

// Noise at the outputs that each layer makes, relative to the signal.
std::string picture(const Study& s) {
  std::vector<Bar> bars;
  for (const Row& r : s.rows) {
    const double noise = std::isfinite(r.error.propagated_db) ? std::pow(10, -r.error.propagated_db / 10) : 0;
    std::string note = number("%.1f dB", r.error.propagated_db);
    if (s.has_metric) note += ", drop " + number("%.2f", r.alone.all);
    if (r.layer.part != LayerPart::kInner) note += std::string(", ") + part_name(r.layer.part);
    bars.push_back({r.layer.name, noise, note, r.keep});
  }
  return bar_chart("Sensitivity to INT8", "noise power at the outputs, relative to the signal, with that layer alone in INT8", bars);
}

Result<void> write_files(const Study& s, const Options& o) {
  if (!o.keep_file.empty()) {
    std::vector<std::string> names;
    for (const Row& r : s.rows)
      if (r.keep) names.push_back(r.layer.name);
    LATHE_CHECK_OK(write_file_atomic(o.keep_file, keep_file_text(names, "operators that INT8 hurts, by `lathe sensitivity`")));
  }
  return o.picture.empty() ? Result<void>{} : write_file_atomic(o.picture, picture(s));
}

Result<void> run(const Options& o) {
  for (const std::string& path : {o.keep_file, o.picture})
    if (!path.empty()) LATHE_CHECK_OK(check_writable(path));
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(ModelFile model, load_model(o.model, o.import));
  LATHE_CHECK_OK(run_passes(model.graph, lowering_passes()));
  LATHE_TRY(Ranges ranges, find_ranges(o.model, model, o.calibration, session));
  const Dataset data = std::move(ranges.run->data);
  LATHE_TRY(const ChosenSplit chosen, data.for_choices());
  store_preprocessing(data, &model.graph.metadata);
  Bench bench(o, data, *chosen.split, session, std::move(model.graph), std::move(ranges.table));
  LATHE_TRY(Study study, bench.run());
  study.note = chosen.note;
  LATHE_CHECK_OK(write_files(study, o));
  if (o.json)
    print_json(study);
  else
    print_text(study, o);
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file (float)").required();
  args.option("--metric", o->metric, "as of `lathe eval`; without labels the divergence of the outputs decides").show_default();
  args.option("--limit", o->limit, "samples of split val (else calib, train) that every layer is measured on")
      .show_default()
      .positive();
  args.option("--min-drop", o->min_drop, "points of the metric from which on a layer is sensitive").show_default();
  args.option("-o,--output", o->keep_file, "keep.toml to write: the sensitive layers, for `quantize --keep keep.toml`");
  args.option("--picture", o->picture, "SVG file to write");
  args.flag("--per-tensor", o->per_tensor, "one weight scale per tensor instead of one per output channel");
  args.flag("--json", o->json, "print JSON");
  o->calibration.add_to(args);
  args.find("--data").required();
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_sensitivity{"sensitivity", "measure what INT8 does to every layer",
                             "lathe sensitivity model.lathe --data set.toml -o keep.toml --picture sensitivity.svg", setup};

}  // namespace lathe::tools
