#include "tools/batch_feeder.h"

#include <cmath>

#include "tools/calibration.h"
#include "tools/data_binding.h"

namespace lathe::tools {
namespace {

Result<Shape> batch_shape(const ModelInput& input, const std::vector<int64_t>& sample, uint32_t rows) {
  if (!input.dims.empty() && input.dims[0] >= 0 && input.dims[0] != rows)
    return fail(Code::kInvalidArgument, "input '" + input.name + "' fixes the batch at " + std::to_string(input.dims[0]) +
                                            ", not " + std::to_string(rows) +
                                            ": export the model with an open batch, or import it with --shape");
  Shape shape;
  shape.dims[shape.rank++] = static_cast<int32_t>(rows);
  for (const int64_t d : sample) shape.dims[shape.rank++] = static_cast<int32_t>(d);
  return shape;
}

}  // namespace

train::Loss default_loss(const DataSplit& split) {
  return split.has_labels() ? train::Loss::kCrossEntropy : train::Loss::kMeanSquared;
}

Result<BatchFeeder> BatchFeeder::make(const Graph& model, const Dataset& data, const DataSplit& split, train::Loss loss,
                                      const Augment& augment, uint64_t seed, uint32_t rows) {
  const bool labels = loss == train::Loss::kCrossEntropy;
  if (labels ? !split.has_labels() : !split.has_targets())
    return fail(Code::kInvalidArgument, data.description().path + ": split '" + split.name() + "' has no " +
                                            (labels ? "labels" : "targets") + ", which the loss needs");
  BatchFeeder made;
  made.loss_ = loss;
  const std::vector<ModelInput> inputs = graph_inputs(model);
  LATHE_TRY(made.matching_, match_inputs(inputs, model.metadata, data));
  for (size_t i = 0; i < inputs.size(); ++i) {
    LATHE_TRY(const Shape shape, batch_shape(inputs[i], data.inputs()[made.matching_[i]].dims, rows));
    made.shapes_.push_back(shape);
  }
  LATHE_TRY(Batches batches, Batches::make(split, data.inputs(), augment, seed, rows));
  made.batches_ = std::make_shared<Batches>(std::move(batches));
  made.seek(0);
  return made;
}

void BatchFeeder::seek(uint64_t step) { stream_ = std::make_unique<BatchStream>(*batches_, step); }

Result<void> BatchFeeder::read_tokens(const Batch& batch) {
  tokens_.clear();
  for (const float v : batch.targets) {
    if (v != std::floor(v) || std::fabs(v) > 1e9f)
      return fail(Code::kInvalidArgument, "target " + std::to_string(v) + " is no token");
    tokens_.push_back(static_cast<int32_t>(v));
  }
  data_.labels = tokens_;
  return {};
}

Result<const train::StepData*> BatchFeeder::next() {
  LATHE_TRY(const Batch* batch, stream_->next());
  data_ = {};
  data_.shapes = shapes_;
  for (const size_t i : matching_) data_.inputs.push_back(batch->inputs[i].data());
  data_.labels = batch->labels;
  data_.mixed_labels = batch->mixed_labels;
  data_.mix = batch->mix;
  data_.targets = batch->targets;
  if (loss_ == train::Loss::kTokens) LATHE_CHECK_OK(read_tokens(*batch));
  if (teacher_) {
    LATHE_CHECK_OK(teacher_(*batch, &logits_));
    data_.teacher = logits_;
  }
  return &data_;
}

}  // namespace lathe::tools
