#include "tools/versions.h"

#include <ctime>

#include "base/store/lineage.h"
#include "data/preprocess.h"
#include "graph/file/model_file.h"
#include "lathe/version.h"
#include "tools/calibration.h"
#include "tools/keep_list.h"
#include "tools/model.h"

namespace lathe::tools {
namespace {

std::string now_utc() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  char text[32], milliseconds[8];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(milliseconds, sizeof milliseconds, ".%03dZ", static_cast<int>(now.tv_nsec / 1000000 % 1000));
  return std::string(text) + milliseconds;
}

// Where the constants of a program lie in the file, so that equal tensors of two files are one object. Files of other kinds have no
// such places.
std::vector<uint64_t> tensor_cuts(const FileBytes& file) {
  std::vector<uint64_t> cuts;
  const auto loaded = open_program(file);
  if (!loaded) return cuts;
  const Program& p = (*loaded)->program;
  const auto first = static_cast<uint64_t>(p.weights().data - file.bytes.data);
  if (p.weights().data < file.bytes.data || first > file.bytes.size) return cuts;  // lowered on the way, not in the file
  for (uint32_t t = 0; t < p.tensor_count(); ++t) {
    const ProgramTensor& tensor = p.tensor(t);
    if (tensor.kind != TensorKind::kConstant) continue;
    const uint64_t at = first + uint64_t{tensor.offset_units} * kUnitBytes;
    cuts.insert(cuts.end(), {at, at + tensor.stored_bytes});
  }
  return cuts;
}

}  // namespace

std::string precision_of(const std::string& path) {
  const auto model = load_host_model(path, {});
  if (!model) return "";
  const Program& p = (*model).program->program;
  bool half = false;
  for (uint32_t t = 0; t < p.tensor_count(); ++t) {
    const ProgramTensor& tensor = p.tensor(t);
    if ((tensor.flags & kTensorHasQuant) != 0 && tensor.dtype == DType::kS8) return "int8-mixed";
    half |= tensor.dtype == DType::kF16;
  }
  return half ? "fp16" : "float";
}

Result<Version> add_version(Registry& registry, const std::string& path, Version v, const std::string& tag) {
  LATHE_TRY(const FileBytes file, map_file(path));
  v.created = now_utc();
  v.tool = std::string("lathe ") + LATHE_VERSION_TEXT;
  if (const auto metadata = read_metadata(path))
    for (const char* key : {kPreprocessingHashKey, kCalibrationHashKey, kKeepHashKey})
      if (const auto it = metadata->find(key); it != metadata->end()) v.facts[key] = it->second;
  if (const std::string precision = precision_of(path); !precision.empty()) v.facts[kPrecisionFact] = precision;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(file.bytes.data), file.bytes.size);
  return registry.add(std::move(v), bytes, tensor_cuts(file), tag);
}

}  // namespace lathe::tools
