#include "tools/train_flags.h"

#include <array>
#include <charconv>

#include "tools/batch_feeder.h"
#include "tools/model.h"

namespace lathe::tools {
namespace {

constexpr std::array<const char*, 3> kLossNames = {"cross-entropy", "tokens", "mse"};  // in the order of train::Loss
constexpr std::array<const char*, 3> kLossMetrics = {"accuracy", "perplexity", "mse"};
constexpr double kScratchRateSgd = 0.1, kScratchRateAdamW = 0.001;
constexpr double kDecaySgd = 5e-4, kDecayAdamW = 0.01;

}  // namespace

void TrainFlags::add_to(Arguments& args) {
  args.option("--epochs", epochs, "times that the split train is seen").show_default().positive();
  args.option("--batch", batch, "samples per step").show_default().positive();
  args.option("--optimizer", optimizer, "sgd (with momentum) or adamw").show_default().one_of({"sgd", "adamw"});
  const Argument exact = args.option("--rate", rate, "highest learning rate; with --from-scratch 0.1, of adamw 0.001").positive();
  args.option("--base-lr", base_rate,
              "rate that the model was trained with: fine-tuning takes 15 % of it. Without both a rate is looked for")
      .positive()
      .excludes(exact);
  args.option("--schedule", schedule, "of the rate: cosine, step or constant")
      .show_default()
      .one_of({"cosine", "step", "constant"});
  args.option("--warmup", warmup, "epochs in which the rate rises").show_default().range(0.0, 1e6);
  args.option("--milestones", milestones, "for --schedule step: epochs at which the rate falls, as 30,40").type_name("LIST");
  args.option("--step-decay", step_decay, "for --schedule step: what the rate is multiplied by").show_default().range(0.0, 1.0);
  args.option("--last-factor", last_factor, "for --schedule cosine: part of the rate that is left at the end")
      .show_default()
      .range(0.0, 1.0);
  args.option("--momentum", momentum, "of sgd; of adamw the first moment's").show_default().range(0.0, 0.9999);
  args.flag("--nesterov", nesterov, "sgd with Nesterov's momentum");
  args.option("--weight-decay", weight_decay, "of weights, not of biases and scales; 0.0005, of adamw 0.01").range(0.0, 10.0);
  args.option("--clip", clip, "gradients together are scaled down to this norm; 0: never").show_default().range(0.0, 1e9);
  args.option("--label-smoothing", smoothing, "part of each label that all classes share").show_default().range(0.0, 0.9999);
  args.option("--ema", average, "decay of moving averages of all weights, which are judged and written; 0: none")
      .show_default()
      .range(0.0, 0.999999);
  args.option("--sparsity", sparsity, "L1 on the scales of batch normalizations, so that channels can go; 1e-4 is usual")
      .show_default()
      .range(0.0, 10.0);
  args.option("--augment", augment, "random changes of training samples: crop=4,flip,mixup=0.2 and others (docs/cli.md)")
      .type_name("LIST");
  args.option("--loss", loss, "cross-entropy, tokens or mse; without it cross-entropy if there are labels, else mse")
      .one_of({kLossNames.begin(), kLossNames.end()});
  args.option("--metric", metric, "what split val judges by; without it accuracy, perplexity or mse, as the loss is");
  args.option("--freeze", fixed, "a weight, bias or scale that stays as it is, by name; may be given several times")
      .type_name("NAME");
  args.flag("--from-scratch", from_scratch, "forget what the model has learned: new weights (He), which begin a lineage");
  args.flag("--keep-rate", keep_rate,
            "go on even if validation falls in the first two epochs, instead of restoring and halving the rate");
  args.option("--patience", patience, "epochs without a better one after which training ends; 0: never").show_default();
  args.option("--seed", seed, "of order, augmentation and new weights").show_default();
  args.option("--checkpoint", checkpoint, "file that keeps the state after every epoch; the same command goes on from it")
      .type_name("FILE");
  const Argument taught =
      args.option("--teacher", teacher, "distil: the original model, whose outputs are computed once").type_name("MODEL");
  args.option("--alpha", alpha, "weight of the teacher's outputs beside the labels").show_default().range(0.0, 1.0).needs(taught);
  args.option("--temperature", temperature, "that softens both outputs").show_default().range(0.01, 1000.0).needs(taught);
  args.option("--teacher-cache", teacher_cache, "folder of the teacher's outputs; without it beside the output")
      .type_name("FOLDER")
      .needs(taught);
}

Result<train::TrainerOptions> TrainFlags::trainer(const Dataset& data) const {
  train::TrainerOptions t;
  if (const DataSplit* split = data.split("train"); split != nullptr) t.loss = default_loss(*split);
  for (size_t i = 0; i < kLossNames.size(); ++i)
    if (loss == kLossNames[i]) t.loss = static_cast<train::Loss>(i);
  const bool adamw = optimizer == "adamw";
  t.optimizer = adamw ? train::Optimizer::kAdamW : train::Optimizer::kSgd;
  t.sgd = {static_cast<float>(momentum), static_cast<float>(weight_decay.value_or(kDecaySgd)), nesterov,
           static_cast<float>(clip)};
  t.adamw.beta1 = static_cast<float>(momentum);
  t.adamw.weight_decay = static_cast<float>(weight_decay.value_or(kDecayAdamW));
  t.adamw.clip_norm = static_cast<float>(clip);
  t.smoothing = static_cast<float>(smoothing);
  t.average = static_cast<float>(average);
  t.sparsity = static_cast<float>(sparsity);
  t.fixed = fixed;
  if (nesterov && adamw) return fail(Code::kInvalidArgument, "--nesterov is a form of sgd");
  return t;
}

Result<Metric> TrainFlags::judged_by(train::Loss trained) const {
  return parse_metric(metric.empty() ? kLossMetrics[static_cast<size_t>(trained)] : metric);
}

Result<std::vector<double>> TrainFlags::milestone_epochs() const {
  std::vector<double> epochs_of;
  for (size_t at = 0; at < milestones.size();) {
    const size_t end = std::min(milestones.find(',', at), milestones.size());
    double v = 0;
    const auto read = std::from_chars(milestones.data() + at, milestones.data() + end, v);
    if (read.ec != std::errc() || read.ptr != milestones.data() + end || !(v > 0))
      return fail(Code::kInvalidArgument,
                  "--milestones has '" + milestones.substr(at, end - at) + "', which is no number of epochs");
    epochs_of.push_back(v);
    at = end + 1;
  }
  if (epochs_of.empty() == (schedule == "step"))
    return fail(Code::kInvalidArgument, "--schedule step and --milestones go together");
  return epochs_of;
}

Result<TrainRequest> TrainFlags::request(const Dataset& data, const std::string& output, const SessionOptions& session,
                                         const ImportFlags& import) const {
  TrainRequest r;
  LATHE_TRY(r.trainer, trainer(data));
  LATHE_TRY(r.metric, judged_by(r.trainer.loss));
  LATHE_TRY(r.milestones, milestone_epochs());
  LATHE_TRY(r.schedule, train::parse_schedule(schedule));
  LATHE_TRY(r.augment, parse_augment(augment.empty() ? "none" : augment));
  r.epochs = epochs, r.batch = batch, r.patience = patience, r.seed = seed;
  if (rate)
    r.rate = *rate;
  else if (base_rate)
    r.rate = *base_rate * kFineTuningShare;
  else if (from_scratch)
    r.rate = r.trainer.optimizer == train::Optimizer::kSgd ? kScratchRateSgd : kScratchRateAdamW;
  r.warmup_epochs = warmup, r.step_decay = step_decay, r.last_factor = last_factor;
  r.from_scratch = from_scratch, r.keep_rate = keep_rate;
  r.checkpoint = checkpoint;
  r.session = session;
  if (teacher.empty()) return r;
  LATHE_TRY(Graph graph, load_graph(teacher, import));
  r.teacher = {teacher, std::make_shared<const Graph>(std::move(graph)), static_cast<float>(alpha),
               static_cast<float>(temperature), teacher_cache.empty() ? train::teacher_cache_folder(output) : teacher_cache};
  return r;
}

}  // namespace lathe::tools
