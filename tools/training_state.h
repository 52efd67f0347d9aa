// Where a training stands, and its checkpoint: an .npz file with the trainer's variables, the best network's constants and this
// state. Internal to tools/training.cc.
#pragma once
#include <optional>

#include "base/tree.h"
#include "tools/training.h"

namespace lathe::tools {

struct TrainingState {
  uint64_t step = 0;      // made in this attempt
  uint32_t halvings = 0;  // of the rate, each with a new attempt
  double rate = 0;
  double loss_sum = 0;           // of the epoch that is under way
  double seconds = 0;            // that it took so far
  std::vector<EpochRow> epochs;  // of this attempt
  uint32_t best_epoch = 0;
  std::optional<Graph> best;  // none: the run has not judged any
  std::vector<std::string> notes;
};

// All that a run's bits depend on, by name.
Result<Tree> training_settings(const Graph& model, const DataSplit& train, const DataSplit* val, const Dataset& data,
                               const TrainRequest& request);

Result<void> write_checkpoint(const std::string& path, const Tree& settings, const Graph& model, const TrainingState& state,
                              const train::Trainer& trainer);
// False if there is no such file. Errors: a damaged one, one of another run.
Result<bool> read_checkpoint(const std::string& path, const Tree& settings, const Graph& model, TrainingState* state,
                             train::Trainer* trainer);

}  // namespace lathe::tools
