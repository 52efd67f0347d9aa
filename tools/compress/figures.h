// Figures of the models of a recipe, each found once and kept in the work folder: accuracy by group on a split, latency and arena.
#pragma once
#include <map>
#include <string>

#include "tools/compress/recipe.h"
#include "tools/compress/work_folder.h"

namespace lathe::tools {

struct GroupFigure {
  uint64_t samples = 0;
  double value = 0;
};

// By group; "" is all samples.
using Figures = std::map<std::string, GroupFigure>;

struct Latency {
  double p50_us = 0, p99_us = 0;
  uint64_t arena_bytes = 0;
};

// What figures depend on besides the model.
struct FigureContext {
  const Recipe* recipe = nullptr;
  const Dataset* data = nullptr;
  std::string data_hash;
  SessionOptions session;
};

// Of the first `limit` samples of a split (0: all).
Result<Figures> figures_of(WorkFolder& work, const FigureContext& context, const WorkModel& model, const DataSplit& split, uint64_t limit);
Result<Latency> latency_of(WorkFolder& work, const FigureContext& context, const WorkModel& model);

// How far a model is from the original, as gates see it.
EvalReport compare_figures(const Metric& metric, const Figures& original, const Figures& model);

// Of everything that a data set can give a model: samples, labels, targets, groups, preprocessing and classes, split by split.
Result<std::string> content_hash(const Dataset& data);

}  // namespace lathe::tools
