// Trains a network: its training form, a loss, gradients, an optimizer and moving averages as one graph, compiled for this host,
// that runs a step at a time; every run of the program is one step.
//
// Who calls it: tools/training.h and what finds parameters' scores by their gradients. It reads no data set and keeps no
// schedule: a step brings its samples and its learning rate. The same steps from the same start give the same bits, whatever the
// number of threads. One thread at a time.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tensor.h"
#include "graph/ir.h"
#include "runtime/host/session.h"
#include "train/losses.h"
#include "train/optimizer.h"

namespace lathe::train {

// What the first output is trained for. A softmax at its end is left out: losses work on what goes into it.
enum class Loss : uint8_t {
  kCrossEntropy,  // its values per sample are the logits of that many classes
  kTokens,        // cross-entropy of every position: logits along the last axis, a label per position
  kMeanSquared,   // as many values as the target has
};
enum class Optimizer : uint8_t { kSgd, kAdamW };

struct TrainerOptions {
  Loss loss = Loss::kCrossEntropy;
  float smoothing = 0;                  // of labels
  bool mixup = false;                   // steps bring StepData::mixed_labels and mix
  std::optional<Distillation> teacher;  // steps bring StepData::teacher; `smoothing` above counts, not the one in here
  Optimizer optimizer = Optimizer::kSgd;
  SgdOptions sgd = {};
  AdamWOptions adamw = {};
  float sparsity = 0;  // of L1 on the scales of batch normalizations, which can switch channels off
  // Decay of moving averages of parameters and statistics; 0: none. In step t, from 0, it is at most (1 + t) / (10 + t), so that
  // the start is forgotten in time.
  float average = 0;
  float statistics_momentum = 0.1f;
  std::vector<std::string> fixed = {};  // names of constants that stay as they are
};

// One batch. Spans for what the options do not ask for are not read.
struct StepData {
  std::vector<const void*> inputs;             // by input of the model: dense samples, one after another
  std::vector<Shape> shapes;                   // by input, with batch
  std::span<const int32_t> labels = {};        // per sample; kTokens: per position
  std::span<const int32_t> mixed_labels = {};  // as many
  std::span<const float> mix = {};             // as many, the share of `labels`
  std::span<const float> targets = {};         // kMeanSquared: as many as the first output has values
  std::span<const float> teacher = {};         // its logits: as many as the first output has values
};

struct ParameterGradient {
  std::string constant;  // name in the model
  std::span<const float> value, gradient;
};

class Trainer {
 public:
  // `model`: as it is imported or read, before lowering_passes(). Errors: nothing to train, an op without a gradient (named), a
  // first output that the loss cannot take, options out of range, a fixed name that is no parameter.
  static Result<Trainer> create(const Graph& model, const TrainerOptions& options, const SessionOptions& session);
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;
  ~Trainer();

  // One step with this learning rate; returns the batch's loss before it (without the L1 of `sparsity`). Errors: data that does
  // not fit; a loss or a new parameter that is NaN or infinite, with the step (from 1) and the first tensor that is, in order of
  // execution, while all it is computed from is finite. The state is then that before the step.
  Result<float> step(const StepData& data, float rate);
  uint64_t steps() const;  // made so far
  bool diverged() const;   // whether the last call of step() failed because its numbers were not finite

  // Gradients of the batch's loss without a step, by parameter; views until the next call. Batch normalizations use the batch's
  // statistics, and nothing changes.
  Result<std::vector<ParameterGradient>> gradients(const StepData& data);

  // The model with its constants as they are now: parameters and running statistics, or (`averaged`) their moving averages where
  // the options keep them.
  Result<Graph> trained(bool averaged = true) const;

  // Everything that later steps depend on, and back, to the bit. restore() fails if names or sizes are not those of this trainer.
  std::vector<NamedTensor> state() const;
  Result<void> restore(const std::vector<NamedTensor>& state);
  // To where create() left it.
  void reset();

  // Names of the constants that steps change, without statistics.
  std::vector<std::string> parameters() const;

 private:
  struct Impl;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::train
