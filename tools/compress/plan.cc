#include <algorithm>

#include "tools/compress/course.h"
#include "tools/compress/engine.h"
#include "tools/measured_model.h"
#include "tools/timing.h"

namespace lathe::tools {
namespace {

constexpr double kForwardSeconds = 0.3;  // of measuring what a run costs

// Of a run of one sample, in the batches that data sets are read in where the model leaves the batch open.
Result<double> sample_seconds(const Recipe& recipe, const SessionOptions& session) {
  MeasureFlags flags;
  LATHE_TRY(const HostModel model, load_host_model(recipe.model, recipe.import));
  LATHE_TRY(const Runner probe, Runner::create(model.program, session));
  flags.batch = probe.batch_is_open() ? 16 : 1;
  LATHE_TRY(Runner runner, make_runner(flags, model, session));
  LATHE_TRY(const auto us, measure({&runner}, kForwardSeconds));
  return percentile(us[0], 0.5) * 1e-6 / flags.batch;
}

uint64_t size_of(const Result<ChosenSplit>& chosen) { return chosen ? chosen->split->size() : 0; }

}  // namespace

Result<Plan> plan_recipe(const Recipe& recipe) {
  LATHE_TRY(const Course course, Course::open(recipe));
  const WorkFolder work = WorkFolder::view(recipe.work);
  Plan plan;
  StepCosts costs;
  LATHE_TRY(costs.sample_seconds, sample_seconds(recipe, course.session));
  plan.sample_us = 1e6 * costs.sample_seconds;
  costs.measure_seconds = recipe.seconds + warmup_seconds(recipe.seconds);
  if (const DataSplit* train = course.data.split("train"); train != nullptr) costs.train = train->size();
  costs.calib = size_of(course.data.for_calibration());
  costs.choices = recipe.limit == 0 ? course.choices.split->size() : std::min(recipe.limit, course.choices.split->size());
  const uint64_t report = course.report == nullptr ? 0 : course.report->size();
  const double judging = static_cast<double>(costs.choices) * costs.sample_seconds;
  const double registering = static_cast<double>(report) * costs.sample_seconds + costs.measure_seconds;

  LATHE_TRY(const Graph graph, load_graph(recipe.model, recipe.import));
  LATHE_TRY(const Hash128 key, course.original_key());
  auto record = work.find("original", key);
  // What later steps read, as far as it is there.
  std::optional<WorkModel> original = record ? record->model : std::nullopt, model = original;
  plan.steps.push_back({"original", "import, judge, measure, register", original.has_value(), original ? 0 : judging + registering});
  for (const RecipeStep& step : recipe.steps) {
    LATHE_CHECK_OK(step.step->check(graph));
    PlannedStep planned{step.kind->name, step.step->what(), false, 0};
    std::optional<WorkRecord> done;
    if (model) {
      LATHE_TRY(const Hash128 step_key, course.step_key(step, *model, *original));
      done = work.find(step.kind->name, step_key);
    }
    planned.done = done.has_value();
    const bool makes_model = step.kind->role != StepRole::kLook;
    if (makes_model) planned.what += step.judged_later ? "; judged after the next step" : "; judged, registered";
    if (!planned.done) planned.seconds = step.step->seconds(costs) + (makes_model ? judging + (step.judged_later ? 0 : registering) : 0);
    if (step.kind->role == StepRole::kFloat || step.kind->role == StepRole::kInteger) model = done ? done->model : std::nullopt;
    plan.steps.push_back(std::move(planned));
  }
  if (!recipe.report.empty()) plan.steps.push_back({"report", "a page in " + recipe.report, false, 2 * registering + 2 * costs.measure_seconds});
  return plan;
}

}  // namespace lathe::tools
