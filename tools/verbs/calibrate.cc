// lathe calibrate: observes every activation on real samples, shows the ranges and can store them in the model.
#include <cstdio>
#include <memory>

#include "base/json.h"
#include "graph/file/model_file.h"
#include "graph/pass.h"
#include "quant/grid.h"
#include "quant/observed.h"
#include "tools/calibration.h"
#include "tools/calibration_build.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, output;
  bool json = false;
  CalibrationFlags calibration;
  BuildFlags build;
  SessionFlags session;
  ImportFlags import;
};

void print_json(const CalibrationRun& run) {
  Tree tensors = Tree::array();
  for (const auto& [name, observer] : run.calibration.tensors) {
    if (observer.empty()) continue;
    const Range r = observer.range();
    const QuantParams p = activation_params(r);
    tensors.push(Tree(Tree::table()
                          .set("name", name)
                          .set("min", r.min)
                          .set("max", r.max)
                          .set("scale", static_cast<double>(p.scale))
                          .set("zero_point", p.zero_point)
                          .set("observer", observer_name(observer.kind()))));
  }
  Tree out = Tree::table();
  out.set("samples", run.calibration.samples)
      .set("split", run.split)
      .set("observer", observer_name(run.calibration.observer.kind))
      .set("tensors", std::move(tensors));
  std::printf("%s\n", to_json(out).c_str());
}

void print_text(const CalibrationRun& run) {
  for (const std::string& note : run.notes) std::printf("note: %s\n", note.c_str());
  Table table({"tensor", "min", "max", "scale", "zero_point", "observer"});
  for (const auto& [name, observer] : run.calibration.tensors) {
    if (observer.empty()) continue;
    const Range r = observer.range();
    const QuantParams p = activation_params(r);
    char lo[32], hi[32], scale[32];
    std::snprintf(lo, sizeof lo, "%.5g", r.min);
    std::snprintf(hi, sizeof hi, "%.5g", r.max);
    std::snprintf(scale, sizeof scale, "%.6g", static_cast<double>(p.scale));
    table.add({name, lo, hi, scale, std::to_string(p.zero_point), observer_name(observer.kind())});
  }
  std::printf("%s%llu samples of split '%s', observer %s\n", table.text().c_str(),
              static_cast<unsigned long long>(run.calibration.samples), run.split.c_str(),
              observer_name(run.calibration.observer.kind));
}

Result<void> run(const Options& o) {
  if (!o.output.empty()) LATHE_CHECK_OK(check_writable(o.output));
  LATHE_TRY(const SessionOptions session, o.session.options());
  LATHE_TRY(Graph graph, load_graph(o.model, o.import));
  Graph lowered = graph;
  LATHE_CHECK_OK(run_passes(lowered, lowering_passes()));
  if (o.build.build) return build_set(lowered, o.calibration, o.build, session, o.output, o.json);
  LATHE_TRY(const CalibrationRun calibrated, run_calibration(lowered, o.calibration, session));
  if (o.json)
    print_json(calibrated);
  else
    print_text(calibrated);
  if (o.output.empty()) return {};
  store_origin(calibrated, &graph.metadata);
  WriteOptions options;
  options.calib = observed_values(calibrated.calibration);
  return write_model(o.output, graph, options);
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe, .onnx or .tflite file (float)").required();
  args.option("-o,--output", o->output,
              ".lathe file to write: the model with its ranges, which `quantize` then takes without --data; with --build, the "
              "set's .toml file");
  args.flag("--json", o->json, "print JSON");
  o->calibration.add_to(args);
  args.find("--data").required();
  o->build.add_to(args);
  o->session.add_to(args);
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_calibrate{"calibrate", "observe the range of every activation on real samples",
                           "lathe calibrate model.lathe --data set.toml -o calibrated.lathe", setup};

}  // namespace lathe::tools
