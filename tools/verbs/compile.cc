// lathe compile: lowers a model ahead of time, so that loading does no work; --dtype f16 stores it in half precision on the way.
#include <cstdio>
#include <memory>

#include "graph/cost.h"
#include "graph/pass.h"
#include "quant/half.h"
#include "quant/observed.h"
#include "tools/keep_list.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model;
  std::string dtype;
  KeepFlags keep;
  WriteFlags write;
  ImportFlags import;
};

void print_summary(const HalfResult& result) {
  Table table({"node", "op", "type", "why float"});
  size_t half = 0;
  for (const HalfRow& r : result.rows) {
    if (r.half)
      ++half;
    else
      table.add({r.node, r.op, "float", r.reason});
  }
  if (half < result.rows.size()) std::printf("%s", table.text().c_str());
  std::printf("%zu of %zu operators are FP16\n", half, result.rows.size());
  for (const std::string& constant : result.clamped) std::printf("note: elements clamped to 65504: %s\n", constant.c_str());
}

Result<void> to_half(const Options& o, ModelFile* model) {
  LATHE_CHECK_OK(run_passes(model->graph, lowering_passes()));
  LATHE_TRY(const KeepList keep, o.keep.read());
  LATHE_TRY(HalfResult result, half_graph(model->graph, {.keep_float = keep.entries, .ranges = ranges_of(model->calib)}));
  keep.store(&result.graph.metadata);
  print_summary(result);
  model->graph = std::move(result.graph);
  // What the file knew of the float network's results does not hold to the last digit.
  model->tests.clear();
  return {};
}

Result<void> run(const Options& o) {
  LATHE_TRY(WriteOptions options, o.write.options());
  LATHE_TRY(ModelFile model, load_model(o.model, o.import));
  if (o.dtype == "f16") {
    LATHE_CHECK_OK(to_half(o, &model));
  } else if (!o.keep.given.empty()) {
    return fail(Code::kInvalidArgument, "--keep goes with --dtype f16");
  }
  options.calib = std::move(model.calib);
  options.tests = std::move(model.tests);
  LATHE_CHECK_OK(write_model(o.write.output, model.graph, options));
  o.write.print_written();
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file").required();
  o->write.add_to(args);
  args.option("--dtype", o->dtype, "f16: store activations and weights of a float model in half precision").one_of({"f16"});
  o->keep.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_compile{"compile", "lower a model ahead of time for a target",
                         "lathe compile model.lathe --target host -o compiled.lathe", setup};

}  // namespace lathe::tools
