// lathe import: a model of another format becomes a .lathe file that the other verbs take.
#include <cstdio>
#include <memory>

#include "graph/file/model_file.h"
#include "graph/import/import.h"
#include "tools/flags.h"
#include "tools/print_graph.h"
#include "tools/verb.h"
#include "tools/zero_removal.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string input, output, stop_after;
  bool print_changed = false, sparsity = false;
  ImportFlags import;
};

void print_report(const ImportReport& report) {
  std::printf("%s", report.format.c_str());
  if (!report.producer.empty()) std::printf(", made by %s", report.producer.c_str());
  std::printf("\n");
  std::string ops;
  for (const auto& [op, count] : report.graph_ops) ops += (ops.empty() ? "" : ", ") + std::to_string(count) + " " + op;
  std::printf("graph: %s\n", ops.c_str());
  for (const std::string& note : report.notes) std::printf("note: %s\n", note.c_str());
}

Result<void> run(const Options& o) {
  LATHE_TRY(ImportOptions options, o.import.options());
  options.passes.stop_after = o.stop_after;
  if (o.print_changed) options.passes.on_changed = print_changed_graph;
  ImportReport report;
  LATHE_TRY(Graph graph, import_model(o.input, options, &report));
  std::string zeros;
  if (o.sparsity) {
    LATHE_TRY(ZeroOutcome outcome, remove_zeros(o.input, graph));
    zeros = zeros_text(outcome);
    graph = std::move(outcome.graph);
  }
  LATHE_CHECK_OK(write_model(o.output, graph));
  print_report(report);
  std::printf("%s", zeros.c_str());
  std::printf("wrote %s\n", o.output.c_str());
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->input, ".onnx or .tflite file").required();
  args.option("-o,--output", o->output, ".lathe file to write").required();
  args.flag("--print-changed", o->print_changed, "print the graph after every pass that changed it");
  args.option("--stop-after", o->stop_after, "name of the last pass to run");
  args.flag("--sparsity", o->sparsity, "remove channels, heads and branches that are zero, and say what other zeros there are");
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_import{"import", "turn an ONNX or TFLite model into a .lathe file", "lathe import model.onnx -o model.lathe", setup};

}  // namespace lathe::tools
