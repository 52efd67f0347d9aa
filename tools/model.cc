#include "tools/model.h"

#include <filesystem>
#include <system_error>

#include "graph/import/onnx/import_onnx.h"
#include "graph/lower/load.h"

namespace lathe::tools {
namespace {

bool has_extension(const std::string& path, std::string_view extension) {
  return std::filesystem::path(path).extension() == extension;
}

Result<void> check_kind(const std::string& path) {
  if (has_extension(path, ".tflite"))
    return fail(Code::kUnsupported, path + ": TFLite models cannot be imported by this version");
  if (!has_extension(path, ".onnx") && !has_extension(path, ".lathe"))
    return fail(Code::kInvalidArgument, path + ": a model file ends in .onnx or .lathe");
  return {};
}

}  // namespace

Result<ModelFile> load_model(const std::string& path, const ImportFlags& import) {
  LATHE_CHECK_OK(check_kind(path));
  if (!has_extension(path, ".onnx")) return read_model(path);
  LATHE_TRY(const ImportOptions options, import.options());
  ModelFile model;
  LATHE_TRY(model.graph, import_onnx(path, options));
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
  if (has_extension(path, ".onnx")) {
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
