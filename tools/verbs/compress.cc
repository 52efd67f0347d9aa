// lathe compress: a recipe from a model to its compressed versions.
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/progress.h"
#include "runtime/host/cpu.h"
#include "tools/compress/engine.h"
#include "tools/markup.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string recipe, work, registry, cost_table, report, output;
  bool dry_run = false, json = false;
};

// "", or "old 1.20" for the worst group and its drop.
std::string worst_text(const EvalReport& report) {
  if (!report.worst) return "";
  const FigureRow& row = report.groups[*report.worst];
  return row.name + formatted(" %.2f", row.drop);
}

void print_table(const Recipe& recipe, const SessionOptions& session, const CompressResult& result) {
  const std::string metric = recipe.metric.name();
  Table table({"version", "step", "file", "arena", "p50 us", "p99 us", metric, "drop", "worst group", "drop, " + result.choice_split, ""});
  for (const CompressRow& row : result.rows) {
    std::vector<std::string> cells{row.version.empty() ? "-" : row.version, row.step, bytes_text(static_cast<double>(row.model.bytes))};
    if (row.latency) cells.insert(cells.end(), {bytes_text(static_cast<double>(row.latency->arena_bytes)), formatted("%.1f", row.latency->p50_us), formatted("%.1f", row.latency->p99_us)});
    else cells.insert(cells.end(), {"", "", ""});
    if (row.report) cells.insert(cells.end(), {value_text(recipe.metric, row.report->all.value), formatted("%.2f", row.report->all.drop), worst_text(*row.report)});
    else cells.insert(cells.end(), {"", "", ""});
    cells.insert(cells.end(), {formatted("%.2f", row.choices.all.drop), row.outcome});
    table.add(std::move(cells));
  }
  std::printf("\n%s", table.text().c_str());
  if (!result.report_split.empty()) std::printf("%s, drop and worst group: split '%s'; ", metric.c_str(), result.report_split.c_str());
  std::printf("gates: split '%s'; latency: batch %u, %u thread%s, %s\n", result.choice_split.c_str(), recipe.batch, session.threads, session.threads == 1 ? "" : "s",
              isa_text(session.isa));
}

void set_report(Tree* to, const EvalReport& report, const Metric& metric) {
  const auto number = [](double v) { return std::isfinite(v) ? Tree(v) : Tree(); };
  to->set(metric.name(), number(report.all.value)).set("drop", number(report.all.drop)).set("samples", report.all.samples);
  if (report.worst) to->set("worst_group", report.groups[*report.worst].name).set("worst_group_drop", number(report.groups[*report.worst].drop));
}

Tree result_json(const Recipe& recipe, const SessionOptions& session, const CompressResult& result) {
  Tree rows = Tree::array(), out = Tree::table();
  for (const CompressRow& r : result.rows) {
    Tree row = Tree::table(), gate = Tree::table();
    row.set("step", r.step).set("version", r.version).set("path", r.model.path).set("file", to_hex(r.model.hash)).set("bytes", r.model.bytes).set("outcome", r.outcome);
    if (r.latency) row.set("arena_bytes", r.latency->arena_bytes).set("p50_us", r.latency->p50_us).set("p99_us", r.latency->p99_us);
    if (r.report) set_report(&row, *r.report, recipe.metric);
    set_report(&gate, r.choices, recipe.metric);
    rows.push(row.set("gate", std::move(gate)));
  }
  out.set("versions", std::move(rows)).set("steps_run", result.steps_run).set("steps_found", result.steps_found);
  if (result.last) out.set("last", result.rows[*result.last].version).set("file", to_hex(result.rows[*result.last].model.hash));
  out.set("metric", recipe.metric.name()).set("split", result.report_split).set("gate_split", result.choice_split).set("device", result.device);
  return out.set("threads", session.threads).set("batch", recipe.batch).set("isa", isa_text(session.isa)).set("failure", result.failure);
}

Result<void> print_plan(const Recipe& recipe, bool json) {
  LATHE_TRY(const Plan plan, plan_recipe(recipe));
  double total = 0;
  Tree rows = Tree::array(), out = Tree::table();
  Table table({"", "step", "what it does", "about"});
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PlannedStep& s = plan.steps[i];
    total += s.seconds;
    table.add({std::to_string(i), s.name, s.what, s.done ? "done" : duration_text(s.seconds)});
    Tree row = Tree::table();
    rows.push(row.set("step", s.name).set("what", s.what).set("done", s.done).set("seconds", s.seconds));
  }
  if (json) {
    std::printf("%s\n", to_json(out.set("steps", std::move(rows)).set("seconds", total).set("sample_us", plan.sample_us)).c_str());
    return {};
  }
  std::printf("%sabout %s, estimated from %.1f us that a float run of one sample takes here\n", table.text().c_str(), duration_text(total).c_str(), plan.sample_us);
  return {};
}

Result<void> run(const Options& o) {
  LATHE_TRY(Recipe recipe, read_recipe(o.recipe));
  for (const auto& [given, value] : {std::pair(&o.work, &recipe.work), {&o.registry, &recipe.registry}, {&o.cost_table, &recipe.cost_table},
                                     {&o.report, &recipe.report}, {&o.output, &recipe.output}})
    if (!given->empty()) *value = *given;
  for (const std::string* path : {&recipe.report, &recipe.output})
    if (!path->empty()) LATHE_CHECK_OK(check_writable(*path));
  if (o.dry_run) return print_plan(recipe, o.json);
  LATHE_TRY(const SessionOptions session, recipe.session.options());
  const auto line = [&](const std::string& text) {
    std::fprintf(o.json ? stderr : stdout, "%s\n", text.c_str());
    std::fflush(o.json ? stderr : stdout);
  };
  LATHE_TRY(const CompressResult result, run_recipe(recipe, line));
  if (o.json) std::printf("%s\n", to_json(result_json(recipe, session, result)).c_str());
  else print_table(recipe, session, result);
  return result.failure.empty() ? Result<void>() : fail(Code::kInvalidArgument, result.failure);
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("recipe", o->recipe, "TOML file: model, data, steps, gates (docs/compression.md)").required();
  args.flag("--dry-run", o->dry_run, "print what would be done, and about how long it takes");
  args.option("--work", o->work, "folder of what is done; default: as the recipe says, else RECIPE.work beside it");
  args.option("--registry", o->registry, "folder of the registry; default: as the recipe says, else lathe-registry beside it");
  args.option("--cost-table", o->cost_table, "file that measurements are taken from and added to; default: as the recipe says, else one in the work folder");
  args.option("--report", o->report, "HTML page to write about the model that the run ends with");
  args.option("-o,--output", o->output, ".lathe file to write: the model that the run ends with");
  args.flag("--json", o->json, "print JSON; what happens goes to stderr");
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_compress{"compress", "run a recipe: prune, train, quantize, judge and register, step by step",
                          "lathe compress recipe.toml --dry-run", setup};

}  // namespace lathe::tools
