#include "tools/compress/engine.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/cancel.h"
#include "base/file.h"
#include "base/store/crash_point.h"
#include "base/store/lineage.h"
#include "tools/calibration.h"
#include "tools/compress/course.h"
#include "tools/cost_table.h"
#include "tools/markup.h"
#include "tools/report/page.h"
#include "tools/table.h"
#include "tools/versions.h"

namespace lathe::tools {
namespace {

namespace fs = std::filesystem;

class Run {
 public:
  Run(const Recipe& recipe, const CompressLines& line, Course course, WorkFolder work)
      : recipe_(recipe), line_(line), course_(std::move(course)), work_(std::move(work)) {}

  Result<CompressResult> run() {
    out_.device = device_name(course_.session);
    out_.choice_split = course_.choices.split->name();
    if (course_.report != nullptr) out_.report_split = course_.report->name();
    if (!course_.choices.note.empty()) line_("note: " + course_.choices.note);
    if (course_.report == nullptr) line_("note: no split 'test': versions have no figures beyond those of the gates");
    LATHE_CHECK_OK(take_original());
    LATHE_TRY(const Graph original, load_graph(original_.path, {}));
    for (const RecipeStep& step : recipe_.steps) {
      auto checked = step.step->check(original);
      if (!checked) return in_step(step, std::move(checked.error()));
    }
    for (size_t i = 0; i < recipe_.steps.size() && out_.failure.empty(); ++i) {
      auto done = take(recipe_.steps[i], i);
      if (!done) return in_step(recipe_.steps[i], std::move(done.error()));
    }
    if (out_.failure.empty()) LATHE_CHECK_OK(finish());
    return std::move(out_);
  }

 private:
  tl::unexpected<Error> in_step(const RecipeStep& step, Error error) const {
    return tl::unexpected(error.code == Code::kCancelled ? std::move(error) : with_context(std::move(error), recipe_.path + ": " + step_text(step)));
  }

  Result<void> take_original() {
    LATHE_TRY(const Hash128 key, course_.original_key());
    auto record = work_.find("original", key);
    if (!record) {
      LATHE_TRY(Graph graph, load_graph(recipe_.model, recipe_.import));
      store_preprocessing(course_.data, &graph.metadata);
      LATHE_TRY(record, work_.store("original", key, Tree::table(), &graph, {}));
    }
    original_ = *record->model;
    if (const std::string precision = precision_of(original_.path); precision != "float")
      return fail(Code::kInvalidArgument, recipe_.model + ": is " + precision + " already; give the float model that it was made from");
    out_.rows.push_back({.step = "original", .version = {}, .model = original_, .choices = {}, .outcome = {}, .latency = {}, .report = {}});
    LATHE_TRY(original_choices_, figures_of(work_, course_.figures(), original_, *course_.choices.split, recipe_.limit));
    if (course_.report != nullptr) {
      LATHE_TRY(original_report_, figures_of(work_, course_.figures(), original_, *course_.report, 0));
    }
    out_.rows[0].choices = compare_figures(recipe_.metric, original_choices_, original_choices_);
    LATHE_CHECK_OK(add_to_registry(0, "original", "", ""));
    held_ = current_ = 0;
    out_.last = 0;
    return {};
  }

  // Runs a step, or finds what it made, and judges that.
  Result<void> take(const RecipeStep& step, size_t index) {
    LATHE_CHECK_OK(check_cancelled());
    const WorkModel model = out_.rows[current_].model;
    line_(formatted("[%zu/%zu] %s: %s", index + 1, recipe_.steps.size(), step.kind->name, step.step->what().c_str()));
    LATHE_TRY(const WorkRecord record, result_of(step, model));
    if (const Tree* lines = record.details.find("lines"); lines != nullptr)
      for (const Tree& text : *lines->as_array()) line_("      " + *text.as_string());
    if (!record.model) return {};
    out_.rows.push_back({.step = step.kind->name, .version = {}, .model = *record.model, .choices = {}, .outcome = {}, .latency = {}, .report = {}});
    return judge(step, out_.rows.size() - 1);
  }

  Result<WorkRecord> result_of(const RecipeStep& step, const WorkModel& model) {
    LATHE_TRY(const Hash128 key, course_.step_key(step, model, original_));
    const std::string kind = step.kind->name;
    if (auto found = work_.find(kind, key)) {
      ++out_.steps_found;
      line_("      done before");
      return std::move(*found);
    }
    StepInput in = course_.input(step, model.path, original_.path);
    in.scratch = work_.file(kind + "-" + to_hex(key).substr(0, 16) + ".part");
    StepOutput made;
    LATHE_CHECK_OK(step.step->run(in, &made));
    LATHE_CHECK_OK(check_cancelled());
    Tree lines = Tree::array();
    for (const std::string& text : made.lines) lines.push(text);
    made.details.set("lines", std::move(lines));
    LATHE_TRY(WorkRecord record, work_.store(kind, key, std::move(made.details), made.graph ? &*made.graph : nullptr, made.write));
    remove_scratch(in.scratch);
    ++out_.steps_run;
    return record;
  }

  // Best effort: a file that stays is no more than a waste of room.
  static void remove_scratch(const std::string& prefix) {
    std::error_code ignored;
    std::vector<fs::path> doomed;
    const std::string name = fs::path(prefix).filename().string();
    for (fs::directory_iterator it(fs::path(prefix).parent_path(), ignored), end; !ignored && it != end; it.increment(ignored))
      if (it->path().filename().string().starts_with(name)) doomed.push_back(it->path());
    for (const fs::path& path : doomed) fs::remove_all(path, ignored);
  }

  Result<void> judge(const RecipeStep& step, size_t row) {
    LATHE_TRY(const Figures figures, figures_of(work_, course_.figures(), out_.rows[row].model, *course_.choices.split, recipe_.limit));
    CompressRow& r = out_.rows[row];
    r.choices = compare_figures(recipe_.metric, original_choices_, figures);
    line_("      " + judgement(r.choices));
    if (step.judged_later) {
      r.outcome = "judged after the next step";
      current_ = row;
      if (stage_.empty()) stage_ = step.kind->version_name;
      return {};
    }
    const auto holds = check_gates(r.choices, step.gates);
    if (!holds) return gate_failed(step, row, holds.error().message);
    const bool aside = step.kind->role == StepRole::kAside;
    LATHE_CHECK_OK(add_to_registry(row, version_name(step), out_.rows[held_].version, step.kind->role == StepRole::kFloat ? stage(step) : ""));
    if (aside) return {};
    current_ = held_ = row;
    out_.last = row;
    stage_.clear();
    return {};
  }

  // What the versions of this step are: pruned stays pruned when training follows.
  std::string stage(const RecipeStep& step) const { return stage_.empty() ? step.kind->version_name : stage_; }
  std::string version_name(const RecipeStep& step) const {
    if (!step.name.empty()) return step.name;
    return step.kind->role == StepRole::kFloat ? stage(step) : step.kind->version_name;
  }

  Result<void> gate_failed(const RecipeStep& step, size_t row, const std::string& why) {
    const bool back = step.on_fail == OnFail::kStepBack;
    out_.rows[row].outcome = back ? "stepped back" : "failed";
    line_("      " + why);
    if (!back) {
      out_.failure = recipe_.path + ": " + step_text(step) + ": " + why;
      return {};
    }
    line_("      back to '" + out_.rows[held_].version + "'");
    if (step.kind->role != StepRole::kAside) current_ = held_, stage_.clear();
    return {};
  }

  std::string judgement(const EvalReport& report) const {
    const Metric& metric = recipe_.metric;
    const char* unit = metric.is_share() ? "points" : "percent";
    std::string text = formatted("%s on %llu samples of split '%s': %s, drop %.2f %s", metric.name().c_str(), static_cast<unsigned long long>(report.all.samples),
                                 out_.choice_split.c_str(), value_text(metric, report.all.value).c_str(), report.all.drop, unit);
    if (report.worst) text += formatted("; worst group %s, drop %.2f", report.groups[*report.worst].name.c_str(), report.groups[*report.worst].drop);
    return text;
  }

  // Figures, then the version with all of them. A name that other bytes have taken is followed by the first digits of the hash.
  Result<void> add_to_registry(size_t row, const std::string& name, const std::string& parent, const std::string& stage) {
    CompressRow& r = out_.rows[row];
    LATHE_TRY(r.latency, latency_of(work_, course_.figures(), r.model));
    Version v;
    if (course_.report != nullptr) {
      LATHE_TRY(const Figures figures, figures_of(work_, course_.figures(), r.model, *course_.report, 0));
      r.report = compare_figures(recipe_.metric, original_report_, figures);
      for (const auto& [group, figure] : figures)
        if (std::isfinite(figure.value)) v.metrics[group][recipe_.metric.name()] = figure.value;
    }
    v.latency_us[out_.device] = r.latency->p50_us;
    v.facts[kArenaFact] = std::to_string(r.latency->arena_bytes);
    if (!stage.empty()) v.facts[kStageFact] = stage;
    v.parent = parent;
    v.command = "lathe compress " + recipe_.path;
    LATHE_TRY(Registry registry, Registry::open(recipe_.registry, true));
    v.name = recipe_.name + "-" + name;
    LATHE_TRY(const std::vector<Version> all, registry.versions());
    const auto named = [&](const std::string& wanted) { return std::find_if(all.begin(), all.end(), [&](const Version& x) { return x.name == wanted; }); };
    if (const auto taken = named(v.name); taken != all.end() && taken->file != r.model.hash) v.name += "-" + to_hex(r.model.hash).substr(0, 6);
    r.version = v.name;
    crash_point();
    // Figures that somebody has added to a version that is there stay.
    if (named(v.name) != all.end()) return registry.update(v);
    LATHE_TRY(const Version added, add_version(registry, r.model.path, std::move(v), ""));
    crash_point();
    line_("      version " + added.name + ", " + bytes_text(static_cast<double>(added.bytes)));
    return {};
  }

  // What the run ends with, where the recipe wants it.
  Result<void> finish() {
    const CompressRow& last = out_.rows[held_];
    if (recipe_.promote) {
      LATHE_TRY(Registry registry, Registry::open(recipe_.registry, false));
      // The original first where nothing is current, so that there is a version to roll back to.
      if (registry.state().current.empty()) {
        LATHE_TRY([[maybe_unused]] const Version first, registry.promote(out_.rows[0].version, {}));
      }
      LATHE_TRY(const Version current, registry.promote(last.version, {}));
      line_("current: " + current.name);
    }
    if (!recipe_.output.empty()) {
      LATHE_TRY(const auto bytes, read_file(last.model.path));
      LATHE_CHECK_OK(write_file_atomic(recipe_.output, std::span<const std::byte>(bytes)));
      line_("wrote " + recipe_.output + ", " + bytes_text(static_cast<double>(bytes.size())));
    }
    return recipe_.report.empty() ? Result<void>() : write_report(last);
  }

  Result<void> write_report(const CompressRow& last) {
    const Hash128 key = hash_of({"report 1", to_hex(last.model.hash), to_hex(original_.hash), course_.data_hash, recipe_.metric.name(), out_.device, recipe_.report});
    std::error_code ignored;
    if (work_.find("report", key) && fs::exists(recipe_.report, ignored)) return {};
    ReportRequest request;
    request.model = last.model.path;
    request.baseline = original_.path;
    if (course_.report != nullptr) request.data = recipe_.data;
    request.metric = recipe_.metric.name();
    request.seconds = recipe_.seconds;
    request.session = recipe_.session;
    LATHE_TRY(const Report report, gather_report(request));
    LATHE_CHECK_OK(write_file_atomic(recipe_.report, report_page(report)));
    LATHE_TRY([[maybe_unused]] const WorkRecord record, work_.store("report", key, Tree::table(), nullptr, {}));
    line_("wrote " + recipe_.report);
    return {};
  }

  const Recipe& recipe_;
  const CompressLines& line_;
  const Course course_;
  WorkFolder work_;
  CompressResult out_;
  WorkModel original_;
  Figures original_choices_, original_report_;
  size_t current_ = 0;  // row of the model that the next step reads
  size_t held_ = 0;     // row of the last one that held its gates
  std::string stage_;   // of current_, if it is not judged yet
};

}  // namespace

Result<CompressResult> run_recipe(const Recipe& recipe, const CompressLines& line) {
  LATHE_TRY(Course course, Course::open(recipe));
  LATHE_TRY(WorkFolder work, WorkFolder::open(recipe.work));
  return Run(recipe, line, std::move(course), std::move(work)).run();
}

}  // namespace lathe::tools
