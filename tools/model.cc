#include "tools/model.h"

#include <filesystem>
#include <system_error>

#include "graph/import/import.h"
#include "graph/lower/load.h"

namespace lathe::tools {
namespace {

bool is_lathe(const std::string& path) { return std::filesystem::path(path).extension() == ".lathe"; }

Result<void> check_kind(const std::string& path) {
  if (is_lathe(path) || is_importable(path)) return {};
  return fail(Code::kInvalidArgument, path + ": a model file ends in .onnx, .tflite or .lathe");
}

}  // namespace

Result<ModelFile> load_model(const std::string& path, const ImportFlags& import) {
  LATHE_CHECK_OK(check_kind(path));
  if (is_lathe(path)) return read_model(path);
  LATHE_TRY(const ImportOptions options, import.options());
  ModelFile model;
  LATHE_TRY(model.graph, import_model(path, options));
  return model;
}

Result<Graph> load_graph(const std::string& path, const ImportFlags& import) {
  LATHE_TRY(ModelFile model, load_model(path, import));
  return std::move(model.graph);
}

Result<HostModel> load_host_model(const std::string& path, const ImportFlags& import) {
  LATHE_CHECK_OK(check_kind(path));
  HostModel model;
  std::error_code error;
  model.file_bytes = std::filesystem::file_size(path, error);
  if (!is_lathe(path)) {
    LATHE_TRY(const Graph graph, load_graph(path, import));
    model.metadata = graph.metadata;
    LATHE_TRY(model.program, compile_for_host(graph));
    return model;
  }
  LATHE_TRY(model.program, open_program(path));
  LATHE_TRY(model.metadata, read_metadata(path));
  return model;
}

Result<void> check_writable(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) return fail(Code::kIo, path + ": is a folder");
  const fs::path folder = fs::path(path).parent_path();
  if (!folder.empty() && !fs::is_directory(folder, error))
    return fail(Code::kIo, path + ": folder '" + folder.string() + "' does not exist");
  return {};
}

}  // namespace lathe::tools
