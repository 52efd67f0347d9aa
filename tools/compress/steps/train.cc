// train: fine-tunes what the steps before it have changed, with the original as teacher if the recipe says so.
#include <cmath>

#include "graph/lineage.h"
#include "runtime/host/cpu.h"
#include "tools/compress/step.h"
#include "tools/markup.h"
#include "tools/model.h"
#include "tools/train_flags.h"

namespace lathe::tools {
namespace {

constexpr double kTrainingCost = 3;  // forward, and about twice that backward

class Train final : public Step {
 public:
  Train(TrainFlags flags, std::string teacher_file, uint32_t threads)
      : flags_(std::move(flags)), teacher_file_(std::move(teacher_file)), threads_(threads == 0 ? usable_cpus() : threads) {}

  std::string what() const override {
    std::string text = formatted("%u epochs of %s, batch %u", flags_.epochs, flags_.optimizer.c_str(), flags_.batch);
    if (!flags_.teacher.empty()) text += formatted(", distilling from the original (alpha %g, T %g)", flags_.alpha, flags_.temperature);
    return text;
  }

  double seconds(const StepCosts& c) const override {
    const double runs = kTrainingCost * flags_.epochs + (flags_.teacher.empty() ? 0 : 1);
    return c.sample_seconds * (runs * static_cast<double>(c.train) / threads_ + flags_.epochs * static_cast<double>(c.choices));
  }

  Result<void> check(const Graph& original) const override {
    if (teacher_file_.empty()) return {};
    LATHE_TRY(const Graph teacher, load_graph(teacher_file_, {}));
    if (content_hash(teacher) == content_hash(original)) return {};
    return fail(Code::kInvalidArgument, "teacher '" + teacher_file_ + "' is not the original: a compressed network learns from what it was made from; say teacher = \"original\"");
  }

  Result<void> run(const StepInput& in, StepOutput* out) const override {
    LATHE_TRY(const Graph model, load_graph(in.model, {}));
    TrainFlags flags = flags_;
    flags.metric = in.metric.name();
    flags.checkpoint = in.scratch;
    flags.teacher_cache = in.shared + "teacher";
    if (!flags.teacher.empty()) flags.teacher = in.original;
    SessionOptions session = in.session;
    session.threads = threads_;
    LATHE_TRY(TrainRequest request, flags.request(*in.data, in.scratch, session, {}));
    LATHE_TRY(TrainResult result, train_model(model, *in.data, request));
    for (const std::string& note : result.notes) out->lines.push_back("note: " + note);
    Tree epochs = Tree::array();
    for (const EpochRow& row : result.epochs) {
      Tree e = Tree::table();
      e.set("epoch", row.epoch).set("loss", row.loss).set("seconds", row.seconds);
      if (!std::isnan(row.value)) e.set(in.metric.name(), row.value);
      epochs.push(std::move(e));
    }
    out->details.set("epochs", std::move(epochs)).set("best_epoch", result.best_epoch).set("rate", result.rate);
    out->lines.push_back(formatted("epoch %u of %zu was best, rate %.3g", result.best_epoch, result.epochs.empty() ? 0 : static_cast<size_t>(result.epochs.back().epoch), result.rate));
    out->graph = std::move(result.graph);
    return {};
  }

 private:
  TrainFlags flags_;
  std::string teacher_file_;  // empty: the recipe says "original", or nothing
  uint32_t threads_;          // the result does not depend on them
};

template <class T> Result<void> whole(TableReader& table, const char* key, int64_t low, T* value) {
  LATHE_TRY(const int64_t v, table.integer_or(key, low, INT32_MAX, static_cast<int64_t>(*value)));
  *value = static_cast<T>(v);
  return {};
}

Result<void> share(TableReader& table, const char* key, double high, double* value) {
  LATHE_TRY(*value, table.number_or(key, *value));
  const Tree* at = table.get(key);
  if (at != nullptr && !(*value >= 0 && *value <= high)) return table.error(*at, formatted("'%s' is %g, must be from 0 to %g", key, *value, high));
  return {};
}

Result<void> positive(TableReader& table, const char* key, std::optional<double>* value) {
  if (table.get(key) == nullptr) return {};
  LATHE_TRY(*value, positive_or(table, key, 0));
  return {};
}

Result<void> parse_rate(TableReader& table, TrainFlags* f) {
  LATHE_CHECK_OK(positive(table, "rate", &f->rate));
  LATHE_CHECK_OK(positive(table, "base_lr", &f->base_rate));
  if (f->rate && f->base_rate) return table.error(*table.get("base_lr"), "'rate' and 'base_lr' exclude each other");
  LATHE_TRY(f->schedule, table.string_or("schedule", f->schedule));
  if (const auto known = train::parse_schedule(f->schedule); !known) return table.error(*table.get("schedule"), known.error().message);
  LATHE_TRY(f->milestones, table.string_or("milestones", ""));
  LATHE_CHECK_OK(share(table, "warmup", 1e6, &f->warmup));
  LATHE_CHECK_OK(share(table, "step_decay", 1, &f->step_decay));
  return share(table, "last_factor", 1, &f->last_factor);
}

Result<void> parse_optimizer(TableReader& table, TrainFlags* f) {
  LATHE_TRY(f->optimizer, table.string_or("optimizer", f->optimizer));
  if (f->optimizer != "sgd" && f->optimizer != "adamw") return table.error(*table.get("optimizer"), "'optimizer' must be sgd or adamw");
  LATHE_CHECK_OK(share(table, "momentum", 0.9999, &f->momentum));
  LATHE_CHECK_OK(positive(table, "weight_decay", &f->weight_decay));
  LATHE_CHECK_OK(share(table, "clip", 1e9, &f->clip));
  LATHE_CHECK_OK(share(table, "label_smoothing", 0.9999, &f->smoothing));
  LATHE_CHECK_OK(share(table, "ema", 0.999999, &f->average));
  return share(table, "sparsity", 10, &f->sparsity);
}

Result<void> parse_course(TableReader& table, TrainFlags* f) {
  LATHE_CHECK_OK(whole(table, "epochs", 1, &f->epochs));
  LATHE_CHECK_OK(whole(table, "batch", 1, &f->batch));
  LATHE_CHECK_OK(whole(table, "patience", 0, &f->patience));
  LATHE_CHECK_OK(whole(table, "seed", 0, &f->seed));
  LATHE_TRY(f->keep_rate, table.boolean_or("keep_rate", false));
  LATHE_TRY(f->augment, table.string_or("augment", ""));
  if (!f->augment.empty())
    if (const auto known = parse_augment(f->augment); !known) return table.error(*table.get("augment"), known.error().message);
  if (table.get("freeze") != nullptr) {
    LATHE_TRY(f->fixed, table.strings("freeze"));
  }
  return {};
}

Result<std::unique_ptr<Step>> parse(TableReader& table, const std::string& folder) {
  TrainFlags f;
  LATHE_CHECK_OK(parse_course(table, &f));
  LATHE_CHECK_OK(parse_rate(table, &f));
  LATHE_CHECK_OK(parse_optimizer(table, &f));
  LATHE_TRY(f.teacher, table.string_or("teacher", ""));
  LATHE_CHECK_OK(share(table, "alpha", 1, &f.alpha));
  LATHE_TRY(f.temperature, positive_or(table, "temperature", f.temperature));
  for (const char* key : {"alpha", "temperature"})
    if (const Tree* v = table.get(key); v != nullptr && f.teacher.empty()) return table.error(*v, "'" + std::string(key) + "' is about a teacher: say teacher = \"original\"");
  const std::string file = f.teacher.empty() || f.teacher == "original" ? "" : recipe_path(folder, f.teacher);
  uint32_t threads = 0;
  LATHE_CHECK_OK(whole(table, "threads", 0, &threads));
  return std::make_unique<Train>(std::move(f), file, threads);
}

}  // namespace

const StepKind kStep_train{"train", 1, StepRole::kFloat, false, true, "trained", parse};

}  // namespace lathe::tools
