// The graphs that a trainer runs. Internal to train/.
#pragma once
#include <vector>

#include "graph/grad/training_form.h"
#include "train/trainer.h"

namespace lathe::train {

// Inputs that stand behind the model's own.
enum class Extra : uint8_t { kLabels, kMixedLabels, kMix, kTargets, kTeacher, kRate, kDecay };

struct TrainedVariable {
  Trained trained;
  ValueId average = kNoId;  // variable, if the options keep averages
};

struct TrainingGraph {
  Graph graph;                              // outputs: the model's, the loss, and for gradients those of `parameters`
  std::vector<Extra> extras;                // in the order of their inputs
  int64_t classes = 0;                      // labels are below it; 0: none
  std::vector<TrainedVariable> parameters;  // without fixed ones and those that the loss does not depend on
  std::vector<TrainedVariable> statistics;
};

// Each run makes a step: parameters, statistics, averages and the optimizer's state are assigned.
Result<TrainingGraph> make_step_graph(const Graph& model, const TrainerOptions& options);
// Each run gives gradients of the same loss.
Result<TrainingGraph> make_gradient_graph(const Graph& model, const TrainerOptions& options);

}  // namespace lathe::train
