#include "data/batches.h"

#include <cstring>
#include <future>
#include <mutex>
#include <unordered_map>

namespace lathe {
namespace {

constexpr uint64_t kOrderStream = 2, kPartnerStream = 3;  // data/augment.cc has stream 1

// In place, rows of `row_elems` floats.
void mix_values(float* values, size_t row_elems, const Batch& batch) {
  const std::vector<float> plain(values, values + batch.rows() * row_elems);
  for (size_t row = 0; row < batch.rows(); ++row) {
    const float own = batch.mix[row], other = 1 - own;
    const float* a = &plain[row * row_elems];
    const float* b = &plain[batch.partners[row] * row_elems];
    float* out = values + row * row_elems;
    for (size_t i = 0; i < row_elems; ++i) out[i] = own * a[i] + other * b[i];
  }
}

}  // namespace

struct Batches::Memo {
  std::mutex mutex;
  uint64_t epoch = 0;
  std::shared_ptr<const std::vector<uint32_t>> order;
  std::unordered_map<uint64_t, Hash128> hashes;
};

Result<Batches> Batches::make(const DataSplit& split, std::vector<DataInput> inputs, const Augment& augment, uint64_t seed,
                              uint32_t rows) {
  if (rows == 0) return fail(Code::kInvalidArgument, "a batch must have at least 1 sample");
  if (split.size() < rows)
    return fail(Code::kInvalidArgument, "split '" + split.name() + "' has " + std::to_string(split.size()) +
                                            " samples, a batch has " + std::to_string(rows));
  Batches out;
  out.split_ = &split;
  std::vector<RawSample> forms;
  std::vector<DType> dtypes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    forms.push_back(split.form(i));
    dtypes.push_back(inputs[i].dtype);
    out.changed_.push_back(applies_to(augment, forms.back()));
  }
  LATHE_CHECK_OK(check_augment(augment, forms, dtypes));
  out.inputs_ = std::move(inputs);
  out.augment_ = augment;
  out.seed_ = seed;
  out.rows_ = rows;
  if (split.has_targets()) out.target_elems_ = split.target(0).size();
  out.memo_ = std::make_shared<Memo>();
  return out;
}

std::shared_ptr<const std::vector<uint32_t>> Batches::order(uint64_t epoch) const {
  const std::scoped_lock lock(memo_->mutex);
  if (memo_->order == nullptr || memo_->epoch != epoch) {
    memo_->order =
        std::make_shared<const std::vector<uint32_t>>(permutation(split_->size(), Random(seed_, {kOrderStream, epoch})));
    memo_->epoch = epoch;
  }
  return memo_->order;
}

Result<void> Batches::fill_row(uint32_t row, const AugmentDraw& draw, Batch* out) const {
  const uint64_t sample = out->samples[row];
  for (size_t i = 0; i < inputs_.size(); ++i) {
    uint8_t* to = out->inputs[i].data() + row * inputs_[i].bytes;
    if (!changed_[i]) {
      LATHE_CHECK_OK(split_->fill(i, sample, to));
      continue;
    }
    const RawSample& form = split_->form(i);
    LATHE_CHECK_OK(split_->fill(i, sample, to, [&](const std::byte* stored, std::byte* changed) {
      change_sample(augment_, draw, form, stored, changed);
    }));
  }
  if (split_->has_labels()) out->labels[row] = split_->label(sample);
  if (target_elems_ != 0)
    std::memcpy(&out->targets[row * target_elems_], split_->target(sample).data(), target_elems_ * sizeof(float));
  if (augment_.mixup != 0) out->mix[row] = draw.mix;
  return {};
}

void Batches::mix_rows(uint64_t order_epoch, uint64_t index, Batch* out) const {
  out->partners = permutation(rows_, Random(seed_, {kPartnerStream, order_epoch, index}));
  out->mixed_labels.resize(out->labels.size());
  for (size_t row = 0; row < out->labels.size(); ++row) out->mixed_labels[row] = out->labels[out->partners[row]];
  for (size_t i = 0; i < inputs_.size(); ++i)
    mix_values(reinterpret_cast<float*>(out->inputs[i].data()), inputs_[i].bytes / sizeof(float), *out);
  if (target_elems_ != 0) mix_values(out->targets.data(), target_elems_, *out);
}

Result<void> Batches::fill(uint64_t epoch, uint64_t index, Batch* out) const {
  const uint64_t variant = augment_.variants == 0 ? epoch : epoch % augment_.variants;
  const uint64_t order_epoch = augment_.mixup != 0 ? variant : epoch;
  const auto order = this->order(order_epoch);
  out->variant = augment_.is_random() ? variant : 0;
  out->samples.assign(order->begin() + static_cast<ptrdiff_t>(index * rows_),
                      order->begin() + static_cast<ptrdiff_t>((index + 1) * rows_));
  out->inputs.resize(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) out->inputs[i].resize(rows_ * inputs_[i].bytes);
  out->labels.resize(split_->has_labels() ? rows_ : 0);
  out->targets.resize(rows_ * target_elems_);
  out->mix.resize(augment_.mixup != 0 ? rows_ : 0);
  for (uint32_t row = 0; row < rows_; ++row)
    LATHE_CHECK_OK(fill_row(row, draw_augment(augment_, seed_, variant, out->samples[row]), out));
  out->partners.clear();
  out->mixed_labels.clear();
  if (augment_.mixup != 0) mix_rows(order_epoch, index, out);
  return {};
}

Result<std::vector<Hash128>> Batches::keys(const Batch& batch) const {
  std::vector<Hash128> stored;
  for (const uint64_t sample : batch.samples) {
    const std::scoped_lock lock(memo_->mutex);
    const auto it = memo_->hashes.find(sample);
    if (it != memo_->hashes.end()) {
      stored.push_back(it->second);
      continue;
    }
    LATHE_TRY(const Hash128 hash, split_->hash(sample));
    stored.push_back(memo_->hashes.emplace(sample, hash).first->second);
  }
  std::vector<Hash128> out;
  for (size_t row = 0; row < batch.rows(); ++row) {
    // Samples of equal content draw differently, so that the sample's number counts where there is a draw.
    std::string text = to_hex(stored[row]);
    if (augment_.is_random()) text += " " + std::to_string(batch.variant) + " " + std::to_string(batch.samples[row]);
    if (!batch.mix.empty()) {
      const uint32_t partner = batch.partners[row];
      text += " " + to_hex(stored[partner]) + " " + std::to_string(batch.samples[partner]);
    }
    out.push_back(hash128(text));
  }
  return out;
}

struct BatchStream::State {
  const Batches& batches;
  uint64_t step;
  Batch front, back;
  std::future<Result<void>> pending;  // fills `back` with batch number `step`

  void prepare() {
    pending = std::async(std::launch::async,
                         [this] { return batches.fill(step / batches.per_epoch(), step % batches.per_epoch(), &back); });
  }
};

BatchStream::BatchStream(const Batches& batches, uint64_t step) : state_(new State{batches, step, {}, {}, {}}) {
  state_->prepare();
}

BatchStream::~BatchStream() { state_->pending.wait(); }

Result<const Batch*> BatchStream::next() {
  const Result<void> filled = state_->pending.get();
  if (filled) {
    std::swap(state_->front, state_->back);
    ++state_->step;
  }
  state_->prepare();
  if (!filled) return tl::unexpected<Error>(filled.error());
  return &state_->front;
}

}  // namespace lathe
