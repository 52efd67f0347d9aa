#include "data/description.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/toml.h"
#include "data/csv.h"
#include "data/folder.h"
#include "data/tensor.h"

namespace lathe {
namespace {

constexpr std::array<const char*, 7> kFormats = {"image-folder", "cifar-bin", "idx", "npz", "raw", "csv", "wav-folder"};
constexpr std::array<const char*, 4> kSplitNames = {"train", "calib", "val", "test"};
constexpr std::array<const char*, 4> kAxesNames = {"plain", "hw", "chw", "hwc"};
constexpr int64_t kMaxDim = INT32_MAX;
constexpr int64_t kMaxSamples = UINT32_MAX;

template <size_t n>
Result<size_t> choice(TableReader& r, std::string_view key, const std::array<const char*, n>& names, const char* otherwise) {
  std::string all;
  for (const char* name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  if (otherwise == nullptr && r.get(key) == nullptr) return r.missing(key);
  LATHE_TRY(const std::string text, r.string_or(key, otherwise == nullptr ? "" : otherwise));
  const auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) return r.error(*r.get(key), "unknown " + std::string(key) + " '" + text + "' (known: " + all + ")");
  return static_cast<size_t>(it - names.begin());
}

// ${NAME} and ${NAME:-default}; a relative result is relative to the description's folder.
class PathExpander {
 public:
  explicit PathExpander(const std::string& toml_path) : folder_(std::filesystem::path(toml_path).parent_path()) {}

  Result<std::string> expand(const std::string& text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t open = text.find("${", at);
      out += text.substr(at, open - at);
      if (open == std::string::npos) break;
      const size_t close = text.find('}', open);
      if (close == std::string::npos) return fail(Code::kInvalidArgument, "'" + text + "' has '${' without '}'");
      const std::string inside = text.substr(open + 2, close - open - 2);
      const size_t bar = inside.find(":-");
      const std::string name = inside.substr(0, bar);
      const char* value = std::getenv(name.c_str());
      if (value != nullptr && *value != '\0') {
        out += value;
      } else if (bar != std::string::npos) {
        out += inside.substr(bar + 2);
      } else {
        return fail(Code::kInvalidArgument, "environment variable '" + name + "' is not set ('" + text + "')");
      }
      at = close + 1;
    }
    const std::filesystem::path path(out);
    return path.is_absolute() || folder_.empty() ? out : (folder_ / path).lexically_normal().string();
  }

  Result<std::vector<std::string>> expand_all(const std::vector<std::string>& texts) const {
    std::vector<std::string> out;
    for (const std::string& text : texts) {
      LATHE_TRY(std::string path, expand(text));
      out.push_back(std::move(path));
    }
    return out;
  }

 private:
  std::filesystem::path folder_;
};

// A number, or a fraction as text: scale = "1/255".
Result<double> read_scale(TableReader& r) {
  const Tree* v = r.get("scale");
  if (v == nullptr) return 1.0;
  if (v->as_string() == nullptr) return r.number("scale");
  const std::string& text = *v->as_string();
  const size_t slash = text.find('/');
  const auto top = cell_number(text.substr(0, slash));
  const auto bottom = slash == std::string::npos ? std::optional<double>(1.0) : cell_number(text.substr(slash + 1));
  if (!top || !bottom || *bottom == 0)
    return r.error(*v, "'scale' must be a number or a fraction like \"1/255\", it is \"" + text + "\"");
  return *top / *bottom;
}

// The keys of sound: without `rate` there must be none.
Result<SoundForm> read_sound_form(TableReader& r) {
  SoundForm out;
  if (r.get("rate") == nullptr) return out;
  LATHE_TRY(const int64_t rate, r.integer_or("rate", 1, 1 << 20, 1));
  out.rate = static_cast<int32_t>(rate);
  LATHE_TRY(out.seconds, r.number_or("seconds", 0));
  if (r.get("seconds") != nullptr && !(out.seconds * out.rate >= 1 && out.seconds <= 3600))
    return r.error(*r.get("seconds"), "'seconds' must be at least one sample and at most 3600");
  LATHE_TRY(out.mono, r.boolean_or("mono", false));
  LATHE_TRY(const size_t features, choice(r, "features", kSoundFeatureNames, "samples"));
  out.features = static_cast<SoundFeatures>(features);
  if (out.features == SoundFeatures::kSamples) return out;
  LATHE_TRY(out.window, r.number_or("window", out.window));
  LATHE_TRY(out.hop, r.number_or("hop", out.hop));
  int64_t fft = 2;  // the next power of two
  while (static_cast<double>(fft) < out.window * out.rate && fft < INT32_MAX / 2) fft *= 2;
  LATHE_TRY(fft, r.integer_or("fft", 2, INT32_MAX, fft));
  LATHE_TRY(const int64_t mels, r.integer_or("mels", 1, INT32_MAX, out.mels));
  LATHE_TRY(out.low, r.number_or("low", out.low));
  LATHE_TRY(out.high, r.number_or("high", out.rate / 2.0));
  LATHE_TRY(out.floor, r.number_or("floor", out.floor));
  out.fft = static_cast<int32_t>(fft);
  out.mels = static_cast<int32_t>(mels);
  if (out.features != SoundFeatures::kMfcc) return out;
  LATHE_TRY(const int64_t coefficients, r.integer_or("coefficients", 1, INT32_MAX, out.coefficients));
  out.coefficients = static_cast<int32_t>(coefficients);
  return out;
}

Result<Preprocessing> read_preprocessing(const Tree& value, const std::string& where) {
  LATHE_TRY(TableReader r, TableReader::open(value, where));
  Preprocessing p;
  LATHE_TRY(p.scale, read_scale(r));
  LATHE_TRY(p.zero_point, r.number_or("zero_point", 0));
  if (value.find("mean") != nullptr) {
    LATHE_TRY(p.mean, r.numbers("mean"));
  }
  if (value.find("std") != nullptr) {
    LATHE_TRY(p.std, r.numbers("std"));
  }
  LATHE_TRY(const size_t layout, choice(r, "layout", kSampleLayoutNames, "as-is"));
  LATHE_TRY(const size_t color, choice(r, "color", kColorOrderNames, "rgb"));
  p.layout = static_cast<SampleLayout>(layout);
  p.color = static_cast<ColorOrder>(color);
  LATHE_TRY(const std::string dtype, r.string_or("dtype", "f32"));
  auto parsed = parse_dtype(dtype);
  if (!parsed) return r.error(*r.get("dtype"), parsed.error().message);
  p.dtype = *parsed;
  if (value.find("shape") != nullptr) {
    LATHE_TRY(p.shape, r.integers("shape", 1, kMaxDim));
  }
  if (const Tree* resize = r.get("resize")) {
    LATHE_TRY(const auto size, r.integers("resize", 1, 32768));
    if (size.size() != 2) return r.error(*resize, "'resize' must be [height, width]");
    p.height = static_cast<int32_t>(size[0]);
    p.width = static_cast<int32_t>(size[1]);
  }
  LATHE_TRY(p.sound, read_sound_form(r));
  LATHE_CHECK_OK(r.finish());
  return p;
}

// The keys of one input: at the top level where there is one, in [[input]] tables where there are several.
Result<void> read_input_keys(TableReader& r, DataFormat format, InputDescription* input) {
  if (format == DataFormat::kRaw) {
    LATHE_TRY(const std::string dtype, r.string("dtype"));
    auto parsed = parse_dtype(dtype);
    if (!parsed) return r.error(*r.get("dtype"), parsed.error().message);
    input->dtype = *parsed;
    LATHE_TRY(input->dims, r.integers("shape", 1, kMaxDim));
  }
  if (format == DataFormat::kRaw || format == DataFormat::kNpz) {
    LATHE_TRY(const size_t axes, choice(r, "axes", kAxesNames, "plain"));
    input->axes = static_cast<RawAxes>(axes);
  }
  if (format == DataFormat::kNpz) {
    LATHE_TRY(input->key, r.string_or("key", ""));
  }
  if (format == DataFormat::kCsv && r.get("columns") != nullptr) {
    LATHE_TRY(input->columns, r.strings("columns"));
  }
  if (const Tree* preprocess = r.get("preprocess")) {
    LATHE_TRY(input->preprocessing, read_preprocessing(*preprocess, r.where()));
  }
  const bool resizes = input->preprocessing.height != 0;
  if (resizes && format != DataFormat::kImageFolder)
    return r.error(*r.get("preprocess"), std::string("'resize' is for format image-folder, this is ") + format_name(format));
  const bool sounds = input->preprocessing.sound.rate != 0, wants_sound = format == DataFormat::kWavFolder;
  if (sounds && !wants_sound)
    return r.error(*r.get("preprocess"), std::string("'rate' is for format wav-folder, this is ") + format_name(format));
  if (!sounds && wants_sound) return fail(Code::kInvalidArgument, r.where() + ": format wav-folder needs 'rate' in [preprocess]");
  return {};
}

Result<void> read_inputs(TableReader& r, DatasetDescription* d) {
  const Tree* list = r.get("input");
  if (list == nullptr) {
    d->inputs.resize(1);
    return read_input_keys(r, d->format, &d->inputs[0]);
  }
  if (list->as_array() == nullptr || list->as_array()->empty())
    return r.error(*list, "'input' must be a list of tables: [[input]]");
  for (const Tree& item : *list->as_array()) {
    LATHE_TRY(TableReader input, TableReader::open(item, r.where()));
    InputDescription out;
    LATHE_TRY(out.name, input.string("name"));
    LATHE_CHECK_OK(read_input_keys(input, d->format, &out));
    LATHE_CHECK_OK(input.finish());
    for (const InputDescription& other : d->inputs)
      if (other.name == out.name) return r.error(item, "two inputs have the name '" + out.name + "'");
    d->inputs.push_back(std::move(out));
  }
  const bool several = d->format == DataFormat::kNpz || d->format == DataFormat::kRaw || d->format == DataFormat::kCsv;
  if (d->inputs.size() > 1 && !several)
    return r.error(*list, std::string("format ") + format_name(d->format) + " gives one input");
  return {};
}

// paths = "a" | ["a", "b"] for one input (or for all: npz and csv hold several), { name = ..., } for several.
Result<void> read_paths(TableReader& r, const DatasetDescription& d, const PathExpander& expander, SplitDescription* split) {
  const Tree* v = r.get("paths");
  if (v == nullptr) return r.missing("paths");
  const bool shared = d.format == DataFormat::kNpz || d.format == DataFormat::kCsv;
  if (v->as_table() == nullptr) {
    if (d.inputs.size() > 1 && !shared) return r.error(*v, "'paths' must be a table with one entry per input");
    LATHE_TRY(const auto texts, r.strings("paths"));
    if (texts.empty()) return r.error(*v, "'paths' is empty");
    LATHE_TRY(const auto paths, expander.expand_all(texts));
    split->paths.assign(d.inputs.size(), paths);
    return {};
  }
  if (d.format == DataFormat::kCsv) return r.error(*v, "format csv reads all inputs from the same files: 'paths' must be a list");
  LATHE_TRY(TableReader table, TableReader::open(*v, r.where()));
  for (const InputDescription& input : d.inputs) {
    LATHE_TRY(const auto texts, table.strings(input.name));
    if (texts.empty()) return r.error(*v, "'paths' of input '" + input.name + "' is empty");
    LATHE_TRY(auto paths, expander.expand_all(texts));
    split->paths.push_back(std::move(paths));
  }
  return table.finish();
}

Result<void> read_part(TableReader& r, SplitDescription* split) {
  const Tree* range = r.get("range");
  const Tree* fraction = r.get("fraction");
  if (range != nullptr && fraction != nullptr) return r.error(*fraction, "'range' and 'fraction' exclude each other");
  if (range != nullptr) {
    LATHE_TRY(const auto ends, r.integers("range", 0, kMaxSamples));
    if (ends.size() != 2 || ends[0] >= ends[1]) return r.error(*range, "'range' must be [first, end) with first < end");
    split->range = {ends[0], ends[1]};
  }
  if (fraction != nullptr) {
    LATHE_TRY(const auto ends, r.numbers("fraction"));
    if (ends.size() != 2 || !(ends[0] >= 0) || !(ends[0] < ends[1]) || !(ends[1] <= 1))
      return r.error(*fraction, "'fraction' must be [from, to) with 0 <= from < to <= 1");
    split->fraction = {ends[0], ends[1]};
  }
  return {};
}

Result<SplitDescription> read_split(const Tree& value, const std::string& name, const DatasetDescription& d,
                                    const PathExpander& expander) {
  LATHE_TRY(TableReader r, TableReader::open(value, d.path + ": split '" + name + "'"));
  SplitDescription split;
  split.name = name;
  split.line = value.line();
  LATHE_CHECK_OK(read_paths(r, d, expander, &split));
  LATHE_CHECK_OK(read_part(r, &split));
  const bool labels_inside = d.format == DataFormat::kCifarBin || reads_folders(d.format) || d.format == DataFormat::kCsv;
  if (const Tree* labels = r.get("labels")) {
    if (labels_inside) return r.error(*labels, std::string("format ") + format_name(d.format) + " holds its own labels");
    LATHE_TRY(const auto texts, r.strings("labels"));
    LATHE_TRY(split.label_paths, expander.expand_all(texts));
  }
  LATHE_TRY(const std::string groups, r.string_or("groups", ""));
  if (!groups.empty()) {
    LATHE_TRY(split.groups_path, expander.expand(groups));
  }
  LATHE_TRY(const std::string targets, r.string_or("targets", ""));
  if (!targets.empty()) {
    LATHE_TRY(split.targets_path, expander.expand(targets));
  }
  LATHE_CHECK_OK(r.finish());
  return split;
}

Result<void> read_splits(TableReader& r, const PathExpander& expander, DatasetDescription* d) {
  const Tree* splits = r.get("split");
  if (splits == nullptr) return r.missing("split");
  LATHE_TRY(TableReader table, TableReader::open(*splits, r.where()));
  for (const char* name : kSplitNames) {
    const Tree* value = table.get(name);
    if (value == nullptr) continue;
    LATHE_TRY(SplitDescription split, read_split(*value, name, *d, expander));
    d->splits.push_back(std::move(split));
  }
  LATHE_CHECK_OK(table.finish());
  if (d->splits.empty()) return r.error(*splits, "no split (train, calib, val, test)");
  return {};
}

// classes = ["a", "b"], or the path of a file with one name per line.
Result<void> read_classes(TableReader& r, const PathExpander& expander, DatasetDescription* d) {
  const Tree* v = r.get("classes");
  if (v == nullptr) return {};
  LATHE_TRY(d->classes, r.strings("classes"));
  if (v->as_string() != nullptr) {
    LATHE_TRY(const std::string path, expander.expand(*v->as_string()));
    LATHE_TRY(const std::string text, read_text_file(path, uint64_t{16} << 20));
    d->classes.clear();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string name = text.substr(at, end - at);
      if (name.ends_with('\r')) name.pop_back();
      if (!name.empty()) d->classes.push_back(std::move(name));
      at = end + 1;
    }
  }
  for (size_t i = 0; i < d->classes.size(); ++i)
    if (std::find(d->classes.begin(), d->classes.begin() + static_cast<ptrdiff_t>(i), d->classes[i]) !=
        d->classes.begin() + static_cast<ptrdiff_t>(i))
      return r.error(*v, "class '" + d->classes[i] + "' is there twice");
  return {};
}

}  // namespace

const char* format_name(DataFormat format) { return kFormats[static_cast<size_t>(format)]; }

Result<DatasetDescription> parse_description(std::string_view toml, const std::string& toml_path) {
  LATHE_TRY(const Tree root, parse_toml(toml, toml_path));
  LATHE_TRY(TableReader r, TableReader::open(root, toml_path));
  const PathExpander expander(toml_path);
  DatasetDescription d;
  d.path = toml_path;
  LATHE_TRY(const size_t format, choice(r, "format", kFormats, nullptr));
  d.format = static_cast<DataFormat>(format);
  LATHE_TRY(const int64_t seed, r.integer_or("seed", 0, INT64_MAX, 0));
  d.seed = static_cast<uint64_t>(seed);
  if (d.format == DataFormat::kCifarBin) {
    LATHE_TRY(d.label_bytes, r.integer_or("label_bytes", 1, 2, 1));
  }
  if (d.format == DataFormat::kNpz) {
    LATHE_TRY(d.label_key, r.string_or("label_key", ""));
  }
  if (d.format == DataFormat::kCsv) {
    LATHE_TRY(d.label_column, r.string_or("label_column", ""));
  }
  if (reads_folders(d.format)) {
    LATHE_TRY(d.file_name, r.string_or("file_name", ""));
    LATHE_TRY(d.file_column, r.string_or("file_column", "file"));
    LATHE_TRY(d.label_column, r.string_or("label_column", "label"));
    const auto pattern = parse_name_pattern(d.file_name);
    if (!pattern) return r.error(*r.get("file_name"), pattern.error().message);
  }
  if (d.format == DataFormat::kRaw) {
    LATHE_TRY(const std::string dtype, r.string_or("label_dtype", "u8"));
    auto parsed = parse_dtype(dtype);
    if (!parsed) return r.error(*r.get("label_dtype"), parsed.error().message);
    d.label_dtype = *parsed;
  }
  LATHE_CHECK_OK(read_classes(r, expander, &d));
  LATHE_CHECK_OK(read_inputs(r, &d));
  LATHE_CHECK_OK(read_splits(r, expander, &d));
  LATHE_CHECK_OK(r.finish());
  return d;
}

Result<DatasetDescription> read_description(const std::string& toml_path) {
  LATHE_TRY(const std::string text, read_text_file(toml_path, uint64_t{16} << 20));
  return parse_description(text, toml_path);
}

}  // namespace lathe
