// Data sets described by a TOML file (data/README.md has the keys and an example of each format).
//
// Samples are read once, kept as the files store them and preprocessed on access; pictures and sounds of folders are decoded on
// access. A Dataset is immutable after load() and shared between threads.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/description.h"
#include "data/preprocess.h"
#include "data/tensor.h"

namespace lathe {

class Samples;

// One input of the network, as fill() writes it.
struct DataInput {
  std::string name;  // empty where there is one input and the description gives no name
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;  // per sample, without batch
  uint64_t bytes = 0;         // per sample
};

class DataSplit {
 public:
  const std::string& name() const { return name_; }
  uint64_t size() const { return indices_.size(); }
  // Sample `index` of input `input`, preprocessed, to `out` (DataInput::bytes, aligned to the dtype). Requires: both in range.
  // Thread-safe. Errors name the file and the sample: an image that does not decode, a value that the dtype cannot hold.
  Result<void> fill(size_t input, uint64_t index, void* out) const;
  // The same of the sample that `change` made of the stored one, in the same form: augmentation.
  using Change = std::function<void(const std::byte* stored, std::byte* changed)>;
  Result<void> fill(size_t input, uint64_t index, void* out, const Change& change) const;
  // How samples are stored.
  const RawSample& form(size_t input) const;

  bool has_labels() const { return !labels_.empty(); }
  // Requires: has_labels().
  int32_t label(uint64_t index) const { return labels_[indices_[index]]; }
  bool has_targets() const { return targets_ != nullptr; }
  // Values that a network should give for the sample, or the tokens that follow its own. Requires: has_targets().
  std::span<const float> target(uint64_t index) const;
  const std::vector<GroupColumn>& groups() const { return groups_; }
  // "file 'x', sample 12", for messages.
  std::string where(uint64_t index) const;
  // Of the stored bytes of all inputs; labels do not count.
  Result<Hash128> hash(uint64_t index) const;
  // "file 'x', sample 12: element 3 is NaN or infinite" for the first such element as stored; empty if there is none.
  Result<std::string> non_finite(uint64_t index) const;
  // Whether the stored elements of every input that has several are all equal, and there is such an input.
  Result<bool> is_constant(uint64_t index) const;

 private:
  friend class DatasetLoader;
  // The stored bytes, in the object's files or in *scratch; errors say where.
  Result<const std::byte*> raw(size_t input, uint64_t index, std::vector<std::byte>* scratch) const;

  std::string name_;
  std::vector<std::shared_ptr<const Samples>> inputs_;
  std::vector<std::shared_ptr<const Preprocessor>> preprocessors_;
  std::vector<uint32_t> indices_;  // of the samples of its files
  std::vector<int32_t> labels_;    // of all samples of its files; empty if there are none
  std::vector<GroupColumn> groups_;
  std::shared_ptr<const HostTensor> targets_;  // f32, one row per sample of its files; null if there are none
};

// A split chosen by purpose, and why it is this one if it is not the first choice ("no split 'calib', using 'train'"; else
// empty).
struct ChosenSplit {
  const DataSplit* split = nullptr;
  std::string note;
};

struct LoadOptions {
  // dataset check reports these instead of stopping at the first.
  bool allow_overlap = false;
  bool allow_non_finite = false;
};

class Dataset {
 public:
  // Reads and checks everything. Errors: what the readers find (with the file), label and sample counts that differ, labels
  // outside the classes, NaN or infinity (with the sample), an empty split, a sample that two splits share.
  static Result<Dataset> load(const std::string& toml_path, const LoadOptions& options = {});
  static Result<Dataset> load(const DatasetDescription& description, const LoadOptions& options = {});

  const DatasetDescription& description() const { return description_; }
  const std::vector<DataInput>& inputs() const { return inputs_; }
  // Preprocessing of every input, as stored in models.
  std::vector<NamedPreprocessing> preprocessing() const;

  const std::vector<DataSplit>& splits() const { return splits_; }
  // nullptr if there is none of that name.
  const DataSplit* split(std::string_view name) const;

  // Classes by name, or "0", "1", ...; empty without labels.
  const std::vector<std::string>& classes() const { return classes_; }

  // Calibration reads calib, else train. Choices (which operator stays float, which step) read val, else calib, else train, never
  // test. Figures that are reported come from test, and only from there. Errors name the splits that are there.
  Result<ChosenSplit> for_calibration() const;
  Result<ChosenSplit> for_choices() const;
  Result<ChosenSplit> for_report() const;

 private:
  friend class DatasetLoader;
  Result<ChosenSplit> first_of(std::span<const char* const> names, const char* purpose) const;

  DatasetDescription description_;
  std::vector<DataInput> inputs_;
  std::vector<DataSplit> splits_;
  std::vector<std::string> classes_;
};

// What `lathe dataset check` prints.
struct SplitReport {
  std::string name;
  uint64_t samples = 0;
  std::vector<uint64_t> per_class;  // empty without labels
  uint64_t duplicates = 0;          // samples equal to an earlier one of this split
  std::vector<std::string> group_columns;
};
struct InputReport {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;
  double low = 0, high = 0, mean = 0;  // after preprocessing, over all splits, finite values only
  uint64_t non_finite = 0;
};
struct DatasetReport {
  std::vector<SplitReport> splits;
  std::vector<InputReport> inputs;
  std::vector<std::string> classes;
  std::vector<std::string> problems;  // one line each; empty: the set can be used
};
Result<DatasetReport> dataset_check(const std::string& toml_path);

// Looks at a folder or file, guesses format, shapes and splits, and returns a commented TOML text whose paths are relative to
// `toml_folder`. Fails if nothing there is a format that it knows.
Result<std::string> dataset_init(const std::string& path, const std::string& toml_folder);

}  // namespace lathe
