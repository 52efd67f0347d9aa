#include "data/labels.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "data/csv.h"
#include "data/idx.h"
#include "data/npy.h"

namespace lathe {
namespace {

// Counts per class and confusion matrices are arrays over classes.
constexpr int64_t kMaxClasses = int64_t{1} << 20;

bool is_text(const std::string& path) { return path.ends_with(".txt") || path.ends_with(".csv") || path.ends_with(".tsv"); }

bool is_npy(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x93} && bytes[1] == std::byte{'N'};
}

Result<std::vector<int32_t>> from_text(const std::string& text, const std::vector<std::string>& classes,
                                       const std::string& path) {
  std::vector<int32_t> out;
  size_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string cell = text.substr(at, end - at);
    if (cell.ends_with('\r')) cell.pop_back();
    at = end + 1;
    ++line;
    auto label = label_from_text(cell, classes);
    if (!label) return tl::unexpected<Error>(with_context(std::move(label.error()), path + ":" + std::to_string(line)));
    out.push_back(*label);
  }
  return out;
}

}  // namespace

Result<int32_t> label_from_text(const std::string& text, const std::vector<std::string>& classes) {
  const auto it = std::find(classes.begin(), classes.end(), text);
  if (it != classes.end()) return static_cast<int32_t>(it - classes.begin());
  const auto number = cell_integer(text);
  if (!number) return fail(Code::kCorrupt, "'" + text.substr(0, 80) + "' is neither a class of the set nor an integer");
  if (*number < 0 || *number >= kMaxClasses)
    return fail(Code::kCorrupt, "label " + std::to_string(*number) + " is outside 0 to " + std::to_string(kMaxClasses - 1));
  return static_cast<int32_t>(*number);
}

Result<std::vector<int32_t>> labels_from(const HostTensor& tensor, const std::string& where) {
  const bool column = tensor.dims.size() == 2 && tensor.dims[1] == 1;
  if (tensor.dims.size() != 1 && !column)
    return fail(Code::kCorrupt, where + ": labels must have one dimension, they have shape " + dims_text(tensor.dims));
  std::vector<int32_t> out;
  const uint64_t n = tensor.elems();
  out.reserve(n);
  for (uint64_t i = 0; i < n; ++i) {
    const double v = element_as_double(tensor.dtype, tensor.bytes.data(), i);
    if (!(v >= 0) || v >= static_cast<double>(kMaxClasses) || v != std::floor(v))
      return fail(Code::kCorrupt, where + ": label " + std::to_string(v) + " of sample " + std::to_string(i) +
                                      " is no integer from 0 to " + std::to_string(kMaxClasses - 1));
    out.push_back(static_cast<int32_t>(v));
  }
  return out;
}

Result<std::vector<int32_t>> read_labels(const std::string& path, DType raw_dtype, const std::vector<std::string>& classes) {
  LATHE_TRY(const auto bytes, read_file(path));
  if (is_npy(bytes)) {
    LATHE_TRY(const HostTensor tensor, parse_npy(bytes, path));
    return labels_from(tensor, path);
  }
  if (path.ends_with(".gz") || path.ends_with("-ubyte") || path.ends_with(".idx")) {
    LATHE_TRY(const HostTensor tensor, parse_idx(bytes, path));
    return labels_from(tensor, path);
  }
  if (is_text(path)) return from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, classes, path);
  const uint32_t width = dtype_bytes(raw_dtype);
  if (bytes.size() % width != 0)
    return fail(Code::kCorrupt, path + ": " + std::to_string(bytes.size()) + " bytes are no whole number of " +
                                    dtype_name(raw_dtype) + " labels");
  return labels_from(HostTensor{raw_dtype, {static_cast<int64_t>(bytes.size() / width)}, bytes}, path);
}

}  // namespace lathe
