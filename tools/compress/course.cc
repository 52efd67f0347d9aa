#include "tools/compress/course.h"

#include "base/file.h"
#include "lathe/version.h"
#include "runtime/host/cpu.h"
#include "tools/cost_table.h"
#include "tools/markup.h"

namespace lathe::tools {

Result<Course> Course::open(const Recipe& recipe) {
  Course c;
  c.recipe = &recipe;
  LATHE_TRY(c.session, recipe.session.options());
  LATHE_TRY(c.data, Dataset::load(recipe.data));
  LATHE_TRY(c.data_hash, content_hash(c.data));
  LATHE_TRY(c.choices, c.data.for_choices());
  if (c.data.split("test") != nullptr) {
    LATHE_TRY(const ChosenSplit chosen, c.data.for_report());
    c.report = chosen.split;
  }
  for (const RecipeStep& step : recipe.steps)
    if (step.kind->wins_back && c.choices.split->name() == "train")
      return fail(Code::kInvalidArgument, recipe.path + ": " + step_text(step) + ": the data set has no split 'val' to judge by what was trained on 'train'");
  c.cost_table = recipe.cost_table.empty() ? recipe.work + "/costs.json" : recipe.cost_table;
  return c;
}

StepInput Course::input(const RecipeStep& step, const std::string& model, const std::string& original) const {
  StepInput in;
  in.model = model;
  in.original = original;
  in.data = &data;
  in.metric = recipe->metric;
  in.limit = recipe->limit;
  in.gates = step.gates;
  in.session = session;
  in.batch = recipe->batch;
  in.seconds = recipe->seconds;
  in.cost_table = cost_table;
  in.shared = recipe->work + "/";
  return in;
}

Result<Hash128> Course::original_key() const {
  LATHE_TRY(const auto bytes, read_file(recipe->model));
  std::string import;
  for (const auto* flags : {&recipe->import.constants, &recipe->import.shapes})
    for (const std::string& text : *flags) import += text + "\n";
  return hash_of({"original 1", LATHE_VERSION_TEXT, to_hex(hash128(std::span<const std::byte>(bytes))), import, data_hash});
}

Result<Hash128> Course::step_key(const RecipeStep& step, const WorkModel& model, const WorkModel& original) const {
  LATHE_TRY(const std::string contents, step.step->contents());
  const auto gate = [](const std::optional<double>& limit) { return limit ? formatted("%.17g", *limit) : std::string(); };
  // Gates are part of what a step that measures decides by.
  const std::string device = !step.kind->measures ? std::string()
                                                  : device_name(session) + formatted(" t%u b%u s%.17g ", session.threads, recipe->batch, recipe->seconds) +
                                                        gate(step.gates.max_drop) + " " + gate(step.gates.max_group_drop);
  return hash_of({step.kind->name, std::to_string(step.kind->version), LATHE_VERSION_TEXT, step.options, contents, to_hex(model.hash), to_hex(original.hash), data_hash,
                  recipe->metric.name(), std::to_string(recipe->limit), isa_text(session.isa), device});
}

std::string step_text(const RecipeStep& step) { return "line " + std::to_string(step.line) + ", '" + step.kind->name + "'"; }

}  // namespace lathe::tools
