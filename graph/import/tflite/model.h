// A TFLite file after verification: every index in it has been checked, so that the importer can follow them.
//
// Nothing is copied: spans and views point into the file's bytes, which must outlive the FileModel.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/import/tflite/schema_generated.h"
#include "lathe/dtype.h"

namespace lathe::tflite {

struct FileTensor {
  std::string_view name;  // may be empty or another tensor's too
  fbs::TensorType type = fbs::TensorType_FLOAT32;
  std::span<const int32_t> dims;       // none negative, at most kMaxRank
  std::span<const int32_t> signature;  // empty, or as many as dims: -1 where a dim is open
  std::span<const std::byte> data;     // a constant's bytes, as many as type and dims say; else empty
  bool is_variable = false;            // keeps its value from one run to the next
  // Quantization: none if `scales` is empty. zero_points: as many as scales, or none (all 0). axis: of scales, if there are
  // several.
  std::span<const float> scales;
  std::span<const int64_t> zero_points;
  int32_t axis = 0;

  // Empty tensors are constants too: nothing can be computed for them.
  bool is_constant() const;
};

struct FileOperator {
  int32_t code = 0;  // a number of ops.inc, or one that is not supported
  int32_t version = 1;
  std::string_view custom;           // the name of a custom operator
  std::span<const int32_t> inputs;   // tensors; -1: omitted
  std::span<const int32_t> outputs;  // tensors
  const fbs::Operator* options = nullptr;
};

struct FileSubgraph {
  std::vector<FileTensor> tensors;
  std::span<const int32_t> inputs, outputs;
  std::vector<FileOperator> operators;
};

struct FileModel {
  uint32_t version = 0;
  std::string_view description;
  std::vector<FileSubgraph> subgraphs;  // the first is the main one
};

// Number of a custom operator among codes.
inline constexpr int32_t kCustomCode = 32;

// Bytes per element, 0 for types that are not whole bytes or have no fixed size.
uint32_t type_bytes(fbs::TensorType type);
// Lower-case name of a tensor type, or its number.
std::string type_name(fbs::TensorType type);

// Errors: kCorrupt (not a TFLite file, damaged, an index or a size that does not fit), kUnsupported (another format version).
Result<FileModel> read_file_model(std::span<const std::byte> bytes);

}  // namespace lathe::tflite
