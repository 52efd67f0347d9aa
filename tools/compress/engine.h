// Runs a recipe: from one model to its compressed versions, step by step, each gate before the next step.
//
// A run may be ended at any instant and started again: what was done is found in the work folder (work_folder.h) and not done twice, and
// the result is the one of a run that was never ended. A changed recipe repeats only what depends on the change. Every version that
// holds its gates is in the registry before the next step begins.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/compress/figures.h"

namespace lathe::tools {

// One model of the run.
struct CompressRow {
  std::string step;     // "original", or its kind
  std::string version;  // in the registry; empty: it is not there
  WorkModel model;
  EvalReport choices;  // against the original, on the split that gates look at
  std::string outcome;  // "", "judged after 'train'", "stepped back: ...", "failed: ..."
  // Of versions in the registry:
  std::optional<Latency> latency;
  std::optional<EvalReport> report;  // on the split for reports
};

struct CompressResult {
  std::vector<CompressRow> rows;
  std::optional<size_t> last;  // row of the model that the run ended with
  std::string device, choice_split, report_split;  // report_split is empty where the data set has no test split
  std::string failure;         // of the gate that ended the run; empty: none
  size_t steps_run = 0, steps_found = 0;
};

// What happens, line by line.
using CompressLines = std::function<void(const std::string&)>;

// Errors: those of steps, with the recipe's line; data that has no split to judge by. A gate that does not hold is no error
// but CompressResult::failure.
Result<CompressResult> run_recipe(const Recipe& recipe, const CompressLines& line);

struct PlannedStep {
  std::string name, what;
  bool done = false;
  double seconds = 0;  // estimated; 0 where it is done
};
struct Plan {
  std::vector<PlannedStep> steps;
  double sample_us = 0;  // of a float run at batch 1, measured
};
// What a run would do. Writes nothing.
Result<Plan> plan_recipe(const Recipe& recipe);

}  // namespace lathe::tools
