// lathe eval: how good a model is on a data set's test split, overall and per group.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "data/metrics.h"
#include "tools/data_binding.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, data;
  uint64_t limit = 0;
  uint32_t batch = 0;
  bool json = false;
  SessionFlags session;
  ImportFlags import;
};

struct Evaluation {
  ClassificationScore score{0};
  GroupScores groups;
  std::string split, note;
};

Result<Evaluation> evaluate(const Options& o, const Dataset& data) {
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(const HostModel model, load_host_model(o.model, o.import));
  LATHE_TRY(const ChosenSplit chosen, data.for_report());
  const DataSplit& split = *chosen.split;
  if (!split.has_labels())
    return fail(Code::kInvalidArgument,
                o.data + ": split '" + split.name() + "' has no labels; `lathe check` compares two models without them");
  LATHE_TRY(const auto matching, match_inputs(model_inputs(*model.program), model.metadata, data));
  LATHE_TRY(Runner runner, Runner::create(model.program, session));
  const auto classes = static_cast<uint32_t>(data.classes().size());
  Evaluation result{ClassificationScore(classes), {}, split.name(), chosen.note};
  const auto score = [&](uint64_t i, const std::vector<std::span<const float>>& outputs) -> Result<void> {
    if (outputs[0].size() < classes)
      return fail(Code::kInvalidArgument, "the model's first output has " + std::to_string(outputs[0].size()) +
                                              " values per sample, the data set has " + std::to_string(classes) + " classes");
    const auto label = static_cast<uint32_t>(split.label(i));
    const uint32_t predicted = argmax(outputs[0]);
    result.score.add(label, predicted);
    add_to_groups(result.groups, split, i, predicted == label);
    return {};
  };
  LATHE_CHECK_OK(predict(runner, data, split, matching, {.limit = o.limit, .batch = o.batch, .progress = "evaluating"}, score));
  return result;
}

Tree interval_json(const Interval& i) { return Tree(Tree::array().push(i.low).push(i.high)); }

void print_json(const Evaluation& e, const Dataset& data) {
  Tree groups = Tree::table(), confusion = Tree::array(), classes = Tree::array();
  for (const auto& [name, g] : e.groups)
    groups.set(name, Tree(Tree::table()
                              .set("samples", g.samples)
                              .set("accuracy", g.accuracy())
                              .set("accuracy_95", interval_json(wilson95(g.hits, g.samples)))));
  for (uint32_t r = 0; r < e.score.classes(); ++r) {
    Tree row = Tree::array();
    for (uint32_t c = 0; c < e.score.classes(); ++c) row.push(e.score.confusion(r, c));
    confusion.push(std::move(row));
    classes.push(data.classes()[r]);
  }
  Tree out = Tree::table();
  out.set("samples", e.score.samples())
      .set("split", e.split)
      .set("accuracy", e.score.accuracy())
      .set("accuracy_95", interval_json(e.score.accuracy_interval()));
  out.set("macro_f1", e.score.macro_f1())
      .set("groups", std::move(groups))
      .set("classes", std::move(classes))
      .set("confusion", std::move(confusion));
  std::printf("%s\n", to_json(out).c_str());
}

std::string percent(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", 100 * v);
  return text;
}

void print_text(const Evaluation& e, const Dataset& data) {
  if (!e.note.empty()) std::printf("note: %s\n", e.note.c_str());
  const Interval ci = e.score.accuracy_interval();
  std::printf("%llu samples of split '%s'\naccuracy %s %% (95 %% interval %s to %s), macro F1 %.4f\n\n",
              static_cast<unsigned long long>(e.score.samples()), e.split.c_str(), percent(e.score.accuracy()).c_str(),
              percent(ci.low).c_str(), percent(ci.high).c_str(), e.score.macro_f1());
  std::vector<std::string> headers{"true \\ predicted"};
  for (const std::string& c : data.classes()) headers.push_back(c);
  Table confusion(headers);
  for (uint32_t r = 0; r < e.score.classes(); ++r) {
    std::vector<std::string> cells{data.classes()[r]};
    for (uint32_t c = 0; c < e.score.classes(); ++c) cells.push_back(std::to_string(e.score.confusion(r, c)));
    confusion.add(std::move(cells));
  }
  std::printf("%s", confusion.text().c_str());
  if (e.groups.empty()) return;
  Table groups({"group", "samples", "accuracy %", "95 % interval"});
  for (const auto& [name, g] : e.groups) {
    const Interval i = wilson95(g.hits, g.samples);
    groups.add({name, std::to_string(g.samples), percent(g.accuracy()), percent(i.low) + " to " + percent(i.high)});
  }
  std::printf("\n%s", groups.text().c_str());
}

Result<void> run(const Options& o) {
  LATHE_TRY(const Dataset data, Dataset::load(o.data));
  LATHE_TRY(const Evaluation e, evaluate(o, data));
  if (o.json)
    print_json(e, data);
  else
    print_text(e, data);
  return {};
}

Action setup(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, ".lathe, .onnx or .tflite file")->required();
  app.add_option("--data", o->data, "data set (TOML); reads its split test")->required();
  app.add_option("--limit", o->limit, "samples at most, from the start of the split; 0: all")->capture_default_str();
  app.add_option("--batch", o->batch, "samples per run; 0: 16 where the model leaves it open, else 1")->capture_default_str();
  app.add_flag("--json", o->json, "print JSON");
  o->session.add_to(app);
  o->import.add_to(app);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_eval{"eval", "evaluate a model on a data set", "lathe eval int8.lathe --data set.toml --json", setup};

}  // namespace lathe::tools
