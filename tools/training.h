// Training on a data set: epochs, schedules, validation, checkpoints. Shared by `lathe train` and by what trains on the way.
//
// Training reads split `train`; split `val` chooses the best epoch; `test` is never touched. A run depends on the model, the
// data, the request and its seed, not on threads, nor on whether it was interrupted and went on from its checkpoint.
#pragma once
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "data/batches.h"
#include "tools/evaluation.h"
#include "tools/teacher.h"
#include "train/schedule.h"
#include "train/trainer.h"

namespace lathe::tools {

inline constexpr double kFineTuningShare = 0.15;  // of the rate that a network was trained with, to fine-tune it
inline constexpr double kQatShare = 0.1;          // to train it with quantization

struct EpochRow {
  uint32_t epoch = 0;                                       // from 1; 0: before training
  double loss = 0;                                          // mean over its batches
  double value = std::numeric_limits<double>::quiet_NaN();  // of the metric on val; NaN: not judged
  double rate = 0;                                          // of its last step
  double seconds = 0;
};

struct TrainRequest {
  train::TrainerOptions trainer = {};  // mixup and teacher are set from what follows
  Metric metric = {};
  uint32_t epochs = 10, batch = 128;
  // The highest learning rate; 0: the one of a few that brings the loss down furthest in a few steps.
  double rate = 0;
  train::ScheduleKind schedule = train::ScheduleKind::kCosine;
  double warmup_epochs = 0;
  std::vector<double> milestones = {};  // in epochs, ascending
  double step_decay = 0.1, last_factor = 0;
  Augment augment = {};
  uint64_t seed = 1;
  SessionOptions session = {};
  uint32_t patience = 0;  // epochs without a better one that end the run; 0: never
  // The network knows nothing yet: its weights are made anew, and it begins a lineage. Otherwise it is judged before training,
  // and if it is worse after the first or second epoch than chance allows (paired test, 5 %), it is restored and the rate halved,
  // unless `keep_rate` says to go on.
  bool from_scratch = false;
  bool keep_rate = false;
  TeacherRequest teacher = {};
  std::string checkpoint = {};  // file; empty: none. A run that finds its own goes on from it
  // What is judged in place of the trained network (quantization-aware training: its converted form).
  std::function<Result<Graph>(const Graph& trained)> judged = {};
  std::string progress = "training";  // empty: nothing
  std::function<void(const EpochRow& row, double seconds_left)> on_epoch = {};
  std::function<void(const std::string& note)> on_note = {};
};

struct TrainResult {
  Graph graph;                   // of the best epoch, or of the last one without a split val
  std::vector<EpochRow> epochs;  // of the attempt that counts; the first is epoch 0 where the network was judged before training
  uint32_t best_epoch = 0;
  double rate = 0;     // that the run came to use
  bool early = false;  // patience ended it
  std::vector<std::string> notes;
};

// Errors: what keeps data and model apart, a split without samples enough, options out of range, a step that ends in NaN (with
// step and tensor), a checkpoint of another run (the first difference is named), kCancelled on Ctrl-C, after which the same call
// goes on from the checkpoint.
Result<TrainResult> train_model(const Graph& model, const Dataset& data, const TrainRequest& request);

}  // namespace lathe::tools
