#include "tools/compress/recipe.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/store/registry.h"
#include "base/toml.h"

namespace lathe::tools {
namespace {

namespace fs = std::filesystem;

// Keys of a step that are the engine's, not its kind's.
constexpr std::string_view kStepKeys[] = {"do", "name", "max_drop", "max_group_drop", "on_fail"};

Result<std::optional<double>> limit_of(TableReader& table, std::string_view key) {
  const Tree* v = table.get(key);
  if (v == nullptr) return std::optional<double>();
  LATHE_TRY(const double limit, table.number(key));
  if (!(limit >= 0)) return table.error(*v, "'" + std::string(key) + "' must be at least 0");
  return std::optional(limit);
}

Result<OnFail> on_fail_of(TableReader& table, OnFail otherwise) {
  const Tree* v = table.get("on_fail");
  if (v == nullptr) return otherwise;
  LATHE_TRY(const std::string text, table.string("on_fail"));
  if (text == "stop") return OnFail::kStop;
  if (text == "step-back") return OnFail::kStepBack;
  return table.error(*v, "'on_fail' is '" + text + "', must be stop or step-back");
}

Result<std::string> version_name(TableReader& table, std::string otherwise) {
  LATHE_TRY(std::string name, table.string_or("name", std::move(otherwise)));
  const Tree* v = table.get("name");
  if (v != nullptr && !is_version_name(name))
    return table.error(*v, "'" + name + "' cannot be the name of a version (letters, digits, '.', '_', '-')");
  return name;
}

// Options of the kind's own with their keys in alphabetical order: the same text for tables that say the same.
std::string canonical_options(const Tree& table) {
  Tree::Table kept;
  for (const auto& entry : *table.as_table())
    if (std::find(std::begin(kStepKeys), std::end(kStepKeys), entry.first) == std::end(kStepKeys)) kept.push_back(entry);
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Tree out = Tree::table();
  for (auto& [key, value] : kept) out.set(key, std::move(value));
  return to_json(out, -1);
}

// What every step shares unless it says otherwise.
struct Defaults {
  Gates gates;
  OnFail on_fail = OnFail::kStop;
};

Result<RecipeStep> parse_step(const Tree& tree, const std::string& where, const std::string& folder, const Defaults& defaults) {
  LATHE_TRY(TableReader table, TableReader::open(tree, where));
  LATHE_TRY(const std::string what, table.string("do"));
  RecipeStep step;
  step.line = tree.line();
  step.kind = find_step_kind(what);
  if (step.kind == nullptr) return table.error(*table.get("do"), "no step '" + what + "'; there are " + step_kind_names());
  LATHE_TRY(step.name, version_name(table, ""));
  LATHE_TRY(step.gates.max_drop, limit_of(table, "max_drop"));
  LATHE_TRY(step.gates.max_group_drop, limit_of(table, "max_group_drop"));
  LATHE_TRY(step.on_fail, on_fail_of(table, defaults.on_fail));
  if (step.kind->role == StepRole::kLook)
    for (const char* key : {"name", "max_drop", "max_group_drop", "on_fail"})
      if (const Tree* v = table.get(key); v != nullptr) return table.error(*v, "'" + what + "' makes no model: '" + key + "' means nothing here");
  LATHE_TRY(step.step, step.kind->parse(table, folder));
  LATHE_CHECK_OK(table.finish());
  step.options = canonical_options(tree);
  return step;
}

bool changes_model(const RecipeStep& step) { return step.kind->role == StepRole::kFloat || step.kind->role == StepRole::kInteger; }

tl::unexpected<Error> at_line(const std::string& where, uint32_t line, const std::string& text) {
  return fail(Code::kInvalidArgument, where + ":" + std::to_string(line) + ": " + text);
}

Result<void> check_order(const std::vector<RecipeStep>& steps, const std::string& where) {
  const RecipeStep* integer = nullptr;
  for (const RecipeStep& step : steps) {
    if (integer != nullptr && step.kind->role != StepRole::kLook)
      return at_line(where, step.line, "'" + std::string(step.kind->name) + "' comes after '" + integer->kind->name + "' (line " +
                                           std::to_string(integer->line) + "), which makes the model INT8: it must come before");
    if (step.kind->role == StepRole::kInteger) integer = &step;
  }
  return {};
}

// Steps without gates of their own take the recipe's; one whose loss the next step wins back is judged after that.
void settle_gates(std::vector<RecipeStep>& steps, const Defaults& defaults) {
  for (size_t i = 0; i < steps.size(); ++i) {
    RecipeStep& step = steps[i];
    const bool own = step.gates.max_drop || step.gates.max_group_drop;
    const auto next = std::find_if(steps.begin() + static_cast<ptrdiff_t>(i) + 1, steps.end(), changes_model);
    step.judged_later = !own && step.kind->role == StepRole::kFloat && !step.kind->wins_back && next != steps.end() && next->kind->wins_back;
    if (!own) step.gates = defaults.gates;
  }
}

Result<void> parse_files(TableReader& table, const std::string& where, const std::string& folder, Recipe* r) {
  struct Entry {
    const char* key;
    std::string* value;
    std::string otherwise;
  };
  const Entry entries[] = {{"registry", &r->registry, "lathe-registry"}, {"report", &r->report, ""}, {"output", &r->output, ""},
                           {"work", &r->work, fs::path(where).stem().string() + ".work"}, {"cost_table", &r->cost_table, ""}};
  LATHE_TRY(const std::string model, table.string("model"));
  LATHE_TRY(const std::string data, table.string("data"));
  r->model = recipe_path(folder, model);
  r->data = recipe_path(folder, data);
  for (const Entry& e : entries) {
    LATHE_TRY(*e.value, table.string_or(e.key, e.otherwise));
    if (!e.value->empty()) *e.value = recipe_path(folder, *e.value);
  }
  return {};
}

Result<void> parse_measuring(TableReader& table, Recipe* r) {
  LATHE_TRY(const std::string metric, table.string_or("metric", "accuracy"));
  auto parsed = parse_metric(metric);
  if (!parsed) return table.error(*table.get("metric"), parsed.error().message);
  r->metric = *parsed;
  LATHE_TRY(const int64_t limit, table.integer_or("limit", 0, INT32_MAX, 0));
  LATHE_TRY(const int64_t threads, table.integer_or("threads", 0, 1024, 1));
  LATHE_TRY(const int64_t batch, table.integer_or("batch", 1, 65536, 1));
  LATHE_TRY(r->session.isa, table.string_or("isa", ""));
  LATHE_TRY(r->seconds, positive_or(table, "seconds", 1));
  r->limit = static_cast<uint64_t>(limit);
  r->session.threads = static_cast<uint32_t>(threads);
  r->batch = static_cast<uint32_t>(batch);
  if (table.get("const") != nullptr) {
    LATHE_TRY(r->import.constants, table.strings("const"));
  }
  if (table.get("shape") != nullptr) {
    LATHE_TRY(r->import.shapes, table.strings("shape"));
  }
  return {};
}

Result<Defaults> parse_gates(TableReader& table, const std::string& where) {
  Defaults defaults;
  const Tree* tree = table.get("gates");
  if (tree == nullptr) return defaults;
  LATHE_TRY(TableReader gates, TableReader::open(*tree, where));
  LATHE_TRY(defaults.gates.max_drop, limit_of(gates, "max_drop"));
  LATHE_TRY(defaults.gates.max_group_drop, limit_of(gates, "max_group_drop"));
  LATHE_TRY(defaults.on_fail, on_fail_of(gates, OnFail::kStop));
  LATHE_CHECK_OK(gates.finish());
  return defaults;
}

}  // namespace

Result<Recipe> parse_recipe(std::string_view text, const std::string& where, const std::string& folder) {
  LATHE_TRY(const Tree tree, parse_toml(text, where));
  LATHE_TRY(TableReader table, TableReader::open(tree, where));
  Recipe r;
  r.path = where;
  LATHE_CHECK_OK(parse_files(table, where, folder, &r));
  LATHE_CHECK_OK(parse_measuring(table, &r));
  LATHE_TRY(r.name, version_name(table, fs::path(where).stem().string()));
  LATHE_TRY(r.promote, table.boolean_or("promote", false));
  LATHE_TRY(const Defaults defaults, parse_gates(table, where));
  const Tree* steps = table.get("step");
  if (steps == nullptr) return table.missing("step");
  if (steps->as_array() == nullptr || steps->as_array()->empty()) return table.error(*steps, "steps are tables [[step]]");
  for (const Tree& step : *steps->as_array()) {
    LATHE_TRY(r.steps.emplace_back(), parse_step(step, where, folder, defaults));
  }
  LATHE_CHECK_OK(table.finish());
  LATHE_CHECK_OK(check_order(r.steps, where));
  settle_gates(r.steps, defaults);
  return r;
}

Result<Recipe> read_recipe(const std::string& path) {
  LATHE_TRY(const std::string text, read_text_file(path));
  return parse_recipe(text, path, fs::path(path).parent_path().string());
}

}  // namespace lathe::tools
