// Any model file, as a graph or as a program for this host: .onnx and .tflite are imported on the way.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "graph/file/model_file.h"
#include "runtime/host/session.h"
#include "tools/flags.h"

namespace lathe::tools {

// The graph and what its file keeps beside it (calibration, self-checks: an imported one has neither), from one reading. Errors name the
// file; a file that is no model, or of a kind that this version cannot read, is one of them.
Result<ModelFile> load_model(const std::string& path, const ImportFlags& import);
// The graph alone.
Result<Graph> load_graph(const std::string& path, const ImportFlags& import);

struct HostModel {
  std::shared_ptr<const LoadedProgram> program;
  std::map<std::string, std::string> metadata;  // empty for a stripped file
  uint64_t file_bytes = 0;
};
// A program for this host: the file's own PLAN without a copy where it has one, else lowered from the graph.
Result<HostModel> load_host_model(const std::string& path, const ImportFlags& import);

// Fails if the file exists as something that an output must not replace, or its folder is missing; called before long work.
Result<void> check_writable(const std::string& path);

}  // namespace lathe::tools
