#include "tools/calibration_build.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "base/atomic_file.h"
#include "base/json.h"
#include "base/progress.h"
#include "data/screen.h"
#include "quant/calibration_set.h"
#include "tools/sample_list.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

constexpr size_t kNamed = 10;  // refused samples that the text names, of each kind

// A part of the held-out samples: one value of one column.
struct HeldOutGroup {
  uint64_t samples = 0, touched = 0, values = 0, beyond = 0;  // touched: samples with any value beyond
  double share() const { return values == 0 ? 0 : static_cast<double>(beyond) / static_cast<double>(values); }
};

struct StratumRow {
  uint64_t pool = 0, picked = 0;
};

struct Report {
  std::string split, note, hash;
  uint64_t pool = 0, usable = 0;
  std::vector<std::pair<std::string, std::string>> refused;  // sample, reason
  std::map<std::string, uint64_t> refused_counts;            // by reason, activations' names left out
  std::vector<std::string> named;                            // lines for the text
  std::vector<std::pair<std::string, StratumRow>> strata;
  BuiltSet built;
  std::map<std::string, HeldOutGroup> held_out;  // by group; "all" is one
};

Result<ChosenSplit> pool_of(const Dataset& data, const std::string& name) {
  if (name.empty()) return data.for_calibration();
  if (name != "train" && name != "calib")
    return fail(Code::kInvalidArgument, "--pool is '" + name + "', must be train or calib: the other splits judge the result");
  const DataSplit* split = data.split(name);
  if (split == nullptr) return fail(Code::kInvalidArgument, data.description().path + ": no split '" + name + "'");
  return ChosenSplit{split, {}};
}

void add_refused(const std::string& where, const std::string& kind, const std::string& detail, Report* r) {
  r->refused.push_back({where, kind + detail});
  const uint64_t count = ++r->refused_counts[kind];
  if (count <= kNamed) r->named.push_back("refused " + where + ": " + kind + detail);
}

void describe(const DataSplit& split, const Strata& strata, const Screening& screening, Report* r) {
  r->pool = split.size();
  for (const RefusedSample& s : screening.refused) add_refused(split.where(s.sample), refusal_name(s.why), "", r);
  for (const RefusedActivation& a : r->built.refused)
    add_refused(split.where(screening.usable[a.sample]), refusal_name(Refusal::kNotFinite), " in tensor '" + a.tensor + "'", r);
  r->usable = screening.usable.size() - r->built.refused.size();
  for (const auto& s : strata.list) r->strata.push_back({s.name, {}});
  for (const uint32_t s : strata.of) ++r->strata[s].second.pool;
  const auto stratum = [&](uint32_t sample) { return strata.of[screening.usable[sample]]; };
  for (const uint32_t i : r->built.picked) ++r->strata[stratum(i)].second.picked;
  for (const HeldOutSample& h : r->built.held_out) {
    std::vector<std::string> groups = strata.list[stratum(h.sample)].parts;
    groups.push_back("all");
    for (const std::string& group : groups) {
      HeldOutGroup& g = r->held_out[group];
      ++g.samples;
      g.touched += h.beyond > 0;
      g.values += h.values;
      g.beyond += h.beyond;
    }
  }
}

std::string number(const char* format, double v) {
  char text[32];
  std::snprintf(text, sizeof text, format, v);
  return text;
}

void print_text(const Report& r, const BuildFlags& flags) {
  if (!r.note.empty()) std::printf("note: %s\n", r.note.c_str());
  for (const std::string& line : r.named) std::printf("%s\n", line.c_str());
  for (const auto& [kind, count] : r.refused_counts)
    std::printf("refused %llu samples: %s\n", static_cast<unsigned long long>(count), kind.c_str());
  Table strata({"stratum", "in the pool", "picked"});
  for (const auto& [name, row] : r.strata) strata.add({name, std::to_string(row.pool), std::to_string(row.picked)});
  Table curve({"samples", "ranges covered %", "at random %", "least %", "tensor"});
  for (const CurvePoint& p : r.built.curve)
    curve.add({std::to_string(p.samples), number("%.2f", 100 * p.built), number("%.2f", 100 * p.random),
               number("%.2f", 100 * p.least), p.least_tensor});
  std::printf("%s\n%s\n", strata.text().c_str(), curve.text().c_str());
  if (r.built.held_out.empty()) {
    std::printf("no sample is held out to check the set\n");
  } else {
    Table held({"held out", "samples", "with saturation", "values saturated ppm"});
    for (const auto& [name, g] : r.held_out)
      held.add({name, std::to_string(g.samples), std::to_string(g.touched), number("%.2f", 1e6 * g.share())});
    std::printf("%s", held.text().c_str());
  }
  std::printf("%zu of %llu usable samples of split '%s', seed %llu, set %s\n", r.built.picked.size(),
              static_cast<unsigned long long>(r.usable), r.split.c_str(), static_cast<unsigned long long>(flags.seed),
              r.hash.c_str());
}

void print_json(const Report& r, const BuildFlags& flags) {
  Tree refused = Tree::array(), strata = Tree::array(), curve = Tree::array(), held = Tree::table();
  for (const auto& [sample, reason] : r.refused) refused.push(Tree(Tree::table().set("sample", sample).set("reason", reason)));
  for (const auto& [name, row] : r.strata)
    strata.push(Tree(Tree::table().set("name", name).set("pool", row.pool).set("picked", row.picked)));
  for (const CurvePoint& p : r.built.curve)
    curve.push(Tree(Tree::table()
                        .set("samples", p.samples)
                        .set("covered", p.built)
                        .set("random", p.random)
                        .set("least", p.least)
                        .set("least_tensor", p.least_tensor)));
  for (const auto& [name, g] : r.held_out)
    held.set(name, Tree::table().set("samples", g.samples).set("with_saturation", g.touched).set("saturated", g.share()));
  Tree out = Tree::table();
  out.set("set", r.hash).set("split", r.split).set("seed", flags.seed).set("pool", r.pool).set("usable", r.usable);
  out.set("samples", r.built.picked.size()).set("refused", std::move(refused)).set("strata", std::move(strata));
  out.set("curve", std::move(curve)).set("held_out", std::move(held));
  std::printf("%s\n", to_json(out).c_str());
}

}  // namespace

void BuildFlags::add_to(Arguments& args) {
  const Argument on =
      args.flag("--build", build, "pick a calibration set of --samples samples instead; -o writes it for --samples-from");
  args.option("--by", by,
              "column that divides the pool, each part getting as many samples: one of the groups' columns, or label; again for "
              "a finer division (label where there are labels)")
      .type_name("COLUMN")
      .needs(on);
  args.option("--pool", pool, "split to pick from: train or calib (calib, else train)").type_name("SPLIT").needs(on);
  args.option("--seed", seed, "of what is left to chance").show_default().needs(on);
}

Result<void> build_set(const Graph& graph, const CalibrationFlags& calibration, const BuildFlags& flags,
                       const SessionOptions& session, const std::string& output, bool json) {
  if (!calibration.samples_from.empty())
    return fail(Code::kInvalidArgument, "--build makes what --samples-from reads: give one of them");
  LATHE_TRY(const Dataset data, Dataset::load(calibration.data, {.allow_non_finite = true}));
  LATHE_TRY(const ChosenSplit chosen, pool_of(data, flags.pool));
  const DataSplit& split = *chosen.split;
  std::vector<std::string> columns = flags.by;
  if (columns.empty() && split.has_labels()) columns.push_back("label");
  LATHE_TRY(const Strata strata, find_strata(data, split, columns));
  LATHE_TRY(const Screening screening, screen_samples(split, strata));
  LATHE_TRY(auto matching, match_inputs(graph_inputs(graph), graph.metadata, data));
  SamplePool pool{sample_source(split, std::move(matching), screening.usable), screening.contents, {}, {}};
  for (const uint32_t i : screening.usable) pool.strata.push_back(strata.of[i]);
  for (const auto& s : strata.list) pool.names.push_back(s.name);
  Progress progress("looking at activations", samples_to_run(pool.contents.size(), calibration.samples));
  pool.source.on_progress = [&](uint64_t done) { progress.update(done); };
  Report report;
  LATHE_TRY(report.built, build_calibration_set(graph, pool, {calibration.samples, flags.seed, session}));
  SampleList list{output, split.name(), {}};
  for (const uint32_t i : report.built.picked) list.contents.push_back(screening.contents[i]);
  std::sort(list.contents.begin(), list.contents.end());
  report.split = split.name();
  report.note = chosen.note;
  report.hash = to_hex(hash_of_set(list.contents));
  describe(split, strata, screening, &report);
  if (json)
    print_json(report, flags);
  else
    print_text(report, flags);
  const std::string comment = std::to_string(list.contents.size()) + " of " + std::to_string(report.usable) +
                              " usable samples, by `lathe calibrate --build`";
  return output.empty() ? Result<void>{} : write_file_atomic(output, sample_list_text(list, comment));
}

}  // namespace lathe::tools
