#include "tools/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "base/cancel.h"
#include "base/progress.h"
#include "graph/lineage.h"
#include "tools/batch_feeder.h"
#include "tools/calibration.h"
#include "tools/markup.h"
#include "tools/training_state.h"
#include "train/initialize.h"

namespace lathe::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCheckpointSeconds = 600;  // of an epoch, between checkpoints
constexpr uint32_t kMostHalvings = 6, kFirstEpochs = 2;
constexpr double kChance = 0.05;  // a probability below it is no chance
constexpr uint64_t kSearchSteps = 30;
// Tried from the lowest on; for AdamW, whose steps do not scale with gradients, a thirtieth.
constexpr double kSearchRates[] = {0.0003, 0.001, 0.003, 0.01, 0.03, 0.1};
constexpr double kAdamWShare = 1.0 / 30;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Why the request cannot be met; empty: it can.
std::string refusal(const TrainRequest& r, const DataSplit* val) {
  if (r.epochs == 0 || r.batch == 0) return "training needs at least one epoch, and one sample in a batch";
  if (!(r.rate >= 0) || !std::isfinite(r.rate)) return formatted("the learning rate is %g, must be above 0", r.rate);
  if (!(r.warmup_epochs >= 0) || r.warmup_epochs > r.epochs)
    return formatted("warm-up takes %g epochs of %u", r.warmup_epochs, r.epochs);
  if (!std::is_sorted(r.milestones.begin(), r.milestones.end())) return "milestones must be in ascending order";
  if (r.patience != 0 && val == nullptr) return "patience looks at split 'val', which the data set does not have";
  if (r.from_scratch && r.teacher.graph != nullptr) return "a network from scratch has no teacher: it comes from no other";
  return "";
}

class Training {
 public:
  Training(const Graph& model, const Dataset& data, const TrainRequest& request)
      : model_(model), data_(data), request_(request), train_(data.split("train")), val_(data.split("val")) {}

  Result<TrainResult> run() {
    LATHE_CHECK_OK(open());
    auto done = go();
    if (done) return finish();
    if (done.error().code == Code::kCancelled) return interrupted();
    return tl::unexpected(std::move(done.error()));
  }

 private:
  bool judges_start() const { return !request_.from_scratch && val_ != nullptr; }
  uint64_t per_epoch() const { return feeder_->per_epoch(); }
  uint64_t steps_of(double epochs) const {
    return static_cast<uint64_t>(std::llround(epochs * static_cast<double>(per_epoch())));
  }
  // Epochs that were trained and judged.
  size_t epochs_done() const { return state_.epochs.size() - (state_.epochs.empty() || state_.epochs[0].epoch != 0 ? 0 : 1); }

  Result<void> open() {
    if (train_ == nullptr) return fail(Code::kInvalidArgument, data_.description().path + ": no split 'train' to train on");
    if (const std::string why = refusal(request_, val_); !why.empty()) return fail(Code::kInvalidArgument, why);
    if (val_ != nullptr) LATHE_CHECK_OK(check_metric(request_.metric, data_, *val_));
    if (request_.from_scratch) LATHE_CHECK_OK(train::initialize(model_, request_.seed));
    LATHE_TRY(auto feeder,
              BatchFeeder::make(model_, data_, *train_, request_.trainer.loss, request_.augment, request_.seed, request_.batch));
    feeder_.emplace(std::move(feeder));
    train::TrainerOptions options = request_.trainer;
    options.mixup = request_.augment.mixup != 0 && options.loss == train::Loss::kCrossEntropy;
    if (request_.teacher.graph != nullptr) {
      LATHE_TRY(Teacher teacher, Teacher::open(request_.teacher, model_, data_, feeder_->batches(), request_.session));
      teacher_.emplace(std::move(teacher));
      feeder_->set_teacher([this](const Batch& batch, std::vector<float>* logits) { return teacher_->logits(batch, logits); });
      options.teacher = train::Distillation{.alpha = request_.teacher.alpha, .temperature = request_.teacher.temperature};
    }
    LATHE_TRY(train::Trainer trainer, train::Trainer::create(model_, options, request_.session));
    trainer_.emplace(std::move(trainer));
    schedule_ = {request_.schedule,   steps_of(request_.epochs), steps_of(request_.warmup_epochs), {},
                 request_.step_decay, request_.last_factor};
    for (const double epoch : request_.milestones) schedule_.milestones.push_back(steps_of(epoch));
    return {};
  }

  Result<void> go() {
    bool found = false;
    if (!request_.checkpoint.empty()) {
      LATHE_TRY(settings_, training_settings(model_, *train_, val_, data_, request_));
      LATHE_TRY(found, read_checkpoint(request_.checkpoint, settings_, model_, &state_, &*trainer_));
    }
    if (found && request_.on_note)
      request_.on_note(formatted("going on from '%s' after %zu epochs", request_.checkpoint.c_str(), epochs_done()));
    if (!found) {
      state_.rate = request_.rate;
      if (state_.rate == 0) LATHE_CHECK_OK(search_rate());
    }
    LATHE_CHECK_OK(judge_start(found));
    begun_ = true;
    feeder_->seek(state_.step);
    while (epochs_done() < request_.epochs && !early()) LATHE_CHECK_OK(epoch());
    if (teacher_) LATHE_CHECK_OK(teacher_->flush());
    return {};
  }

  // The network before training: what the first epochs are compared with.
  Result<void> judge_start(bool resumed) {
    if (!judges_start() || (resumed && epochs_done() >= kFirstEpochs)) return {};
    LATHE_TRY(start_, judge(model_));
    if (resumed) return {};
    state_.epochs = {{.epoch = 0, .value = value_of(*start_)}};
    state_.best = model_;
    tell(state_.epochs[0]);
    return {};
  }

  // The rate from which a few steps end lowest. Which one cannot be told from one loss, so all see the same batches.
  Result<void> search_rate() {
    const double share = request_.trainer.optimizer == train::Optimizer::kAdamW ? kAdamWShare : 1;
    double best = std::numeric_limits<double>::infinity();
    Progress progress("looking for a learning rate", request_.progress.empty() ? 0 : kSearchSteps * std::size(kSearchRates));
    for (size_t i = 0; i < std::size(kSearchRates); ++i) {
      trainer_->reset();
      feeder_->seek(0);
      double sum = 0;
      for (uint64_t step = 0; step < kSearchSteps && std::isfinite(sum); ++step) {
        LATHE_CHECK_OK(check_cancelled());
        LATHE_TRY(const train::StepData* data, feeder_->next());
        const auto loss = trainer_->step(*data, static_cast<float>(kSearchRates[i] * share));
        if (!loss && !trainer_->diverged()) return tl::unexpected(loss.error());
        if (!loss)
          sum = std::numeric_limits<double>::infinity();
        else if (step >= kSearchSteps / 2)
          sum += double{*loss};
        if (!request_.progress.empty()) progress.update(i * kSearchSteps + step);
      }
      if (sum < best) best = sum, state_.rate = kSearchRates[i] * share;
    }
    trainer_->reset();
    if (state_.rate == 0)
      return fail(Code::kInvalidArgument, formatted("the loss is not finite after %llu steps even at a rate of %g",
                                                    static_cast<unsigned long long>(kSearchSteps), kSearchRates[0] * share));
    note(formatted("learning rate %g: of %zu it brought the loss down furthest in %llu steps", state_.rate,
                   std::size(kSearchRates), static_cast<unsigned long long>(kSearchSteps)));
    return {};
  }

  Result<void> epoch() {
    const auto number = static_cast<uint32_t>(epochs_done() + 1);
    const double before = state_.seconds;
    const Clock::time_point began = Clock::now();
    LATHE_CHECK_OK(steps(number, began, before));
    EpochRow row{number, state_.loss_sum / static_cast<double>(per_epoch()), std::numeric_limits<double>::quiet_NaN(),
                 state_.rate * train::rate_factor(schedule_, state_.step - 1), 0};
    LATHE_TRY(Graph trained, trainer_->trained());
    std::optional<ModelScores> scores;
    if (val_ != nullptr) {
      LATHE_TRY(scores, judge(trained));
      row.value = value_of(*scores);
    }
    row.seconds = before + seconds_since(began);
    state_.loss_sum = state_.seconds = 0;
    if (scores && fell(number, *scores)) {
      restart(row);
    } else {
      keep(row, std::move(trained));
    }
    return save();
  }

  Result<void> steps(uint32_t number, Clock::time_point began, double before) {
    const uint64_t end = number * per_epoch();
    Progress progress(formatted("%s, epoch %u of %u", request_.progress.c_str(), number, request_.epochs), per_epoch());
    Clock::time_point saved = Clock::now();
    while (state_.step < end) {
      state_.seconds = before + seconds_since(began);
      LATHE_CHECK_OK(check_cancelled());
      LATHE_TRY(const train::StepData* data, feeder_->next());
      const double rate = state_.rate * train::rate_factor(schedule_, state_.step);
      LATHE_TRY(const float loss, trainer_->step(*data, static_cast<float>(rate)));
      state_.loss_sum += double{loss};
      ++state_.step;
      if (!request_.progress.empty()) progress.update(per_epoch() - (end - state_.step));
      if (seconds_since(saved) < kCheckpointSeconds) continue;
      LATHE_CHECK_OK(save());
      saved = Clock::now();
    }
    return {};
  }

  Result<ModelScores> judge(const Graph& trained) {
    EvalRequest eval;
    eval.metric = request_.metric;
    eval.session = request_.session;
    if (request_.progress.empty()) eval.progress.clear();
    if (!request_.judged) return score_graph(trained, "the network", data_, *val_, eval);
    LATHE_TRY(const Graph other, request_.judged(trained));
    return score_graph(other, "the network", data_, *val_, eval);
  }

  double value_of(const ModelScores& scores) const {
    return make_report(request_.metric, *val_, scores, nullptr, false).all.value;
  }

  // Whether a fine-tuned network became worse than chance allows in its first epochs.
  bool fell(uint32_t number, const ModelScores& scores) const {
    if (!start_ || request_.keep_rate || number > kFirstEpochs || state_.halvings >= kMostHalvings) return false;
    const FigureRow all = make_report(request_.metric, *val_, scores, &*start_, true).all;
    return all.drop > 0 && all.p < kChance;
  }

  void restart(const EpochRow& row) {
    const double before = state_.epochs[0].value;
    note(formatted("validation fell from %s to %s in epoch %u at a rate of %g: restored, the rate is now %g",
                   value_text(request_.metric, before).c_str(), value_text(request_.metric, row.value).c_str(), row.epoch,
                   state_.rate, state_.rate / 2));
    trainer_->reset();
    state_.rate /= 2;
    ++state_.halvings;
    state_.step = 0;
    state_.epochs.resize(1);
    state_.best = model_;
    state_.best_epoch = 0;
    feeder_->seek(0);
  }

  void keep(const EpochRow& row, Graph trained) {
    const double best = state_.best && !state_.epochs.empty() ? best_value() : std::numeric_limits<double>::quiet_NaN();
    state_.epochs.push_back(row);
    if (val_ == nullptr || std::isnan(best) || request_.metric.drop(best, row.value) < 0) {
      state_.best = std::move(trained);
      state_.best_epoch = row.epoch;
    }
    tell(row);
  }

  double best_value() const {
    for (const EpochRow& row : state_.epochs)
      if (row.epoch == state_.best_epoch) return row.value;
    return std::numeric_limits<double>::quiet_NaN();
  }

  bool early() const { return request_.patience != 0 && epochs_done() >= state_.best_epoch + request_.patience; }

  void note(std::string text) {
    if (request_.on_note) request_.on_note(text);
    state_.notes.push_back(std::move(text));
  }

  void tell(const EpochRow& row) const {
    if (request_.on_epoch) request_.on_epoch(row, row.seconds * (request_.epochs - row.epoch));
  }

  Result<void> save() const {
    if (request_.checkpoint.empty() || !begun_) return {};
    const CancelPause pause;
    return write_checkpoint(request_.checkpoint, settings_, model_, state_, *trainer_);
  }

  tl::unexpected<Error> interrupted() {
    const CancelPause pause;
    if (teacher_) {
      if (auto kept = teacher_->flush(); !kept) return tl::unexpected(with_context(std::move(kept.error()), "interrupted"));
    }
    if (request_.checkpoint.empty())
      return fail(Code::kCancelled, "interrupted; with --checkpoint FILE the same command goes on from where it was stopped");
    if (!begun_) return fail(Code::kCancelled, "interrupted before the first step");
    if (auto saved = save(); !saved)
      return tl::unexpected(with_context(std::move(saved.error()), "interrupted, and the checkpoint is lost"));
    return fail(Code::kCancelled, formatted("interrupted in epoch %zu; the same command goes on from '%s'", epochs_done() + 1,
                                            request_.checkpoint.c_str()));
  }

  Result<TrainResult> finish() {
    TrainResult result{std::move(*state_.best),
                       state_.epochs,
                       state_.best_epoch,
                       state_.rate,
                       early() && epochs_done() < request_.epochs,
                       state_.notes};
    if (request_.from_scratch)
      result.graph.metadata.erase(kRootKey);
    else
      set_lineage(model_, &result.graph);
    store_preprocessing(data_, &result.graph.metadata);
    return result;
  }

  Graph model_;
  const Dataset& data_;
  const TrainRequest& request_;
  const DataSplit *train_, *val_;
  std::optional<BatchFeeder> feeder_;
  std::optional<Teacher> teacher_;
  std::optional<train::Trainer> trainer_;
  std::optional<ModelScores> start_;
  train::Schedule schedule_;
  Tree settings_;
  TrainingState state_;
  bool begun_ = false;  // the state is one that a checkpoint can hold
};

}  // namespace

Result<TrainResult> train_model(const Graph& model, const Dataset& data, const TrainRequest& request) {
  return Training(model, data, request).run();
}

}  // namespace lathe::tools
