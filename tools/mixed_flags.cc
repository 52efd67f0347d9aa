#include "tools/mixed_flags.h"

#include <cmath>
#include <cstdio>

#include "base/atomic_file.h"
#include "tools/markup.h"
#include "tools/scatter_chart.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

std::string us_text(double us) { return std::isfinite(us) ? formatted("%.2f", us) : "-"; }

std::string picture(const MixedChoice& choice, const Metric& metric, std::optional<double> limit) {
  ScatterChart chart;
  chart.title = "Time against accuracy";
  chart.x_unit = "microseconds per run, measured in turns";
  chart.y_unit = "drop of " + metric.name() + (metric.is_share() ? " in points" : " in percent") + "; dashed: allowed";
  chart.limit = limit;
  for (const MixedPoint& p : choice.points) chart.dots.push_back({p.name, p.measured_us, p.drop, p.name == "chosen"});
  return scatter_chart(chart);
}

Tree point_json(const MixedPoint& p) {
  Tree out = Tree::table();
  out.set("name", p.name).set("predicted_us", p.predicted_us).set("measured_us", p.measured_us).set("drop", p.drop);
  if (!p.worst_group.empty()) out.set("worst_group", p.worst_group).set("worst_group_drop", p.worst_drop);
  return out.set("passes", p.passes);
}

}  // namespace

void MixedFlags::add_to(Arguments& args) {
  args.option("--max-drop", max_drop,
              "choose INT8, FP16 or FP32 by operator: as fast as can be with the metric at most this much worse");
  args.option("--max-group-drop", max_group_drop, "the same for every group of 30 samples or more");
  args.option("--target-latency", target_ms, "milliseconds that a run may take on this device at most");
  args.option("--metric", metric, "that decides, as of `lathe eval`").show_default();
  args.option("--limit", limit, "samples of split val (else calib, train) that decide").show_default().positive();
  args.option("--cost-table", cost_table, "what operators cost, as `lathe bench-device` writes it; what is missing is added")
      .show_default();
  args.option("--seconds", seconds, "how long to measure a network in each precision").show_default().range(0.01, 3600.0);
  args.option("--picture", picture, "SVG file to write: time against drop");
}

Result<MixedChoice> MixedFlags::choose(const std::string& model, const Graph& graph, const RangeTable& ranges,
                                       const Dataset& data, const QuantizeOptions& quantize,
                                       const SessionOptions& session, const Graph* baseline) const {
  MixedRequest request;
  request.model = model;
  LATHE_TRY(request.metric, parse_metric(metric));
  request.gates = {max_drop, max_group_drop};
  request.baseline = baseline;
  request.target_ms = target_ms;
  request.limit = limit;
  request.costs.quantize = quantize;
  request.costs.session = session;
  request.costs.seconds = seconds;
  LATHE_TRY(const ChosenSplit chosen, data.for_choices());
  if (!chosen.note.empty()) std::fprintf(stderr, "note: %s\n", chosen.note.c_str());
  LATHE_TRY(CostTable table, CostTable::open(cost_table, device_name(session)));
  auto choice = choose_mixed(graph, ranges, data, *chosen.split, request, &table);
  if (choice && !picture.empty())
    LATHE_CHECK_OK(write_file_atomic(picture, lathe::tools::picture(*choice, request.metric, max_drop)));
  return choice;
}

void MixedFlags::print_text(const MixedChoice& choice) const {
  Table rows({"node", "op", "type", "INT8 us", "FP16 us", "FP32 us", "why"});
  size_t count[kPrecisions] = {};
  for (const MixedRow& r : choice.rows) {
    rows.add({r.node, r.op, precision_text(r.precision), us_text(r.us[0]), us_text(r.us[1]), us_text(r.us[2]), r.why});
    ++count[static_cast<size_t>(r.precision)];
  }
  std::printf("%s", rows.text().c_str());
  Table points({"", "predicted us", "measured us", "drop", "worst group", "gates hold"});
  for (const MixedPoint& p : choice.points)
    points.add({p.name, us_text(p.predicted_us), us_text(p.measured_us), formatted("%.2f", p.drop),
                p.worst_group.empty() ? "" : p.worst_group + formatted(" %.2f", p.worst_drop), p.passes ? "yes" : "no"});
  std::printf("%s%zu operators INT8, %zu FP16, %zu FP32; conversions take %.2f us; %zu networks judged by %s on %llu samples\n",
              points.text().c_str(), count[0], count[1], count[2], choice.border_us, choice.evaluations, metric.c_str(),
              static_cast<unsigned long long>(choice.samples));
  if (choice.samples < kFewSamples)
    std::printf("note: fewer than %llu samples: drops are noise, one sample is %.2f points\n",
                static_cast<unsigned long long>(kFewSamples), 100.0 / static_cast<double>(choice.samples));
}

Tree MixedFlags::json(const MixedChoice& choice) const {
  Tree ops = Tree::array(), points = Tree::array(), out = Tree::table();
  for (const MixedRow& r : choice.rows) {
    Tree row = Tree::table();
    row.set("node", r.node).set("op", r.op).set("type", precision_text(r.precision)).set("why", r.why);
    constexpr const char* kKeys[] = {"int8_us", "fp16_us", "fp32_us"};
    for (size_t p = 0; p < kPrecisions; ++p)
      if (std::isfinite(r.us[p])) row.set(kKeys[p], r.us[p]);
    ops.push(std::move(row));
  }
  for (const MixedPoint& p : choice.points) points.push(point_json(p));
  return out.set("samples", choice.samples)
      .set("networks", choice.evaluations)
      .set("conversions_us", choice.border_us)
      .set("points", std::move(points))
      .set("ops", std::move(ops));
}

}  // namespace lathe::tools
