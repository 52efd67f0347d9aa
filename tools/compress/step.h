// A kind of step of a recipe: one file under tools/compress/steps/, one line in steps.inc.
//
// A step reads one model and makes another, or only looks at it. It depends on its options, on the model, on the data and, where it
// measures, on the device; the engine (engine.h) keeps its result under a hash of all these and runs it once.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/tree.h"
#include "data/dataset.h"
#include "graph/file/model_file.h"
#include "tools/evaluation.h"

namespace lathe::tools {

// What a step is to those after it.
enum class StepRole : uint8_t {
  kLook,     // makes no model
  kAside,    // makes a version that no later step reads
  kFloat,    // makes the float model that later steps read
  kInteger,  // makes the integer model: only kLook may follow
};

// What a running step may use.
struct StepInput {
  std::string model, original;  // .lathe files
  const Dataset* data = nullptr;
  Metric metric;
  uint64_t limit = 0;  // samples for choices
  Gates gates;         // that the result will be held to, against the original
  SessionOptions session;
  uint32_t batch = 1;
  double seconds = 1;  // of measuring a network
  std::string cost_table;
  std::string scratch;  // path that files of its own begin with; the same when it runs again, and removed when it is done
  std::string shared;   // the same for files that other steps and later runs may use, too
};

struct StepOutput {
  std::optional<Graph> graph;
  WriteOptions write;
  Tree details = Tree::table();    // kept in its record
  std::vector<std::string> lines;  // for people
};

// For the estimate of a step's time.
struct StepCosts {
  double sample_seconds = 0;  // of a float run of one sample
  uint64_t train = 0, calib = 0, choices = 0;  // samples
  double measure_seconds = 1;
};

class Step {
 public:
  virtual ~Step() = default;
  // "25 % of the channels, by gamma".
  virtual std::string what() const = 0;
  // What can be told before anything runs: files that are missing, a teacher that is another network.
  virtual Result<void> check([[maybe_unused]] const Graph& original) const { return {}; }
  // Contents of files that options name, as text; they are part of what the result depends on.
  virtual Result<std::string> contents() const { return std::string(); }
  virtual Result<void> run(const StepInput& input, StepOutput* output) const = 0;
  virtual double seconds(const StepCosts& costs) const = 0;
};

struct StepKind {
  const char* name;
  uint32_t version;  // rises when equal inputs give another result
  StepRole role;
  bool measures;   // the device decides
  bool wins_back;  // a step before it that changes the model is judged after it
  const char* version_name;  // of the version that it makes; null: that of the model which it read
  // Options of the step's table; `folder` is the recipe's, for relative paths.
  Result<std::unique_ptr<Step>> (*parse)(TableReader& table, const std::string& folder);
};

#define LATHE_STEP(name) extern const StepKind kStep_##name;
#include "tools/compress/steps.inc"
#undef LATHE_STEP

// nullptr if there is none.
const StepKind* find_step_kind(std::string_view name);
// "profile, fp16, ...".
std::string step_kind_names();

// A path in a recipe: absolute, or from the recipe's folder.
std::string recipe_path(const std::string& folder, const std::string& path);
// Keys that several kinds read: a share above 0 and below 1, a number above 0, samples.
Result<double> positive_or(TableReader& table, std::string_view key, double otherwise);

}  // namespace lathe::tools
