// Batches of a split as training reads them: shuffled every epoch, augmented, preprocessed.
//
// A batch depends on (seed, epoch, index) alone: not on the batches before it, on threads or on the machine, so that training may
// resume anywhere. Who calls it: train/, and tools that score a network by its gradients. Thread-safe; the split must outlive it.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "data/augment.h"
#include "data/dataset.h"

namespace lathe {

struct Batch {
  std::vector<std::vector<uint8_t>> inputs;  // per input: [rows, DataInput::dims...], dense
  std::vector<uint64_t> samples;             // by row: which of the split
  std::vector<int32_t> labels;               // by row; empty if the split has none
  std::vector<float> targets;                // [rows, elements of a target]; empty if the split has none
  // mixup, else empty: the inputs hold mix[i] x_i + (1 - mix[i]) x_j, j = partners[i]; for the loss the target is
  // mix[i] one_hot(labels[i]) + (1 - mix[i]) one_hot(mixed_labels[i]). `targets` are mixed already.
  std::vector<float> mix;
  std::vector<int32_t> mixed_labels;
  std::vector<uint32_t> partners;  // rows
  uint64_t variant = 0;            // what the draws of augmentation depend on besides seed and sample

  size_t rows() const { return samples.size(); }
};

class Batches {
 public:
  // `inputs`: those of the Dataset. Errors: no rows, a split smaller than a batch, what check_augment() refuses.
  static Result<Batches> make(const DataSplit& split, std::vector<DataInput> inputs, const Augment& augment, uint64_t seed,
                              uint32_t rows);

  // The samples that are left over when the last batch of an epoch is full wait for another epoch.
  uint64_t per_epoch() const { return split_->size() / rows_; }
  uint32_t rows() const { return rows_; }
  const Augment& augment() const { return augment_; }
  uint64_t seed() const { return seed_; }

  // Requires: index < per_epoch(). Buffers of *out are used again. Errors: those of DataSplit::fill().
  //
  // With Augment::variants and mixup the order repeats with the variants too, because partners come from the batch.
  Result<void> fill(uint64_t epoch, uint64_t index, Batch* out) const;

  // By row: names what the network sees in it. Equal keys of two batches (of equal augment() and, if that is random, seed()) mean
  // equal inputs, whatever the files are called.
  Result<std::vector<Hash128>> keys(const Batch& batch) const;

 private:
  struct Memo;  // the order of the last epoch asked for, and hashes of samples
  Batches() = default;
  std::shared_ptr<const std::vector<uint32_t>> order(uint64_t epoch) const;
  Result<void> fill_row(uint32_t row, const AugmentDraw& draw, Batch* out) const;
  void mix_rows(uint64_t order_epoch, uint64_t index, Batch* out) const;

  const DataSplit* split_ = nullptr;
  std::vector<DataInput> inputs_;
  Augment augment_;
  uint64_t seed_ = 0;
  uint32_t rows_ = 0;
  size_t target_elems_ = 0;
  std::vector<bool> changed_;  // by input: augmentation rewrites its stored samples
  std::shared_ptr<Memo> memo_;
};

// Batches one after the other, each made on another thread while the one before is used. One user at a time.
class BatchStream {
 public:
  // Starts with batch number `step`, counted over all epochs: index step % per_epoch() of epoch step / per_epoch().
  explicit BatchStream(const Batches& batches, uint64_t step = 0);
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  // The next batch, valid until the next call. After an error the same step is tried again.
  Result<const Batch*> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe
