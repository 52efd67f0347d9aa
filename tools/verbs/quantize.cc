// lathe quantize: a float model becomes INT8, with a row per operator: INT8, or float and why.
#include <cstdio>
#include <memory>
#include <optional>

#include "base/json.h"
#include "graph/pass.h"
#include "quant/dynamic.h"
#include "quant/equalize.h"
#include "quant/observed.h"
#include "quant/ptq.h"
#include "tools/calibration.h"
#include "tools/keep_list.h"
#include "tools/mixed_flags.h"
#include "tools/model.h"
#include "tools/self_check.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model;
  bool per_tensor = false, equalize = false, json = false;
  KeepFlags keep;
  std::string dynamic;  // "", "token" or "tensor"
  MixedFlags mixed;
  WriteFlags write;
  CalibrationFlags calibration;
  SessionFlags session;
  ImportFlags import;
};

void print_text(const Options& o, const QuantizeResult& result, const Ranges& ranges) {
  if (ranges.run)
    for (const std::string& note : ranges.run->notes) std::printf("note: %s\n", note.c_str());
  Table table({"node", "op", "type", "MACs %", "why float"});
  size_t int8 = 0;
  double share = 0;
  for (const QuantizeRow& r : result.rows) {
    char percent[16];
    std::snprintf(percent, sizeof percent, "%.1f", 100 * r.share);
    table.add({r.node, r.op, r.int8 ? "INT8" : "float", percent, r.reason});
    int8 += r.int8;
    share += r.int8 ? r.share : 0;
  }
  std::printf("%s%zu of %zu operators and %.1f %% of the multiply-accumulates are INT8", table.text().c_str(), int8,
              result.rows.size(), 100 * share);
  if (!o.dynamic.empty()) std::printf("; activations are quantized on the fly, per %s", o.dynamic.c_str());
  if (ranges.run)
    std::printf("; %llu calibration samples of split '%s', observer %s",
                static_cast<unsigned long long>(ranges.run->calibration.samples), ranges.run->split.c_str(),
                o.calibration.observer.c_str());
  std::printf("\n");
  if (result.widened_channels > 0)
    std::printf("note: the weight scale of %u channels grew so that their bias fits\n", result.widened_channels);
}

void print_equalized(const EqualizeResult& result) {
  Table table({"layers", "spread of channels", "after"});
  for (const EqualizedPair& p : result.pairs) {
    char before[24], after[24];
    std::snprintf(before, sizeof before, "%.1f", p.spread_before);
    std::snprintf(after, sizeof after, "%.1f", p.spread_after);
    table.add({p.first + " -> " + p.second, before, after});
  }
  std::printf("%zu pairs of layers equalized\n%s", result.pairs.size(), result.pairs.empty() ? "" : table.text().c_str());
  for (const std::string& line : result.skipped) std::printf("not equalized: %s\n", line.c_str());
}

void print_json(const QuantizeResult& result, const Ranges& ranges) {
  Tree rows = Tree::array();
  for (const QuantizeRow& r : result.rows)
    rows.push(Tree(Tree::table()
                       .set("node", r.node)
                       .set("op", r.op)
                       .set("int8", r.int8)
                       .set("reason", r.reason)
                       .set("macs_share", r.share)));
  Tree out = Tree::table();
  out.set("samples", ranges.run ? ranges.run->calibration.samples : 0)
      .set("widened_channels", result.widened_channels)
      .set("ops", std::move(rows));
  std::printf("%s\n", to_json(out).c_str());
}

Result<void> write_result(const Options& o, const QuantizeResult& result, const Ranges& ranges, const WriteOptions& options) {
  LATHE_CHECK_OK(write_model(o.write.output, result.graph, options));
  if (o.json) {
    print_json(result, ranges);
    return {};
  }
  print_text(o, result, ranges);
  o.write.print_written();
  return {};
}

Result<void> run_dynamic(const Options& o, const Graph& graph, const KeepList& keep, const WriteOptions& options) {
  if (o.dynamic != "token" && o.dynamic != "tensor")
    return fail(Code::kInvalidArgument, "--dynamic is '" + o.dynamic + "', must be token or tensor");
  if (o.mixed.given()) return fail(Code::kInvalidArgument, "--dynamic takes no budgets: leave out --max-drop and its like");
  if (!o.calibration.data.empty()) return fail(Code::kInvalidArgument, "--dynamic needs no calibration: leave out --data");
  LATHE_TRY(QuantizeResult result,
            quantize_dynamic(graph, {.per_token = o.dynamic == "token", .per_channel = !o.per_tensor, .keep_float = keep.entries}));
  keep.store(&result.graph.metadata);
  return write_result(o, result, {}, options);
}

// INT8, FP16 or FP32 by operator; `ranges` came from a data set.
Result<void> run_mixed(const Options& o, Graph& graph, const KeepList& keep, const Ranges& ranges, const SessionOptions& session,
                       WriteOptions options) {
  store_origin(*ranges.run, &graph.metadata);
  const QuantizeOptions quantize{.per_channel = !o.per_tensor, .keep_float = keep.entries};
  LATHE_TRY(MixedChoice choice, o.mixed.choose(o.model, graph, ranges.table, ranges.run->data, quantize, session));
  keep.store(&choice.result.graph.metadata);
  options.calib = ranges.observed;
  LATHE_TRY(options.tests, make_self_checks(choice.result.graph, ranges.run->data, session));
  LATHE_CHECK_OK(write_model(o.write.output, choice.result.graph, options));
  if (o.json) {
    std::printf("%s\n", to_json(o.mixed.json(choice)).c_str());
    return {};
  }
  o.mixed.print_text(choice);
  o.write.print_written();
  return {};
}

Result<void> run(const Options& o) {
  LATHE_TRY(WriteOptions options, o.write.options());
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(ModelFile model, load_model(o.model, o.import));
  LATHE_CHECK_OK(run_passes(model.graph, lowering_passes()));
  LATHE_TRY(const KeepList keep, o.keep.read());
  if (!o.dynamic.empty()) return run_dynamic(o, model.graph, keep, options);
  if (o.equalize) {
    if (o.calibration.data.empty())
      return fail(Code::kInvalidArgument, "--equalize changes what calibration sees: give --data set.toml");
    const EqualizeResult equalized = equalize(model.graph);
    LATHE_CHECK_OK(verify(model.graph));
    if (!o.json) print_equalized(equalized);
  }
  if (o.mixed.given() && o.calibration.data.empty())
    return fail(Code::kInvalidArgument, "a budget is judged on data: give --data set.toml");
  LATHE_TRY(const Ranges ranges, find_ranges(o.model, model, o.calibration, session));
  if (o.mixed.given()) return run_mixed(o, model.graph, keep, ranges, session, options);
  LATHE_TRY(QuantizeResult result,
            quantize_graph(model.graph, ranges.table, {.per_channel = !o.per_tensor, .keep_float = keep.entries}));
  keep.store(&result.graph.metadata);
  options.calib = ranges.observed;
  if (ranges.run) {
    store_origin(*ranges.run, &result.graph.metadata);
    LATHE_TRY(options.tests, make_self_checks(result.graph, ranges.run->data, session));
  }
  return write_result(o, result, ranges, options);
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file (float)").required();
  o->write.add_to(args);
  o->keep.add_to(args);
  args.flag("--per-tensor", o->per_tensor, "one weight scale per tensor instead of one per output channel");
  args.flag("--equalize", o->equalize,
            "even out the channels of neighbouring layers' weights first; the float network stays the same");
  args.flag(
      "--dynamic{token}", o->dynamic,
      "only weights become INT8; activations are quantized on the fly, per token (default) or --dynamic=tensor. Needs no "
      "data, suits networks of matrix products");
  o->mixed.add_to(args);
  args.flag("--json", o->json, "print JSON");
  o->calibration.add_to(args);
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_quantize{"quantize", "turn a float model into INT8", "lathe quantize model.lathe --data set.toml -o int8.lathe",
                          setup};

}  // namespace lathe::tools
