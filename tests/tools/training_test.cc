// Training on data: a tiny network learns a tiny set; runs that stop and go on give the same bits; what the rules of fine-tuning,
// early stopping, teachers and checkpoints do.
#include "tools/training.h"

#include <doctest/doctest.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "base/cancel.h"
#include "data/npy.h"
#include "graph/file/model_file.h"
#include "graph/lineage.h"
#include "runtime/host/cpu.h"
#include "tools/cli_checks.h"
#include "tools/loss_curve.h"
#include "tools/qat_training.h"

using namespace lathe;
using namespace lathe::tools;
using namespace lathe::test;

namespace {

constexpr int kSide = 8, kClasses = 3;

// Pictures of bars that lie, stand or lean, somewhere, in noise.
std::vector<NamedTensor> pictures(int count, int first) {
  HostTensor x{DType::kU8, {count, kSide, kSide}, std::vector<std::byte>(static_cast<size_t>(count) * kSide * kSide)};
  HostTensor y{DType::kS32, {count}, std::vector<std::byte>(static_cast<size_t>(count) * sizeof(int32_t))};
  Random random(1, {static_cast<uint64_t>(first)});
  for (int i = 0; i < count; ++i) {
    const int label = static_cast<int>(random.below(kClasses)), at = 1 + static_cast<int>(random.below(kSide - 2));
    y.as<int32_t>()[static_cast<size_t>(i)] = label;
    for (int r = 0; r < kSide; ++r)
      for (int c = 0; c < kSide; ++c) {
        const bool bar = label == 0 ? r == at : label == 1 ? c == at : (r + c) % kSide == at;
        x.as<uint8_t>()[static_cast<size_t>((i * kSide + r) * kSide + c)] =
            static_cast<uint8_t>((bar ? 120 : 0) + random.below(100));
      }
  }
  return {{"x", x}, {"y", y}};
}

struct Set {
  explicit Set(const std::string& splits = "train val test") {
    std::string text =
        "format = 'npz'\nkey = 'x'\nlabel_key = 'y'\naxes = 'hw'\nclasses = ['lies', 'stands', 'leans']\n"
        "[preprocess]\nscale = '1/128'\nmean = 0.5\nlayout = 'nhwc'\n";
    int first = 0;
    for (const char* name : {"train", "val", "test"}) {
      ++first;
      if (splits.find(name) == std::string::npos) continue;
      const std::string path = folder.file(std::string(name) + ".npz");
      REQUIRE(write_npz(path, pictures(first == 1 ? 256 : 96, first)));
      text += "[split." + std::string(name) + "]\npaths = '" + path + "'\n";
    }
    toml = folder.file("set.toml");
    std::ofstream(toml) << text;
    auto loaded = Dataset::load(toml);
    REQUIRE_MESSAGE(loaded, loaded.error().message);
    data = std::move(*loaded);
  }
  TempFolder folder;
  std::string toml;
  Dataset data;
};

Graph net() {
  std::string text =
      "graph {\ninput %x : f32[N,8,8,1]\nconstant %w : f32[6,3,3,1] = splat 0.1\nconstant %g : f32[6] = splat 1\n"
      "constant %b : f32[6] = splat 0\nconstant %m : f32[6] = splat 0.5\nconstant %v : f32[6] = splat 2\n"
      "constant %h : f32[3,6] = splat 0.1\nconstant %o : f32[3] = splat 0\n%c = Conv2d (%x, %w) {pad=[1,1,1,1]}\n"
      "%n = BatchNorm (%c, %g, %b, %m, %v) {axis=3}\n%r = Clamp (%n) {lo=0}\n%a = Mean (%r) {axes=[1,2], keep_dims=0}\n"
      "%y = FullyConnected (%a, %h, %o)\noutput %y\n}";
  auto graph = parse_graph(text);
  REQUIRE_MESSAGE(graph, graph.error().message);
  return std::move(*graph);
}

TrainRequest scratch(uint32_t epochs = 12) {
  TrainRequest r;
  r.epochs = epochs;
  r.batch = 16;
  r.rate = 0.1;
  r.from_scratch = true;
  r.session = {*machine_isa(), 1};
  r.progress.clear();
  r.augment.crop_pad = 1;
  return r;
}

TrainResult train_ok(const Graph& model, const Dataset& data, const TrainRequest& request) {
  auto result = train_model(model, data, request);
  REQUIRE_MESSAGE(result, result.error().message);
  return std::move(*result);
}

std::string error_of(const Graph& model, const Dataset& data, const TrainRequest& request) {
  const auto result = train_model(model, data, request);
  REQUIRE_FALSE(result);
  return result.error().message;
}

// A network that has learned the set.
const Graph& learned(const Set& set) {
  static const Graph graph = train_ok(net(), set.data, scratch()).graph;
  return graph;
}

TrainRequest tuning(double rate, uint32_t epochs) {
  TrainRequest r = scratch(epochs);
  r.from_scratch = false;
  r.rate = rate;
  return r;
}

bool same(const Graph& a, const Graph& b) { return print(a, true) == print(b, true); }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a tiny network learns a tiny set, with the same bits for a seed and any number of threads") {
  const Set set;
  TrainRequest request = scratch();
  request.trainer.average = 0.9f;
  std::vector<EpochRow> seen;
  request.on_epoch = [&](const EpochRow& row, double) { seen.push_back(row); };
  const TrainResult one = train_ok(net(), set.data, request);
  REQUIRE(one.epochs.size() == 12);
  CHECK(seen.size() == 12);
  CHECK(one.epochs.back().loss < 0.5 * one.epochs.front().loss);
  CHECK(one.epochs[one.best_epoch - 1].value > 0.9);
  for (const EpochRow& row : one.epochs) CHECK(row.value <= one.epochs[one.best_epoch - 1].value);
  CHECK(one.graph.metadata.count(kPreprocessingKey) == 1);
  CHECK(one.graph.metadata.count(kRootKey) == 0);
  request.on_epoch = {};
  request.session.threads = 3;
  CHECK(same(one.graph, train_ok(net(), set.data, request).graph));
  request.seed = 2;
  CHECK_FALSE(same(one.graph, train_ok(net(), set.data, request).graph));
}

TEST_CASE("a run that is stopped anywhere and goes on gives the bits of one that is not") {
  const Set set;
  const Graph& start = learned(set);
  TrainRequest request = tuning(0.01, 4);
  request.trainer.optimizer = train::Optimizer::kAdamW;
  request.trainer.average = 0.9f;
  const TrainResult whole = train_ok(start, set.data, request);
  TrainRequest stopped = request;
  stopped.checkpoint = set.folder.file("state.npz");
  int judged = 0;
  for (int attempt = 0;; ++attempt) {
    REQUIRE(attempt < 60);
    clear_cancel();
    // Stops when the first epoch is to be judged, and another, and after some.
    stopped.judged = [&](const Graph& g) -> Result<Graph> {
      if (++judged == 2 || judged == 6) return fail(Code::kCancelled, "interrupted");
      return g;
    };
    stopped.on_epoch = [](const EpochRow& row, double) {
      if (row.epoch % 2 == 1) request_cancel();
    };
    const auto result = train_model(start, set.data, stopped);
    clear_cancel();
    if (!result) {
      CHECK(result.error().code == Code::kCancelled);
      CHECK(contains(result.error().message, "the same command goes on from"));
      continue;
    }
    CHECK(attempt >= 3);
    CHECK(same(result->graph, whole.graph));
    CHECK(result->best_epoch == whole.best_epoch);
    REQUIRE(result->epochs.size() == whole.epochs.size());
    for (size_t i = 0; i < whole.epochs.size(); ++i) CHECK(result->epochs[i].loss == whole.epochs[i].loss);
    break;
  }
  // the finished run's checkpoint gives the same again, another run's and a damaged one are refused
  stopped.judged = {};
  stopped.on_epoch = {};
  CHECK(same(train_ok(start, set.data, stopped).graph, whole.graph));
  TrainRequest other = stopped;
  other.seed = 7;
  CHECK(contains(error_of(start, set.data, other), "it belongs to another run: seed was 1, now it is 7"));
  CHECK(contains(error_of(net(), set.data, stopped), "it belongs to another run: model was"));
  const std::string bytes = slurp(stopped.checkpoint);
  spill(stopped.checkpoint, bytes.substr(0, bytes.size() / 2));
  CHECK(contains(error_of(start, set.data, stopped), stopped.checkpoint));
  REQUIRE(write_npz(stopped.checkpoint, pictures(1, 1)));
  CHECK(contains(error_of(start, set.data, stopped), "it is no checkpoint: no 'settings'"));
}

TEST_CASE("without a checkpoint an interruption says what would have kept the work") {
  const Set set;
  request_cancel();
  const std::string message = error_of(net(), set.data, scratch());
  clear_cancel();
  CHECK(contains(message, "with --checkpoint FILE the same command goes on"));
}

TEST_CASE("patience ends a run that gets no better, and the best epoch is kept") {
  const Set set;
  const Graph& start = learned(set);
  TrainRequest request = tuning(1e-12, 9);
  request.patience = 2;
  const TrainResult result = train_ok(start, set.data, request);
  CHECK(result.early);
  CHECK(result.best_epoch == 0);
  CHECK(result.epochs.size() == 3);
  CHECK(result.graph.value(result.graph.find_value("w")).constant.as<float>()[0] ==
        start.value(start.find_value("w")).constant.as<float>()[0]);
  CHECK(lineage_root(result.graph) == to_hex(content_hash(start)));
}

TEST_CASE("fine-tuning that makes the network worse at once restores it and halves the rate") {
  const Set set;
  const Graph& start = learned(set);
  TrainRequest request = tuning(2, 3);
  request.schedule = train::ScheduleKind::kConstant;
  request.augment = {};
  std::vector<std::string> notes;
  request.on_note = [&](const std::string& note) { notes.push_back(note); };
  const TrainResult result = train_ok(start, set.data, request);
  REQUIRE(!notes.empty());
  CHECK(notes == result.notes);
  CHECK(contains(notes[0], "validation fell from "));
  CHECK(contains(notes[0], "at a rate of 2: restored, the rate is now 1"));
  CHECK(result.rate == std::ldexp(2.0, -static_cast<int>(notes.size())));
  // the attempt that counts is the run that would have begun with that rate
  request.rate = result.rate;
  CHECK(same(train_ok(start, set.data, request).graph, result.graph));
  request.rate = 2;
  request.keep_rate = true;
  CHECK(train_ok(start, set.data, request).notes.empty());
}

TEST_CASE("without a rate one is looked for, from the same start") {
  const Set set;
  TrainRequest request = tuning(0, 1);
  request.keep_rate = true;
  const TrainResult result = train_ok(net(), set.data, request);
  REQUIRE(result.notes.size() == 1);
  CHECK(contains(result.notes[0], "learning rate "));
  CHECK(result.rate >= 0.0003);
  request.rate = result.rate;
  CHECK(same(train_ok(net(), set.data, request).graph, result.graph));
}

TEST_CASE("a teacher must be the model that the student comes from; its outputs are computed once") {
  const Set set;
  const Graph& teacher = learned(set);
  TrainRequest request = tuning(0.1, 2);
  request.augment = {};
  request.keep_rate = true;
  request.teacher = {"original.lathe", std::make_shared<const Graph>(teacher), 0.9f, 2.0f, set.folder.file("cache")};
  Graph pruned = train_ok(net(), set.data, scratch(1)).graph;
  set_lineage(teacher, &pruned);
  const TrainResult student = train_ok(pruned, set.data, request);
  CHECK(student.best_epoch > 0);
  CHECK(std::filesystem::exists(set.folder.file("cache")));
  const TrainResult further = train_ok(student.graph, set.data, request);
  CHECK(lineage_root(further.graph) == to_hex(content_hash(teacher)));
  TrainRequest plain = request;
  plain.teacher = {};
  CHECK_FALSE(same(train_ok(pruned, set.data, plain).graph, student.graph));
  request.teacher.cache_folder = set.folder.file("empty");
  CHECK(same(train_ok(pruned, set.data, request).graph, student.graph));
  // its own parent is no teacher, nor is the original one of a network that comes from nowhere
  request.teacher.graph = std::make_shared<const Graph>(student.graph);
  CHECK(contains(error_of(pruned, set.data, request), "teacher 'original.lathe' is not the model that the student comes from"));
  request.teacher.graph = std::make_shared<const Graph>(teacher);
  CHECK(contains(error_of(net(), set.data, request), "teacher 'original.lathe' is not the model that the student comes from"));
  request.from_scratch = true;
  CHECK(error_of(pruned, set.data, request) == "a network from scratch has no teacher: it comes from no other");
}

TEST_CASE("what cannot be run is said") {
  const Set set, no_val("train"), no_train("val test");
  TrainRequest r = scratch(2);
  const auto message = [&](const Dataset& data = {}) { return error_of(net(), data.splits().empty() ? set.data : data, r); };
  CHECK(contains(message(no_train.data), "no split 'train' to train on"));
  r.patience = 1;
  CHECK(message(no_val.data) == "patience looks at split 'val', which the data set does not have");
  r = scratch(2);
  CHECK(train_ok(net(), no_val.data, r).best_epoch == 2);
  r.batch = 300;
  CHECK(contains(message(), "300"));
  r = scratch(0);
  CHECK(message() == "training needs at least one epoch, and one sample in a batch");
  r = scratch(2);
  r.rate = -1;
  CHECK(message() == "the learning rate is -1, must be above 0");
  r = scratch(2);
  r.warmup_epochs = 3;
  CHECK(message() == "warm-up takes 3 epochs of 2");
  r = scratch(2);
  r.milestones = {2, 1};
  CHECK(message() == "milestones must be in ascending order");
  r = scratch(2);
  r.trainer.loss = train::Loss::kMeanSquared;
  CHECK(contains(message(), "has no targets, which the loss needs"));
  r = scratch(2);
  r.metric.kind = MetricKind::kMeanSquaredError;
  CHECK(contains(message(), "has no targets, which mse needs"));
  r = scratch(2);
  r.rate = 1e30;
  CHECK(contains(message(), "the first tensor that is not finite is"));
}

TEST_CASE("the course of a training is a table or a picture") {
  const TempFolder folder;
  const std::vector<EpochRow> rows = {{.epoch = 0, .value = 0.5}, {1, 0.75, 0.625, 0.1, 2}, {2, 0.5, 0.75, 0.05, 2}};
  REQUIRE(write_loss_curve(folder.file("c.csv"), {}, rows));
  CHECK(slurp(folder.file("c.csv")) == "epoch,loss,accuracy,rate,seconds\n0,,0.5,,\n1,0.75,0.625,0.1,2\n2,0.5,0.75,0.05,2\n");
  REQUIRE(write_loss_curve(folder.file("c.svg"), {}, rows));
  const std::string svg = slurp(folder.file("c.svg"));
  CHECK(contains(svg, "mean loss"));
  CHECK(contains(svg, "accuracy, %"));
  CHECK(contains(svg, "75.00 %"));
  CHECK(check_curve_name("c.png").error().message == "curve 'c.png' must end in .csv or .svg");
}

TEST_CASE("the command trains, is interrupted at any moment, goes on, and says what it did") {
  const Set set;
  REQUIRE(write_model(set.folder.file("net.lathe"), net()));
  const auto command = [&](const std::string& output, const std::vector<std::string>& more) {
    std::vector<std::string> all{"train",
                                 set.folder.file("net.lathe"),
                                 "--data",
                                 set.toml,
                                 "-o",
                                 set.folder.file(output),
                                 "--batch",
                                 "4",
                                 "--epochs",
                                 "24",
                                 "--from-scratch",
                                 "--augment",
                                 "crop=1,mixup=0.2",
                                 "--schedule",
                                 "step",
                                 "--milestones",
                                 "12,18",
                                 "--warmup",
                                 "1",
                                 "--clip",
                                 "5",
                                 "--ema",
                                 "0.9",
                                 "--label-smoothing",
                                 "0.05"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto whole = run_lathe(command("whole.lathe", {"--curve", set.folder.file("c.svg")}));
  REQUIRE_MESSAGE(whole.status == 0, whole.err);
  CHECK(contains(whole.out, "epoch 24 of 24: loss "));
  CHECK(contains(whole.out, "best epoch "));
  // The moments grow until one lies past the end; what is ended before the command listens is no stop.
  int stops = 0;
  double moment_ms = 4;
  for (;; moment_ms *= 1.2) {
    REQUIRE(moment_ms < 60000);
    const auto r = run_lathe(command("parts.lathe", {"--checkpoint", set.folder.file("state.npz"), "--json"}), {},
                             static_cast<int>(moment_ms));
    if (r.status == 0) {
      CHECK(json_of(r).find("epochs")->as_array()->size() == 24);
      break;
    }
    CHECK_FALSE(std::filesystem::exists(set.folder.file("parts.lathe")));
    if (r.status == 128 + SIGINT && r.err.empty()) continue;
    ++stops;
    CHECK(contains(r.err, "interrupted"));
  }
  CHECK(stops >= 1);
  CHECK(slurp(set.folder.file("whole.lathe")) == slurp(set.folder.file("parts.lathe")));
  const auto eval = json_of(run_lathe({"eval", set.folder.file("whole.lathe"), "--data", set.toml, "--json"}));
  CHECK(number(eval, "accuracy") > 0.85);

  const std::string out = set.folder.file("x.lathe"), model = set.folder.file("net.lathe");
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--schedule", "step"}),
                {"--schedule step and --milestones go together"});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--schedule", "step", "--milestones", "3,x"}), {"'x'"});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--augment", "spin"}), {"spin"});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--curve", "c.png"}), {"must end in .csv or .svg"});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--metric", "best"}), {"unknown metric 'best'"});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--teacher", set.toml}), {set.toml});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--freeze", "q"}), {"'q', which is to stay fixed"});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", set.folder.file("no/x.lathe")}), {"no/x.lathe"});
  check_refused(run_lathe({"train", model, "--data", set.toml, "-o", out, "--optimizer", "adamw", "--nesterov"}), {"--nesterov"});
  CHECK(run_lathe({"train", model, "--data", set.toml, "-o", out, "--epochs", "0"}).status == 2);
  CHECK(run_lathe({"train", model, "--data", set.toml, "-o", out, "--rate", "1", "--base-lr", "1"}).status == 2);
  CHECK(run_lathe({"train", model, "--data", set.toml, "-o", out, "--alpha", "0.5"}).status == 2);
  CHECK(run_lathe({"train", model, "--data", set.toml, "-o", out, "--label-smoothing", "1"}).status == 2);
}

namespace {

// The float network, as a file keeps it.
ModelFile learned_file(const Set& set) {
  ModelFile file;
  file.graph = learned(set);
  return file;
}

QatResult train_int8(const Set& set, const QatFlags& flags, const TrainRequest& request) {
  auto result = train_quantized("net.lathe", learned_file(set), set.data, flags, request);
  REQUIRE_MESSAGE(result, result.error().message);
  return std::move(*result);
}

double best_value(const TrainResult& result) { return result.epochs[result.best_epoch].value; }

}  // namespace

TEST_CASE("training with quantization starts where quantization ends, and wins back what few bits lose") {
  const Set set;
  QatFlags flags;
  flags.qat = true;
  flags.weight_bits = 2;
  TrainRequest request = tuning(0.03, 6);
  request.keep_rate = true;
  const QatResult result = train_int8(set, flags, request);
  REQUIRE(result.training.epochs.size() == 7);
  CHECK(result.training.epochs[0].value < 0.95);
  CHECK(best_value(result.training) > result.training.epochs[0].value + 0.04);
  size_t weights = 0;
  for (ValueId v = 0; v < result.graph.value_count(); ++v) {
    const Value& value = result.graph.value(v);
    if (!value.dead && value.kind == ValueKind::kConstant && value.quant && value.type.dtype == DType::kS8) weights += value.quant->qmax == 1;
  }
  CHECK(weights == 2);
  CHECK(result.graph.metadata.at(kRootKey) == lineage_root(learned(set)));
  EvalRequest eval;
  eval.session = request.session;
  eval.progress.clear();
  const auto scores = score_graph(result.graph, "int8", set.data, *set.data.split("val"), eval);
  REQUIRE_MESSAGE(scores, scores.error().message);
  CHECK(make_report(eval.metric, *set.data.split("val"), *scores, nullptr, false).all.value == doctest::Approx(best_value(result.training)));
}

TEST_CASE("a huge rate ruins no network that was calibrated: no NaN, and the start is kept") {
  const Set set;
  QatFlags flags;
  flags.qat = true;
  TrainRequest request = tuning(1e6, 2);
  request.keep_rate = true;
  const QatResult result = train_int8(set, flags, request);
  for (const EpochRow& row : result.training.epochs) CHECK(std::isfinite(row.loss));
  CHECK(best_value(result.training) >= result.training.epochs[0].value);
  CHECK(result.training.epochs[0].value > 0.85);
  request.from_scratch = true;
  CHECK(train_quantized("net.lathe", learned_file(set), set.data, flags, request).error().message ==
        "--qat starts from a trained network: leave out --from-scratch");
}
