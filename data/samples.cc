#include "data/samples.h"

#include <algorithm>
#include <map>

#include "base/cancel.h"
#include "base/file.h"
#include "data/csv.h"
#include "data/folder.h"
#include "data/idx.h"
#include "data/labels.h"
#include "data/npy.h"
#include "data/tensor.h"

namespace lathe {
namespace {

constexpr uint64_t kMaxSamples = UINT32_MAX;

// Samples at a fixed stride in the bytes of one or more files.
class ArraySamples : public Samples {
 public:
  explicit ArraySamples(const RawSample& form) {
    form_ = form;
    (void)checked_tensor_bytes(form.dtype, form.dims, &sample_bytes_);
  }

  // Requires: samples i < count lie inside `bytes` at offset + i * stride.
  void add(std::string file, std::shared_ptr<const std::vector<std::byte>> bytes, uint64_t offset, uint64_t stride,
           uint64_t count) {
    parts_.push_back({std::move(file), std::move(bytes), offset, stride, count_});
    count_ += count;
  }

  uint64_t count() const override { return count_; }
  Result<const std::byte*> raw(uint64_t i, std::vector<std::byte>*) const override { return data(i); }
  Result<Hash128> hash(uint64_t i) const override { return hash128(std::span(data(i), sample_bytes_)); }
  std::string where(uint64_t i) const override {
    const Part& p = part(i);
    return "file '" + p.file + "', sample " + std::to_string(i - p.first);
  }

 private:
  struct Part {
    std::string file;
    std::shared_ptr<const std::vector<std::byte>> bytes;
    uint64_t offset, stride, first;
  };

  const Part& part(uint64_t i) const {
    return *std::prev(std::upper_bound(parts_.begin(), parts_.end(), i, [](uint64_t at, const Part& p) { return at < p.first; }));
  }
  const std::byte* data(uint64_t i) const {
    const Part& p = part(i);
    return p.bytes->data() + p.offset + (i - p.first) * p.stride;
  }

  std::vector<Part> parts_;
  uint64_t count_ = 0;
  uint64_t sample_bytes_ = 0;
};

using Bytes = std::shared_ptr<const std::vector<std::byte>>;

Bytes share(std::vector<std::byte> bytes) { return std::make_shared<const std::vector<std::byte>>(std::move(bytes)); }

tl::unexpected<Error> bad_file(const std::string& path, const std::string& what) {
  return fail(Code::kCorrupt, path + ": " + what);
}

// Adds a tensor [count, sample dims...] to the samples of one input, whose form the first file decides.
Result<void> add_tensor(HostTensor tensor, RawAxes axes, const std::string& path, std::shared_ptr<ArraySamples>* samples) {
  if (tensor.dims.empty()) return bad_file(path, "a scalar has no samples");
  const auto count = static_cast<uint64_t>(tensor.dims[0]);
  RawSample form{tensor.dtype, axes, {tensor.dims.begin() + 1, tensor.dims.end()}};
  if (form.dims.empty()) form.dims.push_back(1);
  uint64_t sample_bytes = 0;
  // With 0 samples the tensor's own check says nothing about the other dims.
  if (!checked_tensor_bytes(form.dtype, form.dims, &sample_bytes))
    return bad_file(path, "shape " + dims_text(tensor.dims) + " is too large");
  if (*samples == nullptr) *samples = std::make_shared<ArraySamples>(form);
  const RawSample& first = (*samples)->form();
  if (first.dims != form.dims || first.dtype != form.dtype)
    return bad_file(path, "samples of " + dims_text(form.dims) + " " + dtype_name(form.dtype) + ", the file before it has " +
                              dims_text(first.dims) + " " + dtype_name(first.dtype));
  (*samples)->add(path, share(std::move(tensor.bytes)), 0, sample_bytes, count);
  return {};
}

Result<LoadedSamples> load_cifar(const DatasetDescription& d, const SplitDescription& split) {
  LoadedSamples out;
  const RawSample form{DType::kU8, RawAxes::kChw, {3, 32, 32}};
  auto samples = std::make_shared<ArraySamples>(form);
  const auto label_bytes = static_cast<uint64_t>(d.label_bytes);
  const uint64_t stride = label_bytes + 3 * 32 * 32;
  for (const std::string& path : split.paths[0]) {
    LATHE_TRY(auto content, read_file(path));
    if (content.size() % stride != 0)
      return bad_file(path,
                      std::to_string(content.size()) + " bytes are no whole number of records of " + std::to_string(stride));
    const uint64_t count = content.size() / stride;
    for (uint64_t i = 0; i < count; ++i) out.labels.push_back(static_cast<int32_t>(content[i * stride + label_bytes - 1]));
    samples->add(path, share(std::move(content)), label_bytes, stride, count);
  }
  out.inputs.push_back(std::move(samples));
  return out;
}

Result<LoadedSamples> load_idx(const SplitDescription& split) {
  LoadedSamples out;
  std::shared_ptr<ArraySamples> samples;
  for (const std::string& path : split.paths[0]) {
    LATHE_TRY(HostTensor tensor, read_idx(path));
    const RawAxes axes = tensor.dims.size() == 3 ? RawAxes::kHw : RawAxes::kPlain;
    LATHE_CHECK_OK(add_tensor(std::move(tensor), axes, path, &samples));
  }
  out.inputs.push_back(std::move(samples));
  return out;
}

Result<LoadedSamples> load_raw(const DatasetDescription& d, const SplitDescription& split) {
  LoadedSamples out;
  for (size_t i = 0; i < d.inputs.size(); ++i) {
    const InputDescription& input = d.inputs[i];
    uint64_t sample_bytes = 0;
    if (!checked_tensor_bytes(input.dtype, input.dims, &sample_bytes) || sample_bytes == 0)
      return fail(Code::kInvalidArgument, d.path + ": shape " + dims_text(input.dims) + " is too large");
    auto samples = std::make_shared<ArraySamples>(RawSample{input.dtype, input.axes, input.dims});
    for (const std::string& path : split.paths[i]) {
      LATHE_TRY(auto content, read_file(path));
      if (content.size() % sample_bytes != 0)
        return bad_file(path, std::to_string(content.size()) + " bytes are no whole number of samples of " +
                                  std::to_string(sample_bytes) + " (" + dims_text(input.dims) + " " + dtype_name(input.dtype) +
                                  ")");
      const uint64_t count = content.size() / sample_bytes;
      samples->add(path, share(std::move(content)), 0, sample_bytes, count);
    }
    out.inputs.push_back(std::move(samples));
  }
  return out;
}

// The array that `key` names; without a key, the only one besides the labels.
Result<NamedTensor*> find_array(std::vector<NamedTensor>& arrays, const std::string& key, const std::string& label_key,
                                const std::string& path) {
  NamedTensor* found = nullptr;
  std::string names;
  for (NamedTensor& a : arrays) {
    names += (names.empty() ? "" : ", ") + a.name;
    if (key.empty() ? a.name == label_key && !label_key.empty() : a.name != key) continue;
    if (found != nullptr) return bad_file(path, "several arrays (" + names + "): give key = \"...\"");
    found = &a;
  }
  if (found == nullptr) return bad_file(path, "no array '" + key + "' (it has: " + names + ")");
  return found;
}

Result<LoadedSamples> load_npz(const DatasetDescription& d, const SplitDescription& split) {
  LoadedSamples out;
  std::vector<std::shared_ptr<ArraySamples>> samples(d.inputs.size());
  std::map<std::string, std::vector<NamedTensor>> open;  // a file that several inputs share is read once
  for (size_t i = 0; i < d.inputs.size(); ++i)
    for (const std::string& path : split.paths[i]) {
      if (!open.contains(path)) {
        LATHE_TRY(open[path], read_arrays(path));
      }
      LATHE_TRY(NamedTensor * array, find_array(open[path], d.inputs[i].key, d.label_key, path));
      LATHE_CHECK_OK(add_tensor(array->tensor, d.inputs[i].axes, path, &samples[i]));
    }
  if (!d.label_key.empty() && split.label_paths.empty())
    for (const std::string& path : split.paths[0]) {
      LATHE_TRY(NamedTensor * array, find_array(open[path], d.label_key, "", path));
      LATHE_TRY(const auto labels, labels_from(array->tensor, path));
      out.labels.insert(out.labels.end(), labels.begin(), labels.end());
    }
  out.inputs.assign(samples.begin(), samples.end());
  return out;
}

// The table's columns that make one input.
Result<std::vector<size_t>> csv_columns(const CsvTable& table, const InputDescription& input, const std::string& label_column,
                                        const std::string& path) {
  std::vector<size_t> out;
  if (input.columns.empty())
    for (size_t c = 0; c < table.columns.size(); ++c)
      if (table.columns[c] != label_column) out.push_back(c);
  for (const std::string& name : input.columns) {
    const auto c = table.find(name);
    if (!c) return bad_file(path, "no column '" + name + "'");
    out.push_back(*c);
  }
  if (out.empty()) return bad_file(path, "no column besides the label");
  return out;
}

Result<HostTensor> csv_tensor(const CsvTable& table, const std::vector<size_t>& columns, const std::string& path) {
  HostTensor tensor{DType::kF32, {static_cast<int64_t>(table.rows.size()), static_cast<int64_t>(columns.size())}, {}};
  tensor.bytes.resize(table.rows.size() * columns.size() * sizeof(float));
  float* out = tensor.as<float>().data();
  for (size_t row = 0; row < table.rows.size(); ++row)
    for (const size_t c : columns) {
      const auto v = cell_number(table.rows[row][c]);
      if (!v)
        return bad_file(path + ":" + std::to_string(table.lines[row]),
                        "column '" + table.columns[c] + "' has '" + table.rows[row][c].substr(0, 80) + "', which is no number");
      *out++ = static_cast<float>(*v);
    }
  return tensor;
}

Result<LoadedSamples> load_csv(const DatasetDescription& d, const SplitDescription& split,
                               const std::vector<std::string>& classes) {
  LoadedSamples out;
  std::vector<std::shared_ptr<ArraySamples>> samples(d.inputs.size());
  for (size_t f = 0; f < split.paths[0].size(); ++f) {
    const std::string& path = split.paths[0][f];
    LATHE_TRY(const CsvTable table, read_csv(path));
    for (size_t i = 0; i < d.inputs.size(); ++i) {
      LATHE_TRY(const auto columns, csv_columns(table, d.inputs[i], d.label_column, path));
      LATHE_TRY(HostTensor tensor, csv_tensor(table, columns, path));
      LATHE_CHECK_OK(add_tensor(std::move(tensor), RawAxes::kPlain, path, &samples[i]));
    }
    if (d.label_column.empty()) continue;
    const auto column = table.find(d.label_column);
    if (!column) return bad_file(path, "no column '" + d.label_column + "'");
    for (size_t row = 0; row < table.rows.size(); ++row) {
      auto label = label_from_text(table.rows[row][*column], classes);
      if (!label)
        return tl::unexpected<Error>(with_context(std::move(label.error()), path + ":" + std::to_string(table.lines[row])));
      out.labels.push_back(*label);
    }
  }
  out.inputs.assign(samples.begin(), samples.end());
  return out;
}

Result<LoadedSamples> load_inputs(const DatasetDescription& d, const SplitDescription& split,
                                  const std::vector<std::string>& classes) {
  switch (d.format) {
    case DataFormat::kImageFolder:
    case DataFormat::kWavFolder:
      return load_folders(d, split, classes);
    case DataFormat::kCifarBin:
      return load_cifar(d, split);
    case DataFormat::kIdx:
      return load_idx(split);
    case DataFormat::kNpz:
      return load_npz(d, split);
    case DataFormat::kRaw:
      return load_raw(d, split);
    case DataFormat::kCsv:
      return load_csv(d, split, classes);
  }
  return fail(Code::kUnsupported, "unknown format");
}

}  // namespace

Result<LoadedSamples> load_samples(const DatasetDescription& d, const SplitDescription& split,
                                   const std::vector<std::string>& classes) {
  LATHE_CHECK_OK(check_cancelled());
  LATHE_TRY(LoadedSamples out, load_inputs(d, split, classes));
  for (const std::string& path : split.label_paths) {
    LATHE_TRY(const auto labels, read_labels(path, d.label_dtype, classes));
    out.labels.insert(out.labels.end(), labels.begin(), labels.end());
  }
  const uint64_t count = out.inputs[0]->count();
  if (count == 0) return bad_file(split.paths[0][0], "no samples");
  if (count > kMaxSamples)
    return bad_file(split.paths[0][0], std::to_string(count) + " samples, the limit is " + std::to_string(kMaxSamples));
  for (size_t i = 1; i < out.inputs.size(); ++i)
    if (out.inputs[i]->count() != count)
      return bad_file(split.paths[i][0], "input '" + d.inputs[i].name + "' has " + std::to_string(out.inputs[i]->count()) +
                                             " samples, '" + d.inputs[0].name + "' has " + std::to_string(count));
  if (!out.labels.empty() && out.labels.size() != count)
    return bad_file(
        split.label_paths.empty() ? split.paths[0][0] : split.label_paths[0],
        std::to_string(out.labels.size()) + " labels for " + std::to_string(count) + " samples of '" + split.paths[0][0] + "'");
  return out;
}

}  // namespace lathe
