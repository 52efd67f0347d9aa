// The TOML description of a data set, read and checked but not yet loaded.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "data/preprocess.h"

namespace lathe {

enum class DataFormat : uint8_t { kImageFolder, kCifarBin, kIdx, kNpz, kRaw, kCsv, kWavFolder };
// "image-folder", "cifar-bin", ...
const char* format_name(DataFormat format);
// Whether each sample is a file, in folders or lists.
constexpr bool reads_folders(DataFormat format) { return format == DataFormat::kImageFolder || format == DataFormat::kWavFolder; }

// Columns that describe the samples (user, hour, device), as text.
struct GroupColumn {
  std::string name;
  std::vector<std::string> values;  // one per sample
};

struct InputDescription {
  std::string name;
  std::string key;                   // npz: name of the array
  std::vector<std::string> columns;  // csv: empty means all but the label
  DType dtype = DType::kU8;          // raw
  std::vector<int64_t> dims;         // raw: of one sample
  RawAxes axes = RawAxes::kPlain;    // npz, raw
  Preprocessing preprocessing;
};

struct SplitDescription {
  std::string name;
  std::vector<std::vector<std::string>> paths;  // per input; files are joined in order
  std::vector<std::string> label_paths;
  std::string groups_path;
  std::string targets_path;
  std::optional<std::pair<int64_t, int64_t>> range;   // [first, end) of the samples of its files
  std::optional<std::pair<double, double>> fraction;  // of the samples of its files, shuffled by the set's seed
  uint32_t line = 0;
};

struct DatasetDescription {
  std::string path;  // of the TOML file
  DataFormat format = DataFormat::kNpz;
  std::vector<InputDescription> inputs;
  std::vector<SplitDescription> splits;  // in the order train, calib, val, test
  std::vector<std::string> classes;      // names in the order of labels; may be empty
  std::string label_key;                 // npz
  std::string label_column;              // csv; lists of files
  std::string file_column;               // lists of files
  std::string file_name;                 // folders: what names of files hold, "{label}_{speaker}_{}"; may be empty
  DType label_dtype = DType::kU8;        // raw label files
  int64_t label_bytes = 1;               // cifar-bin: 2 for CIFAR-100, whose second byte is the label
  uint64_t seed = 0;
};

// Reads the description. Paths become absolute or relative to the working folder; ${NAME} and ${NAME:-default} are replaced from
// the environment.
Result<DatasetDescription> read_description(const std::string& toml_path);
Result<DatasetDescription> parse_description(std::string_view toml, const std::string& toml_path);

}  // namespace lathe
