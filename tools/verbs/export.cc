// lathe export: hands a model to other runtimes as ONNX, float or QDQ.
#include <cstdio>
#include <memory>

#include "base/atomic_file.h"
#include "graph/export/onnx/export_onnx.h"
#include "tools/model.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, output;
  ImportFlags import;
};

Result<void> run(const Options& o) {
  LATHE_CHECK_OK(check_writable(o.output));
  LATHE_TRY(const Graph graph, load_graph(o.model, o.import));
  LATHE_TRY(const OnnxFile file, export_onnx(graph));
  LATHE_CHECK_OK(write_file_atomic(o.output, file.bytes));
  std::printf("wrote %s, opset %lld, %zu nodes, %zu bytes\n", o.output.c_str(), static_cast<long long>(file.opset), file.nodes,
              file.bytes.size());
  return {};
}

Action setup(Arguments& args) {
  auto o = std::make_shared<Options>();
  args.option("model", o->model, ".lathe or .onnx file").required();
  args.option("-o,--output", o->output, "ONNX file to write").required();
  o->import.add_to(args);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_export{"export", "write a model as ONNX, integers as QDQ", "lathe export int8.lathe -o int8.onnx", setup};

}  // namespace lathe::tools
