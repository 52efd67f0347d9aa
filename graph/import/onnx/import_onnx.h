// ONNX import: a file becomes a Graph of Lathe's own operators.
//
// Called by the CLI and by tools that take an `.onnx` on the way. Covers opsets 6 to 28 of the default domain; the operators are
// listed in graph/import/onnx/ops.inc. Weights stay in the mapped file wherever their bytes can be used as they are (float32 and
// integers whose offset is aligned to the element; convolution weights when OIHW and OHWI are the same bytes); others are
// converted or permuted once, into memory of the graph. The graph keeps the mapping alive. f16, bf16 and f64 weights become f32,
// and so do graph inputs of those types (noted in the report). Thread-safe: no shared state.
#pragma once
#include <filesystem>

#include "graph/import/import.h"

namespace lathe {

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
