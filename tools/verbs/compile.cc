// lathe compile: lowers a model ahead of time, so that loading does no work.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/model.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model;
  WriteFlags write;
  ImportFlags import;
};

Result<void> run(const Options& o) {
  LATHE_TRY(WriteOptions options, o.write.options());
  LATHE_TRY(ModelFile model, load_model(o.model, o.import));
  options.calib = std::move(model.calib);
  options.tests = std::move(model.tests);
  LATHE_CHECK_OK(write_model(o.write.output, model.graph, options));
  o.write.print_written();
  return {};
}

Action setup(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, ".lathe or .onnx file")->required();
  o->write.add_to(app);
  o->import.add_to(app);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_compile{"compile", "lower a model ahead of time for a target",
                         "lathe compile model.lathe --target host -o compiled.lathe", setup};

}  // namespace lathe::tools
