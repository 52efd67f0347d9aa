// lathe train: a network learns from a data set, from scratch, further, or from a teacher.
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "base/progress.h"
#include "tools/int8_model.h"
#include "tools/loss_curve.h"
#include "tools/model.h"
#include "tools/qat_training.h"
#include "tools/train_flags.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, data, output, curve;
  bool json = false;
  TrainFlags train;
  QatFlags qat;
  SessionFlags session;
  ImportFlags import;
};

void print_epoch(const EpochRow& row, const Metric& metric, uint32_t epochs, double left) {
  if (row.epoch == 0) {
    std::printf("before training: %s %s\n", metric.name().c_str(), value_text(metric, row.value).c_str());
  } else {
    std::printf("epoch %u of %u: loss %.4f, ", row.epoch, epochs, row.loss);
    if (!std::isnan(row.value)) std::printf("%s %s, ", metric.name().c_str(), value_text(metric, row.value).c_str());
    std::printf("rate %.3g, %.1f s", row.rate, row.seconds);
    if (row.epoch < epochs) std::printf(", %s left", duration_text(left).c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

Tree json_of(const TrainResult& result, const Metric& metric) {
  const auto number = [](bool is, double v) { return is ? Tree(v) : Tree(); };
  Tree epochs = Tree::array(), notes = Tree::array(), out = Tree::table();
  for (const EpochRow& e : result.epochs)
    epochs.push(Tree(Tree::table()
                         .set("epoch", e.epoch)
                         .set("loss", number(e.epoch != 0, e.loss))
                         .set(metric.name(), number(!std::isnan(e.value), e.value))
                         .set("rate", number(e.epoch != 0, e.rate))
                         .set("seconds", number(e.epoch != 0, e.seconds))));
  for (const std::string& note : result.notes) notes.push(note);
  out.set("metric", metric.name())
      .set("best_epoch", result.best_epoch)
      .set("rate", result.rate)
      .set("early", result.early)
      .set("epochs", std::move(epochs))
      .set("notes", std::move(notes));
  return out;
}

void print_result(const Options& o, const TrainResult& result, const Metric& metric) {
  if (o.json) {
    std::printf("%s\n", to_json(json_of(result, metric)).c_str());
    return;
  }
  if (result.early) std::printf("no better epoch for %u: training ends\n", o.train.patience);
  for (const EpochRow& e : result.epochs)
    if (e.epoch == result.best_epoch && !std::isnan(e.value))
      std::printf("best %s: %s %s\n",
                  e.epoch == 0 ? "is the model before training" : ("epoch " + std::to_string(e.epoch)).c_str(),
                  metric.name().c_str(), value_text(metric, e.value).c_str());
  std::printf("wrote %s\n", o.output.c_str());
}

// The INT8 network becomes the file, as `quantize` writes it.
Result<TrainResult> run_qat(const Options& o, const Dataset& data, TrainRequest request) {
  WriteFlags write;
  write.output = o.output;
  LATHE_TRY(WriteOptions options, write.options());
  if (o.train.base_rate) request.rate = *o.train.base_rate * kQatShare;
  LATHE_TRY(ModelFile model, load_model(o.model, o.import));
  LATHE_TRY(QatResult result, train_quantized(o.model, std::move(model), data, o.qat, request));
  LATHE_CHECK_OK(complete_int8(result.keep, result.start.ranges, request.session, &result.graph, &options));
  LATHE_CHECK_OK(write_model(o.output, result.graph, options));
  return std::move(result.training);
}

Result<TrainResult> run_float(const Options& o, const Dataset& data, const TrainRequest& request) {
  LATHE_TRY(const Graph model, load_graph(o.model, o.import));
  LATHE_TRY(TrainResult result, train_model(model, data, request));
  LATHE_CHECK_OK(write_model(o.output, result.graph));
  return result;
}

Result<void> run(const Options& o) {
  LATHE_CHECK_OK(check_writable(o.output));
  if (!o.curve.empty()) {
    LATHE_CHECK_OK(check_curve_name(o.curve));
    LATHE_CHECK_OK(check_writable(o.curve));
  }
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(const Dataset data, Dataset::load(o.data));
  LATHE_TRY(TrainRequest request, o.train.request(data, o.output, session, o.import));
  if (!o.json) {
    if (data.split("val") == nullptr) std::printf("note: no split 'val': no epoch is judged, and the last one is kept\n");
    request.on_epoch = [&](const EpochRow& row, double left) { print_epoch(row, request.metric, request.epochs, left); };
    request.on_note = [](const std::string& note) { std::printf("note: %s\n", note.c_str()); };
  }
  auto result = o.qat.qat ? run_qat(o, data, request) : run_float(o, data, request);
  if (!result) return tl::unexpected(with_context(std::move(result.error()), o.model));
  if (!o.curve.empty()) LATHE_CHECK_OK(write_loss_curve(o.curve, request.metric, result->epochs));
  print_result(o, *result, request.metric);
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file (float)").required();
  args.option("--data", o->data, "data set (TOML): split train teaches, split val chooses the best epoch").required();
  args.option("-o,--output", o->output, ".lathe file to write").required();
  o->train.add_to(args);
  o->qat.add_to(args);
  args.option("--curve", o->curve, "loss and metric by epoch, as .csv or .svg").type_name("FILE");
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_train{"train", "train, fine-tune or distil a model on a data set",
                       "lathe train pruned.lathe --data set.toml --base-lr 0.1 --teacher original.lathe -o tuned.lathe", setup};

}  // namespace lathe::tools
