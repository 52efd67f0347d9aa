#include "tools/compress/figures.h"

#include <cmath>

#include "base/cancel.h"
#include "runtime/host/cpu.h"
#include "tools/cost_table.h"
#include "tools/measured_model.h"
#include "tools/timing.h"

namespace lathe::tools {
namespace {

Tree figures_tree(const EvalReport& report) {
  Tree out = Tree::table();
  const auto add = [&](const FigureRow& row) {
    Tree t = Tree::table();
    t.set("samples", row.samples);
    if (std::isfinite(row.value)) t.set("value", row.value);
    out.set(row.name, std::move(t));
  };
  add(report.all);
  for (const FigureRow& row : report.groups) add(row);
  return out;
}

Figures figures_of_tree(const Tree& tree) {
  Figures out;
  for (const auto& [name, row] : *tree.as_table()) {
    double samples = 0, value = NAN;
    if (const Tree* v = row.find("samples"); v != nullptr) v->as_number(&samples);
    if (const Tree* v = row.find("value"); v != nullptr) v->as_number(&value);
    out[name] = {static_cast<uint64_t>(samples), value};
  }
  return out;
}

double number_of(const Tree& tree, const char* key) {
  double v = 0;
  if (const Tree* found = tree.find(key); found != nullptr) found->as_number(&v);
  return v;
}

Result<Hash128> split_hash(const DataSplit& split) {
  Hasher hasher;
  const auto add = [&](const auto& v) { hasher.update(std::as_bytes(std::span(&v, 1))); };
  for (uint64_t i = 0; i < split.size(); ++i) {
    LATHE_TRY(const Hash128 sample, split.hash(i));
    add(sample.high), add(sample.low);
    if (split.has_labels()) add(split.label(i));
    if (split.has_targets()) hasher.update(std::as_bytes(split.target(i)));
  }
  for (const GroupColumn& column : split.groups()) {
    hasher.update(column.name);
    for (const std::string& value : column.values) hasher.update("\n").update(value);
  }
  return hasher.finish();
}

}  // namespace

Result<Figures> figures_of(WorkFolder& work, const FigureContext& c, const WorkModel& model, const DataSplit& split, uint64_t limit) {
  const Metric& metric = c.recipe->metric;
  const Hash128 key = hash_of({"figures 1", to_hex(model.hash), c.data_hash, split.name(), metric.name(), std::to_string(limit), isa_text(c.session.isa)});
  LATHE_TRY(const Tree tree, work.once("figures", key, [&]() -> Result<Tree> {
    EvalRequest request;
    request.metric = metric;
    request.limit = limit;
    request.session = c.session;
    LATHE_TRY(const HostModel host, load_host_model(model.path, {}));
    LATHE_TRY(const ModelScores scores, score_model(host, model.path, *c.data, split, request));
    return figures_tree(make_report(metric, split, scores, nullptr, /*with_uncertainty=*/false));
  }));
  return figures_of_tree(tree);
}

Result<Latency> latency_of(WorkFolder& work, const FigureContext& c, const WorkModel& model) {
  const Hash128 key = hash_of({"latency 1", to_hex(model.hash), device_name(c.session), std::to_string(c.session.threads), std::to_string(c.recipe->batch),
                               std::to_string(c.recipe->seconds)});
  LATHE_TRY(const Tree tree, work.once("latency", key, [&]() -> Result<Tree> {
    LATHE_TRY(const HostModel host, load_host_model(model.path, {}));
    MeasureFlags flags;
    flags.batch = c.recipe->batch;
    LATHE_TRY(Runner runner, make_runner(flags, host, c.session));
    LATHE_TRY(const auto us, measure({&runner}, c.recipe->seconds));
    LATHE_CHECK_OK(check_cancelled());  // what was measured until then is too little to keep
    Tree out = Tree::table();
    return out.set("p50_us", percentile(us[0], 0.5)).set("p99_us", percentile(us[0], 0.99)).set("arena_bytes", runner.session().arena_bytes());
  }));
  return Latency{number_of(tree, "p50_us"), number_of(tree, "p99_us"), static_cast<uint64_t>(number_of(tree, "arena_bytes"))};
}

EvalReport compare_figures(const Metric& metric, const Figures& original, const Figures& model) {
  EvalReport report;
  report.metric = metric;
  report.has_baseline = true;
  for (const auto& [name, figure] : model) {
    FigureRow row{name, figure.samples, figure.value};
    row.few = figure.samples < (name.empty() ? kFewSamples : kFewInGroup);
    row.reference = original.at(name).value;
    row.drop = metric.drop(row.reference, row.value);
    if (name.empty()) report.all = std::move(row);
    else report.groups.push_back(std::move(row));
  }
  report.worst = worst_group(report);
  return report;
}

Result<std::string> content_hash(const Dataset& data) {
  std::string text = to_text(data.preprocessing());
  for (const std::string& name : data.classes()) text += "\n" + name;
  for (const DataSplit& split : data.splits()) {
    LATHE_TRY(const Hash128 hash, split_hash(split));
    text += "\n" + split.name() + " " + to_hex(hash);
  }
  return to_hex(hash128(text));
}

}  // namespace lathe::tools
