// Calibration from the command line: shared by `calibrate` and `quantize`.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "graph/file/model_file.h"
#include "quant/calibrate.h"
#include "tools/arguments.h"
#include "tools/data_binding.h"
#include "tools/flags.h"

namespace lathe::tools {

// What a graph says of its inputs; dims with symbols are -1.
std::vector<ModelInput> graph_inputs(const Graph& graph);

struct CalibrationFlags {
  std::string data, observer = "minmax";
  uint64_t samples = 1200;
  double percentile = 99.99;
  void add_to(Arguments& args);
};

struct CalibrationRun {
  Calibration calibration;
  Dataset data;
  std::string split;  // that was read
  std::string note;   // why it is not the first choice; may be empty
};

// Reads samples spread evenly over the calibration split (all, if there are fewer than asked for) and observes `graph`, which
// went through lowering_passes(). Also checks that the data fits the graph's inputs and stored preprocessing.
Result<CalibrationRun> run_calibration(const Graph& graph, const CalibrationFlags& flags, const SessionOptions& session);

// Ranges of every activation.
struct Ranges {
  RangeTable table;
  std::vector<ObservedValue> observed;
  std::optional<CalibrationRun> run;  // empty: they came from the file
};
// From the data set that the flags name, or else those that the model's file, lowered already, keeps. Error: neither.
Result<Ranges> find_ranges(const std::string& path, const ModelFile& lowered, const CalibrationFlags& flags,
                           const SessionOptions& session);

// Stores the data set's preprocessing in the metadata, with its hash.
void store_preprocessing(const Dataset& data, std::map<std::string, std::string>* metadata);

}  // namespace lathe::tools
