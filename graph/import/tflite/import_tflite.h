// TFLite import: a file becomes a Graph of Lathe's own operators.
//
// Called through import_model. Reads format version 3; the operators are listed in graph/import/tflite/ops.inc. The graph keeps
// the file's NHWC layout and its integer values: an int8 or int16 tensor with a scale is a quantized value with the file's
// parameters; a uint8 one becomes s8, with q and zero point 128 lower, also where it is an input or output (noted in the
// report). float16 tensors become f32. Inputs have the file's shapes; --shape may change the dims that its signature leaves
// open. Weights stay in the mapped file where their bytes can be used as they are. Thread-safe: no shared state.
#pragma once
#include <filesystem>
#include <memory>
#include <span>

#include "graph/import/import.h"

namespace lathe {

// Errors: kIo (the file cannot be read), kCorrupt (damaged, or contradicts itself), kInvalidArgument (ill-typed graph, options
// that fit nothing), kUnsupported: the message's first line sums up, each line after it names an operator and what is missing;
// all of them are listed.
Result<Graph> import_tflite(const std::filesystem::path& path, const ImportOptions& options, ImportReport* report);

// The same for a file in memory; `owner` keeps `bytes` alive.
Result<Graph> import_tflite(std::shared_ptr<const void> owner, std::span<const std::byte> bytes, const ImportOptions& options,
                            ImportReport* report);

}  // namespace lathe
