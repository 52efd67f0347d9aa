// lathe check: that a model file is whole and still computes what its maker saw, or how far two models are apart on a data set.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/json.h"
#include "data/metrics.h"
#include "graph/file/model_file.h"
#include "tools/data_binding.h"
#include "tools/model.h"
#include "tools/self_check.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string first, second, data;
  uint64_t limit = 0;
  double min_sqnr = -1, min_agreement = -1;
  bool json = false;
  SessionFlags session;
  ImportFlags import;
};

Result<void> check_file(const Options& o) {
  if (std::filesystem::path(o.first).extension() != ".lathe")
    return fail(Code::kInvalidArgument, o.first + ": only .lathe files can be checked alone; give a second model and --data");
  LATHE_CHECK_OK(check_model_file(o.first));
  LATHE_TRY(const ModelFile file, read_model(o.first));
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(const HostModel model, load_host_model(o.first, o.import));
  LATHE_CHECK_OK(run_self_checks(file.tests, model.program, session));
  if (o.json)
    std::printf("%s\n", to_json(Tree::table().set("file", "ok").set("self_checks", file.tests.size())).c_str());
  else
    std::printf("%s: file is whole, %zu self-check%s passed\n", o.first.c_str(), file.tests.size(),
                file.tests.size() == 1 ? "" : "s");
  return {};
}

struct Side {
  HostModel model;
  Runner runner;
  std::vector<size_t> matching;
};

Result<Side> open_side(const std::string& path, const Options& o, const Dataset& data) {
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(HostModel model, load_host_model(path, o.import));
  LATHE_TRY(Runner runner, Runner::create(model.program, session));
  auto matching = match_inputs(model_inputs(*model.program), model.metadata, data);
  if (!matching) return tl::unexpected(with_context(std::move(matching.error()), path));
  return Side{std::move(model), std::move(runner), std::move(*matching)};
}

struct Comparison {
  OutputDifference difference;  // the first model is the reference
  uint64_t samples = 0, agreeing = 0;
  std::string split;
  double agreement() const { return samples == 0 ? 0 : static_cast<double>(agreeing) / static_cast<double>(samples); }
};

// Sample by sample, so that no output of a whole set is kept.
Result<Comparison> compare(const Options& o) {
  LATHE_TRY(const Dataset data, Dataset::load(o.data));
  LATHE_TRY(const ChosenSplit chosen, data.for_report());
  LATHE_TRY(Side a, open_side(o.first, o, data));
  LATHE_TRY(Side b, open_side(o.second, o, data));
  if (a.runner.output_count() != b.runner.output_count())
    return fail(Code::kInvalidArgument, o.first + " has " + std::to_string(a.runner.output_count()) + " outputs, " + o.second +
                                            " has " + std::to_string(b.runner.output_count()));
  Comparison result;
  result.split = chosen.split->name();
  std::vector<std::vector<float>> reference;
  LATHE_TRY(const auto shapes, b.runner.shapes_for(1, [&] {
    std::vector<std::vector<int64_t>> dims;
    for (const size_t i : b.matching) dims.push_back(data.inputs()[i].dims);
    return dims;
  }()));
  LATHE_CHECK_OK(b.runner.bind(shapes));
  const auto step = [&](uint64_t i, const std::vector<std::span<const float>>& outputs) -> Result<void> {
    for (size_t k = 0; k < b.matching.size(); ++k) LATHE_CHECK_OK(chosen.split->fill(b.matching[k], i, b.runner.input(k)));
    LATHE_CHECK_OK(b.runner.run());
    for (size_t n = 0; n < outputs.size(); ++n) {
      std::vector<float> other;
      LATHE_CHECK_OK(b.runner.output_values(n, &other));
      if (other.size() != outputs[n].size())
        return fail(Code::kInvalidArgument, "output " + std::to_string(n) + " has " + std::to_string(outputs[n].size()) +
                                                " values in " + o.first + " and " + std::to_string(other.size()) + " in " +
                                                o.second);
      result.difference.add(outputs[n], other);
      if (n == 0 && !other.empty()) result.agreeing += argmax(outputs[n]) == argmax(other);
    }
    ++result.samples;
    return {};
  };
  LATHE_CHECK_OK(
      predict(a.runner, data, *chosen.split, a.matching, {.limit = o.limit, .batch = 1, .progress = "comparing"}, step));
  return result;
}

Result<void> gates(const Options& o, const Comparison& c) {
  if (c.difference.non_finite() > 0)
    return fail(Code::kInvalidArgument,
                std::to_string(c.difference.non_finite()) + " output values are NaN or infinite in one model only");
  if (o.min_sqnr >= 0 && c.difference.sqnr_db() < o.min_sqnr)
    return fail(Code::kInvalidArgument,
                "SQNR is " + std::to_string(c.difference.sqnr_db()) + " dB, the gate is " + std::to_string(o.min_sqnr));
  if (o.min_agreement >= 0 && c.agreement() < o.min_agreement)
    return fail(Code::kInvalidArgument,
                "agreement is " + std::to_string(c.agreement()) + ", the gate is " + std::to_string(o.min_agreement));
  return {};
}

Result<void> run(const Options& o) {
  if (o.second.empty()) return check_file(o);
  if (o.data.empty()) return fail(Code::kInvalidArgument, "comparing two models needs --data set.toml");
  LATHE_TRY(const Comparison c, compare(o));
  const OutputDifference& d = c.difference;
  if (o.json) {
    Tree out = Tree::table();
    out.set("samples", c.samples)
        .set("split", c.split)
        .set("sqnr_db", d.sqnr_db())
        .set("max_abs", d.max_abs())
        .set("max_rel", d.max_rel())
        .set("agreement", c.agreement());
    std::printf("%s\n", to_json(out).c_str());
  } else {
    std::printf(
        "%llu samples of split '%s': SQNR %.2f dB, max difference %.6g (%.3g of the largest value), same answer on %.2f %%\n",
        static_cast<unsigned long long>(c.samples), c.split.c_str(), d.sqnr_db(), d.max_abs(), d.max_rel(), 100 * c.agreement());
  }
  return gates(o, c);
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->first, ".lathe, .onnx or .tflite file; alone: checks the file's integrity and runs its self-checks")
      .required();
  args.option("other", o->second, "a second model, compared with the first as the reference");
  args.option("--data", o->data, "data set (TOML) for two models; reads its split test");
  args.option("--limit", o->limit, "samples at most; 0: all").show_default();
  args.option("--min-sqnr", o->min_sqnr, "gate in dB: exit status 1 below it");
  args.option("--min-agreement", o->min_agreement, "gate, 0 to 1: exit status 1 below it");
  args.flag("--json", o->json, "print JSON");
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_check{"check", "check a file, or compare two models on a data set",
                       "lathe check model.lathe int8.lathe --data set.toml --json", setup};

}  // namespace lathe::tools
