// What all importers share: options, the report, and the choice by a file's ending.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/ir.h"
#include "graph/pass.h"

namespace lathe {

struct ImportOptions {
  // --const name=values: fixes a graph input, or a value between nodes, to these numbers.
  std::map<std::string, std::vector<double>> constants = {};
  // --shape name=dims: dims of a graph input; -1 keeps what the file says for that axis.
  std::map<std::string, std::vector<int64_t>> shapes = {};
  // The import passes on the result; without them the graph is as the file's nodes gave it.
  bool run_passes = true;
  PassOptions passes = {};
};

// Something that cannot be imported.
struct UnsupportedItem {
  std::string op;  // operator of the file, with its domain unless that is the default one; empty: the graph, an input, a tensor
  std::string where;  // the node, or empty
  std::string reason;
};

// What import saw and did, for people.
struct ImportReport {
  std::string format;  // "opset 17, ir version 8", "tflite version 3"
  int64_t opset = 0;   // ONNX
  int64_t ir_version = 0;
  std::string producer;                      // name and version, may be empty
  std::map<std::string, int> file_ops;       // nodes per operator of the file
  std::map<std::string, int> graph_ops;      // nodes per Lathe operator, after the passes
  uint64_t mapped_bytes = 0;                 // of constants used in place
  uint64_t copied_bytes = 0;                 // of constants converted, permuted or realigned
  std::vector<UnsupportedItem> unsupported;  // what the error lists, if it is kUnsupported
  std::vector<std::string> notes;  // one sentence each: types that were changed, batch normalization folded before export, ...
};

// Whether `path` ends as a file that some importer reads: .onnx, .tflite.
bool is_importable(const std::filesystem::path& path);
// The importer that the ending names; kInvalidArgument for another one. Errors are those of import_onnx and import_tflite.
Result<Graph> import_model(const std::filesystem::path& path, const ImportOptions& options = {},
                           ImportReport* report = nullptr);

}  // namespace lathe
