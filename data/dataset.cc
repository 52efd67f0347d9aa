#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/cancel.h"
#include "base/random.h"
#include "data/csv.h"
#include "data/folder.h"
#include "data/npy.h"
#include "data/overlap.h"
#include "data/samples.h"
#include "data/tensor.h"

namespace lathe {
namespace {

constexpr uint64_t kPollMask = 1023;  // loops over samples look for Ctrl-C this often

// Which samples of its files a split takes. Fractions of one file cut one permutation, so that splits with ranges that touch
// share nothing; the chosen samples stay in the file's order.
Result<std::vector<uint32_t>> choose(const SplitDescription& split, uint64_t count, const DatasetDescription& d) {
  const std::string where = d.path + ": split '" + split.name + "'";
  std::vector<uint32_t> out;
  if (split.fraction) {
    const auto first = static_cast<size_t>(std::llround(split.fraction->first * static_cast<double>(count)));
    const auto end = static_cast<size_t>(std::llround(split.fraction->second * static_cast<double>(count)));
    const auto order = permutation(count, Random(d.seed));
    out.assign(order.begin() + static_cast<ptrdiff_t>(first), order.begin() + static_cast<ptrdiff_t>(end));
    std::sort(out.begin(), out.end());
    if (out.empty())
      return fail(Code::kInvalidArgument, where + " is empty: its fraction of " + std::to_string(count) + " samples");
    return out;
  }
  const auto [first, end] = split.range.value_or(std::pair<int64_t, int64_t>(0, static_cast<int64_t>(count)));
  if (static_cast<uint64_t>(end) > count)
    return fail(Code::kInvalidArgument, where + " has range [" + std::to_string(first) + ", " + std::to_string(end) +
                                            "), its files hold " + std::to_string(count) + " samples");
  for (int64_t i = first; i < end; ++i) out.push_back(static_cast<uint32_t>(i));
  return out;
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string out;
  for (const std::string& p : parts) out += (out.empty() ? "" : separator) + p;
  return out;
}

}  // namespace

// Fills the private members of Dataset and DataSplit, in order: classes, samples, splits, checks.
class DatasetLoader {
 public:
  DatasetLoader(DatasetDescription d, const LoadOptions& options) : options_(options) { out_.description_ = std::move(d); }

  Result<Dataset> load() {
    LATHE_CHECK_OK(find_class_names());
    for (const SplitDescription& split : out_.description_.splits) LATHE_CHECK_OK(add_split(split));
    LATHE_CHECK_OK(check_labels());
    if (!options_.allow_non_finite)
      for (const DataSplit& split : out_.splits_) LATHE_CHECK_OK(check_finite(split));
    if (!options_.allow_overlap) LATHE_CHECK_OK(check_overlap());
    return std::move(out_);
  }

 private:
  // Folders name their classes; without a list in the description, those of all splits in sorted order.
  Result<void> find_class_names() {
    const DatasetDescription& d = out_.description_;
    out_.classes_ = d.classes;
    if (!reads_folders(d.format) || !d.classes.empty()) return {};
    std::set<std::string> names;
    for (const SplitDescription& split : d.splits)
      for (const std::string& root : split.paths[0]) {
        LATHE_TRY(const FolderListing listing, list_folder(d, root));
        for (const ClassPlace& c : listing.classes) names.insert(c.name);
      }
    out_.classes_.assign(names.begin(), names.end());
    return {};
  }

  // Splits that cut the same files share one copy of them.
  Result<LoadedSamples> samples_of(const SplitDescription& split) {
    std::string key;
    for (const auto& paths : split.paths) key += join(paths, "\n") + "\n\n";
    key += join(split.label_paths, "\n");
    const auto it = cache_.find(key);
    if (it != cache_.end()) return it->second;
    LATHE_TRY(LoadedSamples loaded, load_samples(out_.description_, split, out_.classes_));
    return cache_.emplace(key, std::move(loaded)).first->second;
  }

  Result<void> add_split(const SplitDescription& description) {
    const DatasetDescription& d = out_.description_;
    LATHE_TRY(LoadedSamples loaded, samples_of(description));
    DataSplit split;
    split.name_ = description.name;
    split.inputs_ = std::move(loaded.inputs);
    split.labels_ = std::move(loaded.labels);
    const uint64_t count = split.inputs_[0]->count();
    LATHE_TRY(split.indices_, choose(description, count, d));
    for (size_t i = 0; i < d.inputs.size(); ++i) LATHE_CHECK_OK(add_preprocessor(i, &split));
    for (const GroupColumn& column : loaded.groups) LATHE_CHECK_OK(add_group(column, &split));
    if (!description.groups_path.empty()) LATHE_CHECK_OK(add_groups(description.groups_path, count, &split));
    if (!description.targets_path.empty()) LATHE_CHECK_OK(add_targets(description.targets_path, count, &split));
    out_.splits_.push_back(std::move(split));
    return {};
  }

  Result<void> add_preprocessor(size_t i, DataSplit* split) {
    const InputDescription& input = out_.description_.inputs[i];
    const std::string where =
        out_.description_.path + ": split '" + split->name_ + "'" + (input.name.empty() ? "" : ", input '" + input.name + "'");
    auto made = Preprocessor::make(input.preprocessing, split->inputs_[i]->form());
    if (!made) return tl::unexpected<Error>(with_context(std::move(made.error()), where));
    if (out_.inputs_.size() == i) out_.inputs_.push_back({input.name, made->dtype(), made->dims(), made->bytes()});
    if (out_.inputs_[i].dims != made->dims())
      return fail(Code::kInvalidArgument, where + ": samples of " + dims_text(made->dims()) + ", the splits before it have " +
                                              dims_text(out_.inputs_[i].dims));
    split->preprocessors_.push_back(std::make_shared<const Preprocessor>(std::move(*made)));
    return {};
  }

  // One line per sample of the split's files.
  static Result<void> add_groups(const std::string& path, uint64_t count, DataSplit* split) {
    LATHE_TRY(const CsvTable table, read_csv(path));
    if (table.rows.size() != count)
      return fail(Code::kCorrupt,
                  path + ": " + std::to_string(table.rows.size()) + " lines of groups for " + std::to_string(count) + " samples");
    for (size_t c = 0; c < table.columns.size(); ++c) {
      GroupColumn column{table.columns[c], {}};
      for (const auto& row : table.rows) column.values.push_back(row[c]);
      LATHE_CHECK_OK(add_group(column, split));
    }
    return {};
  }

  // `column`: of all samples of the split's files; the split keeps those of its own.
  static Result<void> add_group(const GroupColumn& column, DataSplit* split) {
    for (const GroupColumn& other : split->groups_)
      if (other.name == column.name)
        return fail(Code::kInvalidArgument, "split '" + split->name_ + "' has two groups of the name '" + column.name + "'");
    GroupColumn own{column.name, {}};
    for (const uint32_t i : split->indices_) own.values.push_back(column.values[i]);
    split->groups_.push_back(std::move(own));
    return {};
  }

  // One row per sample of the split's files.
  static Result<void> add_targets(const std::string& path, uint64_t count, DataSplit* split) {
    LATHE_TRY(const HostTensor rows, read_npy(path));
    const uint64_t found = rows.dims.empty() ? 0 : static_cast<uint64_t>(rows.dims[0]);
    if (found != count)
      return fail(Code::kCorrupt, path + ": " + std::to_string(found) + " rows of targets for " + std::to_string(count) + " samples");
    split->targets_ = std::make_shared<const HostTensor>(to_f32(rows));
    return {};
  }

  Result<void> check_labels() {
    int32_t highest = -1;
    for (const DataSplit& split : out_.splits_) {
      if (split.has_labels() != out_.splits_[0].has_labels())
        return fail(Code::kInvalidArgument, out_.description_.path + ": splits '" + out_.splits_[0].name_ + "' and '" +
                                                split.name_ + "' differ in having labels");
      for (uint64_t i = 0; split.has_labels() && i < split.size(); ++i) {
        const int32_t label = split.label(i);
        if (!out_.classes_.empty() && static_cast<size_t>(label) >= out_.classes_.size())
          return fail(Code::kCorrupt, split.where(i) + ": label " + std::to_string(label) + ", the set has " +
                                          std::to_string(out_.classes_.size()) + " classes");
        highest = std::max(highest, label);
      }
    }
    for (int32_t c = 0; out_.description_.classes.empty() && static_cast<int32_t>(out_.classes_.size()) <= highest; ++c)
      out_.classes_.push_back(std::to_string(c));
    return {};
  }

  static Result<void> check_finite(const DataSplit& split) {
    const bool any = std::any_of(split.inputs_.begin(), split.inputs_.end(), [](const auto& s) { return is_float(s->form().dtype); });
    for (uint64_t i = 0; any && i < split.size(); ++i) {
      if ((i & kPollMask) == 0) LATHE_CHECK_OK(check_cancelled());
      LATHE_TRY(const std::string bad, split.non_finite(i));
      if (!bad.empty()) return fail(Code::kCorrupt, bad);
    }
    return {};
  }

  Result<void> check_overlap() {
    LATHE_TRY(const OverlapReport report, find_overlap(out_.splits_));
    if (report.shared == 0) return {};
    return fail(Code::kInvalidArgument, out_.description_.path + ": " + report.text);
  }

  LoadOptions options_;
  Dataset out_;
  std::map<std::string, LoadedSamples> cache_;
};

namespace {

uint64_t stored_bytes(const Samples& samples) {
  uint64_t bytes = 0;
  (void)checked_tensor_bytes(samples.form().dtype, samples.form().dims, &bytes);
  return bytes;
}

}  // namespace

const RawSample& DataSplit::form(size_t input) const { return inputs_[input]->form(); }

Result<void> DataSplit::fill(size_t input, uint64_t index, void* out) const { return fill(input, index, out, nullptr); }

Result<void> DataSplit::fill(size_t input, uint64_t index, void* out, const Change& change) const {
  std::vector<std::byte> scratch, changed;
  LATHE_TRY(const std::byte* stored, raw(input, index, &scratch));
  if (change) {
    changed.resize(stored_bytes(*inputs_[input]));
    change(stored, changed.data());
    stored = changed.data();
  }
  auto done = preprocessors_[input]->apply(stored, out);
  if (!done) return tl::unexpected<Error>(with_context(std::move(done.error()), inputs_[input]->where(indices_[index])));
  return {};
}

Result<const std::byte*> DataSplit::raw(size_t input, uint64_t index, std::vector<std::byte>* scratch) const {
  const Samples& samples = *inputs_[input];
  auto bytes = samples.raw(indices_[index], scratch);
  if (!bytes) return tl::unexpected<Error>(with_context(std::move(bytes.error()), samples.where(indices_[index])));
  return *bytes;
}

std::span<const float> DataSplit::target(uint64_t index) const {
  const auto all = targets_->as<float>();
  const size_t row = all.size() / static_cast<size_t>(targets_->dims[0]);
  return all.subspan(indices_[index] * row, row);
}

std::string DataSplit::where(uint64_t index) const { return inputs_[0]->where(indices_[index]); }

Result<Hash128> DataSplit::hash(uint64_t index) const {
  if (inputs_.size() == 1) return inputs_[0]->hash(indices_[index]);
  Hasher all;
  for (const auto& samples : inputs_) {
    LATHE_TRY(const Hash128 h, samples->hash(indices_[index]));
    all.update(to_hex(h));
  }
  return all.finish();
}

Result<std::string> DataSplit::non_finite(uint64_t index) const {
  std::vector<std::byte> scratch;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const DType dtype = inputs_[k]->form().dtype;
    if (!is_float(dtype)) continue;
    const uint64_t elems = stored_bytes(*inputs_[k]) / dtype_bytes(dtype);
    LATHE_TRY(const std::byte* stored, raw(k, index, &scratch));
    const uint64_t at = first_non_finite(dtype, stored, elems);
    if (at != elems) return inputs_[k]->where(indices_[index]) + ": element " + std::to_string(at) + " is NaN or infinite";
  }
  return std::string();
}

Result<bool> DataSplit::is_constant(uint64_t index) const {
  std::vector<std::byte> scratch;
  bool any = false;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const uint64_t bytes = stored_bytes(*inputs_[k]), one = dtype_bytes(inputs_[k]->form().dtype);
    if (bytes <= one) continue;
    LATHE_TRY(const std::byte* stored, raw(k, index, &scratch));
    if (std::memcmp(stored, stored + one, bytes - one) != 0) return false;
    any = true;
  }
  return any;
}

Result<Dataset> Dataset::load(const std::string& toml_path, const LoadOptions& options) {
  LATHE_TRY(DatasetDescription d, read_description(toml_path));
  return load(d, options);
}

Result<Dataset> Dataset::load(const DatasetDescription& description, const LoadOptions& options) {
  return DatasetLoader(description, options).load();
}

std::vector<NamedPreprocessing> Dataset::preprocessing() const {
  std::vector<NamedPreprocessing> out;
  for (const InputDescription& input : description_.inputs) out.push_back({input.name, input.preprocessing});
  return out;
}

const DataSplit* Dataset::split(std::string_view name) const {
  const auto it = std::find_if(splits_.begin(), splits_.end(), [&](const DataSplit& s) { return s.name() == name; });
  return it == splits_.end() ? nullptr : &*it;
}

Result<ChosenSplit> Dataset::first_of(std::span<const char* const> names, const char* purpose) const {
  for (const char* name : names)
    if (const DataSplit* found = split(name)) {
      ChosenSplit out{found, {}};
      if (name != names[0]) out.note = std::string("no split '") + names[0] + "', using '" + name + "'";
      return out;
    }
  std::vector<std::string> there, wanted(names.begin(), names.end());
  for (const DataSplit& s : splits_) there.push_back("'" + s.name() + "'");
  return fail(Code::kInvalidArgument, description_.path + ": no split '" + join(wanted, "' or '") + "' for " + purpose +
                                          " (it has " + join(there, ", ") + ")");
}

Result<ChosenSplit> Dataset::for_calibration() const {
  static constexpr std::array<const char*, 2> kNames = {"calib", "train"};
  return first_of(kNames, "calibration");
}

Result<ChosenSplit> Dataset::for_choices() const {
  static constexpr std::array<const char*, 3> kNames = {"val", "calib", "train"};
  return first_of(kNames, "choices");
}

Result<ChosenSplit> Dataset::for_report() const {
  static constexpr std::array<const char*, 1> kNames = {"test"};
  return first_of(kNames, "reported figures");
}

}  // namespace lathe
