#include "tools/training_state.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/json.h"
#include "data/npy.h"
#include "graph/lineage.h"
#include "graph/rewriter.h"

namespace lathe::tools {
namespace {

constexpr const char *kSettings = "settings", *kNotes = "notes", *kCounters = "counters", *kNumbers = "numbers",
                     *kEpochs = "epochs";
constexpr const char *kBest = "best/", *kVariable = "state/";
constexpr size_t kFixed = 5, kRow = 5;  // arrays before the others; numbers of an epoch

template <class T>
HostTensor array(DType dtype, const std::vector<T>& values, size_t columns = 0) {
  const auto count = static_cast<int64_t>(values.size());
  HostTensor t{dtype, {count}, std::vector<std::byte>(values.size() * sizeof(T))};
  if (columns != 0) t.dims = {count / static_cast<int64_t>(columns), static_cast<int64_t>(columns)};
  if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
  return t;
}

HostTensor text_array(const std::string& text) { return array(DType::kU8, std::vector<char>(text.begin(), text.end())); }

std::string text_of(const HostTensor& t) { return {reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size()}; }

// Constants in which `best` differs from the model.
std::vector<NamedTensor> changed(const Graph& model, const Graph& best) {
  std::vector<NamedTensor> list;
  for (ValueId v = 0; v < model.value_count(); ++v) {
    const Value &old = model.value(v), &now = best.value(v);
    if (old.dead || old.kind != ValueKind::kConstant || old.constant.bytes.data() == now.constant.bytes.data()) continue;
    HostTensor t{now.type.dtype, {}, {now.constant.bytes.begin(), now.constant.bytes.end()}};
    for (const Dim d : now.type.dims) t.dims.push_back(best.dims().value(d).value_or(0));
    list.push_back({kBest + now.name, std::move(t)});
  }
  return list;
}

Result<Graph> rebuild(const Graph& model, const std::vector<NamedTensor>& constants) {
  Graph best = model;
  Rewriter rewriter(best);
  for (const NamedTensor& c : constants) {
    const ValueId v = best.find_value(c.name);
    if (v == kNoId) return fail(Code::kCorrupt, "it holds '" + c.name + "', which the model lacks");
    rewriter.set_constant(v, Constant::copy(c.tensor.bytes));
  }
  LATHE_CHECK_OK(rewriter.ok());
  return best;
}

Result<void> check_settings(const std::string& stored, const Tree& settings) {
  LATHE_TRY(const Tree then, parse_json(stored, "its settings"));
  if (then.as_table() == nullptr) return fail(Code::kCorrupt, "its settings are no table");
  for (const auto& [key, now] : *settings.as_table()) {
    const Tree* was = then.find(key);
    if (was != nullptr && to_json(*was, -1) == to_json(now, -1)) continue;
    return fail(Code::kInvalidArgument, "it belongs to another run: " + key + " was " +
                                            (was == nullptr ? "not set" : to_json(*was, -1)) + ", now it is " + to_json(now, -1));
  }
  return {};
}

// Of the data that a run sees, in any order of files.
Result<std::string> split_hash(const DataSplit& split) {
  Hasher hasher;
  for (uint64_t i = 0; i < split.size(); ++i) {
    LATHE_TRY(const Hash128 sample, split.hash(i));
    hasher.update(std::as_bytes(std::span(&sample, 1)));
    const int32_t label = split.has_labels() ? split.label(i) : 0;
    hasher.update(std::as_bytes(std::span(&label, 1)));
    if (split.has_targets()) hasher.update(std::as_bytes(split.target(i)));
  }
  return to_hex(hasher.finish());
}

Result<void> unpack(const std::vector<NamedTensor>& arrays, const Tree& settings, const Graph& model, TrainingState* state,
                    train::Trainer* trainer) {
  const char* const names[kFixed] = {kSettings, kNotes, kCounters, kNumbers, kEpochs};
  for (size_t i = 0; i < kFixed; ++i)
    if (arrays.size() <= i || arrays[i].name != names[i])
      return fail(Code::kCorrupt, std::string("it is no checkpoint: no '") + names[i] + "'");
  LATHE_CHECK_OK(check_settings(text_of(arrays[0].tensor), settings));
  const auto counters = arrays[2].tensor.as<int64_t>();
  const auto numbers = arrays[3].tensor.as<double>(), rows = arrays[4].tensor.as<double>();
  if (counters.size() != 4 || numbers.size() != 3 || rows.size() % kRow != 0)
    return fail(Code::kCorrupt, "its arrays have other sizes");
  state->step = static_cast<uint64_t>(counters[0]);
  state->halvings = static_cast<uint32_t>(counters[1]);
  state->best_epoch = static_cast<uint32_t>(counters[2]);
  state->rate = numbers[0], state->loss_sum = numbers[1], state->seconds = numbers[2];
  for (size_t i = 0; i < rows.size(); i += kRow)
    state->epochs.push_back({static_cast<uint32_t>(rows[i]), rows[i + 1], rows[i + 2], rows[i + 3], rows[i + 4]});
  LATHE_TRY(const Tree notes, parse_json(text_of(arrays[1].tensor), "its notes"));
  if (notes.as_array() == nullptr) return fail(Code::kCorrupt, "its notes are no list");
  for (const Tree& note : *notes.as_array())
    if (note.as_string() != nullptr) state->notes.push_back(*note.as_string());
  std::vector<NamedTensor> best, variables;
  for (size_t i = kFixed; i < arrays.size(); ++i) {
    const bool is_best = arrays[i].name.starts_with(kBest);
    (is_best ? best : variables).push_back({arrays[i].name.substr(std::strlen(is_best ? kBest : kVariable)), arrays[i].tensor});
  }
  if (counters[3] != 0) {
    LATHE_TRY(state->best, rebuild(model, best));
  }
  return trainer->restore(variables);
}

}  // namespace

Result<Tree> training_settings(const Graph& model, const DataSplit& train, const DataSplit* val, const Dataset& data,
                               const TrainRequest& r) {
  const train::TrainerOptions& t = r.trainer;
  const bool sgd = t.optimizer == train::Optimizer::kSgd;
  Tree fixed = Tree::array(), milestones = Tree::array(), s = Tree::table();
  for (const std::string& name : t.fixed) fixed.push(name);
  for (const double m : r.milestones) milestones.push(m);
  LATHE_TRY(const std::string train_hash, split_hash(train));
  std::string val_hash;
  if (val != nullptr) {
    LATHE_TRY(val_hash, split_hash(*val));
  }
  const auto number = [](float v) { return Tree(double{v}); };
  s.set("model", to_hex(content_hash(model)))
      .set("train data", train_hash)
      .set("val data", val_hash)
      .set("preprocessing", to_text(data.preprocessing()))
      .set("loss", static_cast<int>(t.loss))
      .set("label smoothing", number(t.smoothing))
      .set("optimizer", sgd ? "sgd" : "adamw")
      .set("momentum", number(sgd ? t.sgd.momentum : t.adamw.beta1))
      .set("second momentum", number(t.adamw.beta2))
      .set("nesterov", t.sgd.nesterov)
      .set("weight decay", number(sgd ? t.sgd.weight_decay : t.adamw.weight_decay))
      .set("clip", number(sgd ? t.sgd.clip_norm : t.adamw.clip_norm))
      .set("sparsity", number(t.sparsity))
      .set("average", number(t.average))
      .set("statistics momentum", number(t.statistics_momentum))
      .set("fixed", std::move(fixed))
      .set("metric", r.metric.name())
      .set("epochs", r.epochs)
      .set("batch", r.batch)
      .set("rate", r.rate)
      .set("schedule", train::schedule_name(r.schedule))
      .set("warm-up epochs", r.warmup_epochs)
      .set("milestones", std::move(milestones))
      .set("step decay", r.step_decay)
      .set("last factor", r.last_factor)
      .set("augmentation", to_text(r.augment))
      .set("seed", r.seed)
      .set("patience", r.patience)
      .set("from scratch", r.from_scratch)
      .set("keep rate", r.keep_rate)
      .set("teacher", r.teacher.graph == nullptr ? "" : to_hex(content_hash(*r.teacher.graph)))
      .set("alpha", number(r.teacher.alpha))
      .set("temperature", number(r.teacher.temperature));
  return s;
}

Result<void> write_checkpoint(const std::string& path, const Tree& settings, const Graph& model, const TrainingState& state,
                              const train::Trainer& trainer) {
  Tree notes = Tree::array();
  for (const std::string& note : state.notes) notes.push(note);
  std::vector<double> rows;
  for (const EpochRow& e : state.epochs) rows.insert(rows.end(), {double(e.epoch), e.loss, e.value, e.rate, e.seconds});
  const std::vector<int64_t> counters = {static_cast<int64_t>(state.step), state.halvings, state.best_epoch,
                                         state.best.has_value()};
  const std::vector<double> numbers = {state.rate, state.loss_sum, state.seconds};
  std::vector<NamedTensor> arrays = {{kSettings, text_array(to_json(settings, -1))},
                                     {kNotes, text_array(to_json(notes, -1))},
                                     {kCounters, array(DType::kS64, counters)},
                                     {kNumbers, array(DType::kF64, numbers)},
                                     {kEpochs, array(DType::kF64, rows, kRow)}};
  if (state.best)
    for (NamedTensor& t : changed(model, *state.best)) arrays.push_back(std::move(t));
  for (NamedTensor& t : trainer.state()) arrays.push_back({kVariable + t.name, std::move(t.tensor)});
  return write_npz(path, arrays);
}

Result<bool> read_checkpoint(const std::string& path, const Tree& settings, const Graph& model, TrainingState* state,
                             train::Trainer* trainer) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return false;
  const auto about = [&](Error e) { return tl::unexpected(with_context(std::move(e), "checkpoint '" + path + "'")); };
  const auto arrays = read_npz(path);
  if (!arrays) return about(arrays.error());
  if (auto done = unpack(*arrays, settings, model, state, trainer); !done) return about(std::move(done.error()));
  return true;
}

}  // namespace lathe::tools
