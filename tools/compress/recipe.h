// Recipes of `lathe compress`: a TOML file that says which steps take which model to which versions. docs/compression.md has the keys.
//
// Reading checks all that the file alone tells: keys, ranges, and the order of steps. Every error names file and line.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tools/compress/step.h"
#include "tools/flags.h"

namespace lathe::tools {

enum class OnFail : uint8_t {
  kStop,      // ends the run; what held before stays
  kStepBack,  // goes on from the model that held before
};

struct RecipeStep {
  const StepKind* kind = nullptr;
  std::unique_ptr<Step> step;
  std::string options;  // of its kind, in one form for equal contents
  std::string name;     // of the version that it makes; empty: as its kind says
  Gates gates;
  OnFail on_fail = OnFail::kStop;
  bool judged_later = false;  // the next step that changes the model wins back what this one costs
  uint32_t line = 0;
};

struct Recipe {
  std::string path;
  std::string model, data;  // files
  std::string name;         // that versions begin with
  std::string registry, work;  // folders
  std::string cost_table;      // file
  std::string report, output;  // files; empty: none
  bool promote = false;        // makes the version that the run ends with the current one
  Metric metric;
  uint64_t limit = 0;  // samples that gates look at; 0: all
  SessionFlags session;
  uint32_t batch = 1;
  double seconds = 1;
  ImportFlags import;
  std::vector<RecipeStep> steps;
};

Result<Recipe> read_recipe(const std::string& path);
// `where` opens errors, `folder` is where relative paths begin.
Result<Recipe> parse_recipe(std::string_view text, const std::string& where, const std::string& folder);

}  // namespace lathe::tools
