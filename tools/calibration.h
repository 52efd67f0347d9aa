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

// Of a model made with calibration: the hash of the samples that were observed (data/screen.h).
inline constexpr const char* kCalibrationHashKey = "calibration_hash";
// And how many they were.
inline constexpr const char* kCalibrationSamplesKey = "calibration_samples";

struct CalibrationFlags {
  std::string data, observer = "minmax", samples_from, on_nan = "fail";
  uint64_t samples = 1200;
  double percentile = 99.99;
  void add_to(Arguments& args);
  void add_choices_to(Arguments& args);  // all but --data, which the verb has declared
};

// Samples of a split as a network's inputs take them; it must outlive the source. `which`: by index of the source, their numbers in
// the split. Stops on Ctrl-C.
SampleSource sample_source(const DataSplit& split, std::vector<size_t> matching, std::vector<uint32_t> which);
// The first `count` samples of a split, or all it has.
SampleSource first_samples(const DataSplit& split, std::vector<size_t> matching, uint64_t count);

struct CalibrationRun {
  Calibration calibration;
  Dataset data;
  std::string split;  // that was read
  std::vector<uint32_t> observed;  // numbers of its samples, without those that were skipped
  std::vector<std::string> notes;  // why it is not the first choice, which samples were skipped
  std::string hash;                // of the samples that were observed
};

// Reads the samples that a list names, or those spread evenly over the calibration split (all, if there are fewer than asked for),
// and observes `graph`, which went through lowering_passes(). Also checks that the data fits the graph's inputs and stored
// preprocessing.
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

// Stores the data set's preprocessing in the metadata, with its hash, and the hash of the samples.
void store_origin(const CalibrationRun& run, std::map<std::string, std::string>* metadata);
// The first of these alone, where the samples do not shape the result.
void store_preprocessing(const Dataset& data, std::map<std::string, std::string>* metadata);

}  // namespace lathe::tools
