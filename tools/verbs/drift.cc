// lathe drift: whether a network meets the values that it was calibrated on.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/atomic_file.h"
#include "base/json.h"
#include "graph/pass.h"
#include "quant/drift.h"
#include "tools/calibration.h"
#include "tools/data_binding.h"
#include "tools/drift_counts.h"
#include "tools/markup.h"
#include "tools/measured_model.h"
#include "tools/table.h"
#include "tools/timing.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, data, split, group, save;
  std::vector<std::string> counts;
  uint64_t limit = 0;
  DriftLimits limits;
  bool cost = false, json = false;
  SessionFlags session;
};

// What one part of the samples showed.
struct Part {
  std::string name;  // "column=value"; empty: all
  std::vector<LiveTensor> live;
  std::vector<TensorDrift> tensors;
  size_t drifted() const {
    return static_cast<size_t>(std::count_if(tensors.begin(), tensors.end(), [](const TensorDrift& t) { return t.drifted(); }));
  }
};

struct Opened {
  ModelFile file;
  HostModel host;
  SessionOptions session;
  uint64_t calibration_samples = 0;  // 0: the file does not say
};

Result<Opened> open(const Options& o) {
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(ModelFile file, load_model(o.model, {}));
  LATHE_TRY(HostModel host, load_host_model(o.model, {}));
  const bool histograms = std::any_of(file.calib.begin(), file.calib.end(), [](const ObservedValue& v) { return !v.bins.empty(); });
  if (!histograms) return fail(Code::kInvalidArgument, o.model + ": has no calibration to compare with; `lathe quantize` and `lathe calibrate` store it");
  Opened out{std::move(file), std::move(host), session, 0};
  if (const auto it = out.host.metadata.find(kCalibrationSamplesKey); it != out.host.metadata.end())
    out.calibration_samples = std::strtoull(it->second.c_str(), nullptr, 10);
  // The same names as the program's steps.
  LATHE_CHECK_OK(run_passes(out.file.graph, lowering_passes()));
  return out;
}

// Runs the samples one by one; those of every group count for themselves.
Result<std::vector<Part>> count(const Options& o, const Opened& m) {
  LATHE_TRY(const Dataset data, Dataset::load(o.data));
  ChosenSplit chosen;
  if (o.split.empty()) {
    LATHE_TRY(chosen, data.for_report());
  } else if (chosen.split = data.split(o.split); chosen.split == nullptr) {
    return fail(Code::kInvalidArgument, o.data + ": has no split '" + o.split + "'");
  }
  const DataSplit& split = *chosen.split;
  const auto& columns = split.groups();
  const auto column = std::find_if(columns.begin(), columns.end(), [&](const GroupColumn& c) { return c.name == o.group; });
  if (!o.group.empty() && column == columns.end())
    return fail(Code::kInvalidArgument, "split '" + split.name() + "' has no group column '" + o.group + "'");
  LATHE_TRY(Runner runner, Runner::create(m.host.program, m.session));
  LATHE_TRY(const auto matching, match_inputs(model_inputs(*m.host.program), m.host.metadata, data));
  std::vector<std::vector<int64_t>> dims;
  for (const size_t i : matching) dims.push_back(data.inputs()[i].dims);
  LATHE_TRY(const auto shapes, runner.shapes_for(1, dims));
  LATHE_CHECK_OK(runner.bind(shapes));
  const std::vector<LiveMark> marks = live_marks(m.file.graph, *m.host.program, m.file.calib);
  const auto name_of = [&](uint64_t i) { return o.group.empty() ? std::string() : o.group + "=" + column->values[i]; };
  std::map<std::string, LiveCounts> by_group;
  const auto aim = [&](uint64_t i) {
    if (i >= split.size()) return;
    auto it = by_group.try_emplace(name_of(i), runner.session(), *m.host.program, marks, 1u, UINT32_MAX).first;
    runner.session().set_hook(it->second.hook());
  };
  aim(0);
  const auto next = [&](uint64_t i, const std::vector<std::span<const float>>&) -> Result<void> {
    aim(i + 1);
    return {};
  };
  LATHE_TRY(const uint64_t samples, predict(runner, data, split, matching, {.limit = o.limit, .batch = 1, .progress = "counting"}, next));
  if (samples == 0) return fail(Code::kInvalidArgument, "split '" + split.name() + "' has no samples");
  std::vector<Part> parts(1);
  for (const auto& [name, counts] : by_group) {
    LATHE_CHECK_OK(add_counts(&parts[0].live, counts.tensors()));
    if (!name.empty()) parts.push_back({name, counts.tensors(), {}});
  }
  return parts;
}

Result<std::vector<Part>> gather(const Options& o, const Opened& m) {
  if (!o.data.empty()) return count(o, m);
  std::vector<Part> parts(1);
  for (const std::string& path : o.counts) {
    LATHE_TRY(const auto more, read_counts(path));
    if (auto added = add_counts(&parts[0].live, more); !added) return tl::unexpected(with_context(std::move(added.error()), path));
  }
  return parts;
}

// What counting every 16th run costs, with and without it in turns.
Result<void> print_cost(const Options& o, const Opened& m) {
  MeasureFlags flags;
  flags.model = o.model;
  LATHE_TRY(Runner plain, make_runner(flags, m.host, m.session));
  LATHE_TRY(Runner counted, make_runner(flags, m.host, m.session));
  LiveCounts counts(counted.session(), *m.host.program, live_marks(m.file.graph, *m.host.program, m.file.calib));
  counted.session().set_hook(counts.hook());
  LATHE_TRY(const auto us, measure({&plain, &counted}, 2));
  const auto mean = [](const std::vector<double>& v) {
    // Without the slowest tenth, which the machine decides.
    double sum = 0;
    const size_t n = v.size() - v.size() / 10;
    for (size_t i = 0; i < n; ++i) sum += v[i];
    return sum / static_cast<double>(n);
  };
  std::printf("mean run %.2f us, with counts of %zu tensors every 16th run %.2f us: %+.2f %%\n", mean(us[0]), counts.tensors().size(),
              mean(us[1]), 100 * (mean(us[1]) / mean(us[0]) - 1));
  return {};
}

void print_text(const std::vector<Part>& parts) {
  Table table({"tensor", "samples", "PSI", "by chance", "at an end %", "calibrated %", ""});
  for (const TensorDrift& t : parts[0].tensors)
    table.add({t.name, std::to_string(t.samples), formatted("%.4f", t.psi), formatted("%.4f", t.noise), formatted("%.3f", 100 * t.saturated),
               formatted("%.3f", 100 * t.expected_saturated),
               std::string(t.by_psi ? "drifted " : "") + (t.by_saturation ? "saturates" : "")});
  std::printf("%s", table.text().c_str());
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto worst = std::max_element(parts[i].tensors.begin(), parts[i].tensors.end(), [](const auto& a, const auto& b) { return a.psi < b.psi; });
    if (worst == parts[i].tensors.end()) continue;
    std::printf("group %s: %zu of %zu tensors drifted, most '%s' with PSI %.4f\n", parts[i].name.c_str(), parts[i].drifted(),
                parts[i].tensors.size(), worst->name.c_str(), worst->psi);
  }
}

Tree part_json(const Part& part) {
  Tree rows = Tree::array();
  for (const TensorDrift& t : part.tensors) {
    Tree row = Tree::table();
    row.set("tensor", t.name).set("samples", t.samples).set("psi", t.psi).set("psi_by_chance", t.noise);
    rows.push(row.set("saturated", t.saturated).set("saturated_calibrated", t.expected_saturated).set("drifted", t.drifted()));
  }
  return rows;
}

void print_json(const std::vector<Part>& parts, uint64_t calibration_samples) {
  Tree out = Tree::table(), groups = Tree::table();
  for (size_t i = 1; i < parts.size(); ++i) groups.set(parts[i].name, part_json(parts[i]));
  out.set("calibration_samples", calibration_samples).set("drifted", parts[0].drifted() > 0).set("tensors", part_json(parts[0]));
  std::printf("%s\n", to_json(out.set("groups", std::move(groups))).c_str());
}

Result<void> run(const Options& o) {
  if (!o.save.empty()) LATHE_CHECK_OK(check_writable(o.save));
  if (o.cost + !o.data.empty() + !o.counts.empty() != 1)
    return fail(Code::kInvalidArgument, "give one of --data set.toml, --counts FILE and --cost");
  LATHE_TRY(const Opened model, open(o));
  if (o.cost) return print_cost(o, model);
  LATHE_TRY(std::vector<Part> parts, gather(o, model));
  size_t drifted = 0;
  for (Part& part : parts) {
    const uint64_t samples = part.live.empty() ? 1 : part.live[0].samples;
    part.tensors = find_drift(part.live, model.file.calib, model.calibration_samples > 0 ? model.calibration_samples : samples, o.limits);
    drifted += part.drifted();
  }
  if (parts[0].tensors.empty()) return fail(Code::kInvalidArgument, "no tensor of the model was counted");
  if (!o.save.empty()) LATHE_CHECK_OK(write_file_atomic(o.save, to_json(counts_json(parts[0].live)) + "\n"));
  if (o.json) print_json(parts, model.calibration_samples);
  else print_text(parts);
  if (model.calibration_samples == 0 && !o.json)
    std::printf("note: the file does not say how many samples calibrated it; taken as many as were counted\n");
  if (drifted == 0) return {};
  return fail(Code::kInvalidArgument, std::to_string(drifted) + (drifted == 1 ? " tensor has" : " tensors have") +
                                          " drifted from calibration: recalibrate on data like this");
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe file that keeps its calibration").required();
  args.option("--data", o->data, "data set (TOML) of what the model meets now");
  args.option("--split", o->split, "split to read, instead of test");
  args.option("--limit", o->limit, "samples at most; 0: all").show_default();
  args.option("--group", o->group, "column of the split's groups: every group is compared, too");
  args.option("--counts", o->counts, "files that --save or a server wrote, instead of data");
  args.option("--save", o->save, "write the counts to this JSON file");
  args.option("--psi", o->limits.psi, "population stability index from which on a tensor has drifted").show_default().positive();
  args.option("--saturation", o->limits.saturation, "how many times more values than in calibration may lie in or beyond the outermost bin of a range").show_default().positive();
  args.flag("--cost", o->cost, "measure what counting in service costs");
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_drift{"drift", "compare what a model meets with what it was calibrated on", "lathe drift int8.lathe --data live.toml", setup};

}  // namespace lathe::tools
