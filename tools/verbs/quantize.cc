// lathe quantize: a float model becomes INT8, with a row per operator: INT8, or float and why.
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "graph/pass.h"
#include "quant/dynamic.h"
#include "quant/ptq.h"
#include "tools/advice.h"
#include "tools/int8_model.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model;
  bool per_tensor = false, json = false;
  uint32_t weight_bits = 8;
  RemedyFlags remedies;
  KeepFlags keep;
  std::string dynamic;  // "", "token" or "tensor"
  MixedFlags mixed;
  AdviceFlags advice;
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

void print_json(const RemedyResult& all) {
  const QuantizeResult& result = all.quantized;
  const Ranges& ranges = all.ranges;
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
  if (!all.remedies.empty()) out.set("remedies", remedies_json(all.remedies));
  std::printf("%s\n", to_json(out).c_str());
}

Result<void> write_result(const Options& o, const RemedyResult& result, const WriteOptions& options) {
  LATHE_CHECK_OK(write_model(o.write.output, result.quantized.graph, options));
  if (o.json) {
    print_json(result);
    return {};
  }
  print_text(o, result.quantized, result.ranges);
  print_remedies(result);
  o.write.print_written();
  return {};
}

Result<void> run_dynamic(const Options& o, const Graph& graph, const KeepList& keep, const WriteOptions& options) {
  if (o.dynamic != "token" && o.dynamic != "tensor")
    return fail(Code::kInvalidArgument, "--dynamic is '" + o.dynamic + "', must be token or tensor");
  if (o.advice.advise) return fail(Code::kInvalidArgument, "--advise is about calibrated INT8: leave out --dynamic");
  if (o.mixed.given()) return fail(Code::kInvalidArgument, "--dynamic takes no budgets: leave out --max-drop and its like");
  if (!o.calibration.data.empty()) return fail(Code::kInvalidArgument, "--dynamic needs no calibration: leave out --data");
  if (o.weight_bits != 8) return fail(Code::kInvalidArgument, "--dynamic has weights of 8 bits: leave out --weight-bits");
  if (o.remedies.given()) return fail(Code::kInvalidArgument, "--dynamic takes no remedies: leave out --equalize and its like");
  RemedyResult result;
  LATHE_TRY(result.quantized,
            quantize_dynamic(graph, {.per_token = o.dynamic == "token", .per_channel = !o.per_tensor, .keep_float = keep.entries}));
  keep.store(&result.quantized.graph.metadata);
  return write_result(o, result, options);
}

Result<void> write_mixed(const Options& o, const MixedChoice& choice, const WriteOptions& options) {
  LATHE_CHECK_OK(write_model(o.write.output, choice.result.graph, options));
  if (o.json) {
    std::printf("%s\n", to_json(o.mixed.json(choice)).c_str());
    return {};
  }
  o.mixed.print_text(choice);
  o.write.print_written();
  return {};
}

// The best network that was found becomes the file.
Result<Int8Outcome> run_advice(const Options& o, const ModelFile& model, const QuantizeOptions& quantize, const SessionOptions& session) {
  if (o.calibration.data.empty()) return fail(Code::kInvalidArgument, "--advise tries networks on data: give --data set.toml");
  if (o.remedies.given() || o.mixed.given())
    return fail(Code::kInvalidArgument, "--advise tries remedies by itself: leave out remedies and budgets");
  AdviceRequest request{o.model, {}, o.mixed.limit, o.calibration, quantize, session, o.advice};
  LATHE_TRY(request.metric, parse_metric(o.mixed.metric));
  LATHE_TRY(Advice advice, advise(model, request));
  if (o.json) std::printf("%s\n", to_json(advice_json(advice, request)).c_str());
  else print_advice(advice, request);
  return Int8Outcome{std::move(advice.network), {}};
}

Result<void> run(const Options& o) {
  LATHE_TRY(WriteOptions options, o.write.options());
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(ModelFile model, load_model(o.model, o.import));
  LATHE_CHECK_OK(run_passes(model.graph, lowering_passes()));
  LATHE_TRY(const KeepList keep, o.keep.read());
  if (!o.dynamic.empty()) return run_dynamic(o, model.graph, keep, options);
  const Int8Request request{.model = o.model,
                            .remedies = o.remedies,
                            .calibration = o.calibration,
                            .per_channel = !o.per_tensor,
                            .weight_bits = static_cast<int32_t>(o.weight_bits),
                            .keep = keep,
                            .mixed = o.mixed,
                            .session = session};
  LATHE_TRY(Int8Outcome result, o.advice.advise ? run_advice(o, model, request.options(), session) : make_int8(&model, request));
  LATHE_CHECK_OK(complete_int8(keep, result.plain.ranges, session, &result.graph(), &options));
  if (result.mixed) return write_mixed(o, *result.mixed, options);
  if (!o.advice.advise) return write_result(o, result.plain, options);
  LATHE_CHECK_OK(write_model(o.write.output, result.graph(), options));
  if (!o.json) o.write.print_written();
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file (float)").required();
  o->write.add_to(args);
  o->keep.add_to(args);
  args.flag("--per-tensor", o->per_tensor, "one weight scale per tensor instead of one per output channel");
  args.option("--weight-bits", o->weight_bits, "of each weight; fewer than 8 lose accuracy and save no byte, as they are stored as INT8")
      .show_default()
      .range(2, 8);
  o->remedies.add_to(args);
  args.flag(
      "--dynamic{token}", o->dynamic,
      "only weights become INT8; activations are quantized on the fly, per token (default) or --dynamic=tensor. Needs no "
      "data, suits networks of matrix products");
  o->mixed.add_to(args);
  o->advice.add_to(args);
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
