// lathe compile: lowers a model ahead of time, so that loading does no work.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "graph/file/model_file.h"
#include "tools/model.h"
#include "tools/table.h"
#include "tools/verb.h"

namespace lathe::tools {
namespace {

struct Options {
  std::string model, output;
  std::vector<std::string> targets = {"host"};
  bool strip = false;
  ImportFlags import;
};

Result<void> run(const Options& o) {
  LATHE_CHECK_OK(check_writable(o.output));
  WriteOptions options;
  options.strip = o.strip;
  for (const std::string& name : o.targets) {
    LATHE_TRY(const Target target, parse_target(name));
    options.targets.push_back(target);
  }
  LATHE_TRY(const Graph graph, load_graph(o.model, o.import));
  if (std::filesystem::path(o.model).extension() == ".lathe") {
    LATHE_TRY(ModelFile file, read_model(o.model));
    options.calib = std::move(file.calib);
    options.tests = std::move(file.tests);
  }
  LATHE_CHECK_OK(write_model(o.output, graph, options));
  std::error_code error;
  std::printf("wrote %s, %s\n", o.output.c_str(), bytes_text(static_cast<double>(std::filesystem::file_size(o.output, error))).c_str());
  return {};
}

Action setup(CLI::App& app) {
  auto o = std::make_shared<Options>();
  app.add_option("model", o->model, ".lathe or .onnx file")->required();
  app.add_option("-o,--output", o->output, ".lathe file to write")->required();
  app.add_option("--target", o->targets, "what to lower for: host, cortex-m4")->capture_default_str();
  app.add_flag("--strip", o->strip, "write only what running needs");
  o->import.add_to(app);
  return [o] { return run(*o); };
}

}  // namespace

const Verb kVerb_compile{"compile", "lower a model ahead of time for a target", "lathe compile model.lathe --target host -o compiled.lathe", setup};

}  // namespace lathe::tools
