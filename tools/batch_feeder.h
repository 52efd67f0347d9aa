// Batches of a data set as a trainer takes them. Who calls it: training, and what scores a network by its gradients.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "data/batches.h"
#include "train/trainer.h"

namespace lathe::tools {

// What a split can train: classes where it has labels, else values.
train::Loss default_loss(const DataSplit& split);

class BatchFeeder {
 public:
  // `model`, `data` and `split` must outlive it. Errors: data that does not fit the model (tools/data_binding.h), a model that
  // fixes another batch, a split without what the loss needs, one smaller than a batch, an augmentation that does not fit.
  static Result<BatchFeeder> make(const Graph& model, const Dataset& data, const DataSplit& split, train::Loss loss,
                                  const Augment& augment, uint64_t seed, uint32_t rows);

  const Batches& batches() const { return *batches_; }
  uint64_t per_epoch() const { return batches_->per_epoch(); }
  // The next batch is number `step`, counted over all epochs.
  void seek(uint64_t step);
  // Gives every batch the logits of a teacher.
  using Teacher = std::function<Result<void>(const Batch& batch, std::vector<float>* logits)>;
  void set_teacher(Teacher teacher) { teacher_ = std::move(teacher); }
  // Valid until the next call.
  Result<const train::StepData*> next();

 private:
  BatchFeeder() = default;
  Result<void> read_tokens(const Batch& batch);

  train::Loss loss_ = train::Loss::kCrossEntropy;
  std::shared_ptr<Batches> batches_;
  std::unique_ptr<BatchStream> stream_;
  std::vector<size_t> matching_;  // by input of the model: the data set's
  std::vector<Shape> shapes_;     // by input of the model
  train::StepData data_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;
  Teacher teacher_;
};

}  // namespace lathe::tools
