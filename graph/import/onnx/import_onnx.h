// ONNX import: a file becomes a Graph of Lathe's own operators.
//
// Called by the CLI and by tools that take an `.onnx` on the way. Covers opsets 6 to 28 of the default domain; the operators are
// listed in graph/import/onnx/ops.inc. Weights stay in the mapped file wherever their bytes can be used as they are (float32 and
// integers whose offset is aligned to the element; convolution weights when OIHW and OHWI are the same bytes); others are
// converted or permuted once, into memory of the graph. The graph keeps the mapping alive. f16, bf16 and f64 weights become f32,
// and so do graph inputs of those types (noted in the report). Thread-safe: no shared state.
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
  std::string op;     // ONNX operator, with its domain unless that is the default one; empty: the graph, an input, a tensor
  std::string where;  // the node, or empty
  std::string reason;
};

// What import saw and did, for people.
struct ImportReport {
  int64_t opset = 0;
  int64_t ir_version = 0;
  std::string producer;                 // name and version, may be empty
  std::map<std::string, int> file_ops;  // nodes per ONNX operator
  std::map<std::string, int> graph_ops;  // nodes per Lathe operator, after the passes
  uint64_t mapped_bytes = 0;            // of constants used in place
  uint64_t copied_bytes = 0;            // of constants converted, permuted or realigned
  std::vector<UnsupportedItem> unsupported;  // what the error lists, if it is kUnsupported
  std::vector<std::string> notes;  // one sentence each: types that were changed, batch normalization folded before export, ...
};

// Errors: kIo (the file cannot be read), kCorrupt (damaged, or contradicts itself), kInvalidArgument (ill-typed graph, options
// that fit nothing), kUnsupported: the message's first line sums up, each line after it names node, op, opset and what is
// missing; all of them are listed.
Result<Graph> import_onnx(const std::filesystem::path& path, const ImportOptions& options = {}, ImportReport* report = nullptr);

// The same for a model in memory; `owner` keeps `bytes` alive. `folder` holds its external data files (empty: none are allowed).
struct OnnxSource {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
  std::filesystem::path folder;
};
Result<Graph> import_onnx(const OnnxSource& source, const ImportOptions& options = {}, ImportReport* report = nullptr);

}  // namespace lathe
