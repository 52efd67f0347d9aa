// What a run and a plan of a recipe share: the data, the device, the original, and what each result is called. Internal to compress/.
#pragma once
#include <string>

#include "tools/compress/figures.h"

namespace lathe::tools {

struct Course {
  const Recipe* recipe = nullptr;
  Dataset data;
  std::string data_hash;
  SessionOptions session;
  ChosenSplit choices;
  const DataSplit* report = nullptr;  // null: the data set has no split test
  std::string cost_table;

  // Errors: the data set's; a recipe that trains without a split to judge by.
  static Result<Course> open(const Recipe& recipe);
  FigureContext figures() const { return {recipe, &data, data_hash, session}; }
  StepInput input(const RecipeStep& step, const std::string& model, const std::string& original) const;

  // Of the imported original; depends on the file's bytes.
  Result<Hash128> original_key() const;
  // Of what a step makes of a model.
  Result<Hash128> step_key(const RecipeStep& step, const WorkModel& model, const WorkModel& original) const;
};

// "line 12, 'prune'".
std::string step_text(const RecipeStep& step);

}  // namespace lathe::tools
