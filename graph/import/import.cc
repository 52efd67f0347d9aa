#include "graph/import/import.h"

#include "graph/import/onnx/import_onnx.h"
#include "graph/import/tflite/import_tflite.h"

namespace lathe {
namespace {

struct Importer {
  const char* extension;
  Result<Graph> (*import)(const std::filesystem::path& path, const ImportOptions& options, ImportReport* report);
};
constexpr Importer kImporters[] = {{".onnx", import_onnx}, {".tflite", import_tflite}};

const Importer* importer_of(const std::filesystem::path& path) {
  for (const Importer& i : kImporters)
    if (path.extension() == i.extension) return &i;
  return nullptr;
}

}  // namespace

bool is_importable(const std::filesystem::path& path) { return importer_of(path) != nullptr; }

Result<Graph> import_model(const std::filesystem::path& path, const ImportOptions& options, ImportReport* report) {
  const Importer* importer = importer_of(path);
  if (importer == nullptr) return fail(Code::kInvalidArgument, path.string() + ": a model to import ends in .onnx or .tflite");
  return importer->import(path, options, report);
}

}  // namespace lathe
