#include "data/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/atomic_file.h"
#include "base/cursor.h"
#include "base/file.h"
#include "data/zip.h"

namespace lathe {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxRank = 32;  // numpy's own limit
constexpr size_t kHeaderAlign = 64;

struct TypeCode {
  DType dtype;
  std::string_view code;
};
constexpr TypeCode kTypeCodes[] = {{DType::kF32, "f4"}, {DType::kF64, "f8"}, {DType::kF16, "f2"}, {DType::kS8, "i1"},
                                   {DType::kS16, "i2"}, {DType::kS32, "i4"}, {DType::kS64, "i8"}, {DType::kU8, "u1"},
                                   {DType::kU16, "u2"}, {DType::kU32, "u4"}, {DType::kU64, "u8"}, {DType::kBool, "b1"}};

struct Header {
  DType dtype = DType::kF32;
  bool big_endian = false;
  bool fortran = false;
  std::vector<int64_t> dims;
};

// The header is a Python dict literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Reads just that.
class DictParser {
 public:
  explicit DictParser(std::string_view text) : text_(text) {}

  // On failure, what is wrong.
  std::optional<std::string> parse(Header* h) {
    bool descr = false, order = false, shape = false;
    if (!eat('{')) return "is not a dict";
    while (!eat('}')) {
      std::string_view key;
      if (!quoted(&key) || !eat(':')) return "is damaged";
      if (key == "descr" && !descr) {
        std::string_view code;
        if (!quoted(&code)) return "has a structured or damaged dtype";
        if (!set_dtype(code, h)) return "has dtype '" + std::string(code) + "', known are f2 f4 f8 i1 i2 i4 i8 u1 u2 b1";
        descr = true;
      } else if (key == "fortran_order" && !order) {
        h->fortran = word("True");
        if (!h->fortran && !word("False")) return "has a damaged fortran_order";
        order = true;
      } else if (key == "shape" && !shape) {
        if (!tuple(&h->dims)) return "has a damaged shape";
        shape = true;
      } else {
        return "has an unexpected key '" + std::string(key) + "'";
      }
      if (!eat(',') && !peek('}')) return "is damaged";
    }
    space();
    if (!text_.empty()) return "has text after its dict";
    if (!descr || !order || !shape) return "lacks descr, fortran_order or shape";
    return std::nullopt;
  }

 private:
  void space() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n\t"), text_.size())); }
  bool peek(char c) {
    space();
    return !text_.empty() && text_[0] == c;
  }
  bool eat(char c) {
    if (!peek(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    space();
    if (!text_.starts_with(w)) return false;
    text_.remove_prefix(w.size());
    return true;
  }
  bool quoted(std::string_view* out) {
    const char quote = peek('"') ? '"' : '\'';
    if (!eat(quote)) return false;
    const size_t end = text_.find(quote);
    if (end == std::string_view::npos) return false;
    *out = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool tuple(std::vector<int64_t>* dims) {
    if (!eat('(')) return false;
    while (!eat(')')) {
      space();
      int64_t d = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), d);
      if (error != std::errc() || d < 0 || dims->size() == kMaxRank) return false;
      text_.remove_prefix(static_cast<size_t>(end - text_.data()));
      dims->push_back(d);
      if (!eat(',') && !peek(')')) return false;
    }
    return true;
  }
  static bool set_dtype(std::string_view code, Header* h) {
    if (code.size() != 3 || std::string_view("<>|=").find(code[0]) == std::string_view::npos) return false;
    h->big_endian = code[0] == '>';
    for (const TypeCode& t : kTypeCodes) {
      if (t.code != code.substr(1)) continue;
      h->dtype = t.dtype;
      return true;
    }
    return false;
  }

  std::string_view text_;
};

void swap_bytes(std::vector<std::byte>& bytes, size_t elem_bytes) {
  for (size_t i = 0; i + elem_bytes <= bytes.size(); i += elem_bytes)
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i), bytes.begin() + static_cast<ptrdiff_t>(i + elem_bytes));
}

// Column-major bytes to row-major: walks the output in order with a counter per dim.
std::vector<std::byte> from_fortran(std::span<const std::byte> in, const std::vector<int64_t>& dims, size_t elem_bytes) {
  std::vector<std::byte> out(in.size());
  std::vector<uint64_t> strides(dims.size()), index(dims.size());
  uint64_t stride = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    strides[i] = stride;
    stride *= static_cast<uint64_t>(dims[i]);
  }
  uint64_t from = 0;
  for (size_t to = 0; to + elem_bytes <= out.size(); to += elem_bytes) {
    std::memcpy(out.data() + to, in.data() + from * elem_bytes, elem_bytes);
    for (size_t d = dims.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < static_cast<uint64_t>(dims[d])) break;
      from -= strides[d] * static_cast<uint64_t>(dims[d]);
      index[d] = 0;
    }
  }
  return out;
}

tl::unexpected<Error> damaged(const std::string& where, const std::string& what) {
  return fail(Code::kCorrupt, where + ": " + what);
}

Result<Header> read_header(Cursor& c, const std::string& where) {
  std::string_view magic, text;
  uint8_t major = 0, minor = 0;
  uint16_t short_size = 0;
  uint32_t size = 0;
  if (!c.take_text(kMagic.size(), &magic) || magic != kMagic) return damaged(where, "not an npy file");
  if (!c.read_le(&major) || !c.read_le(&minor)) return damaged(where, "npy header is truncated");
  if (major < 1 || major > 3)
    return fail(Code::kVersion,
                where + ": npy format " + std::to_string(major) + "." + std::to_string(minor) + ", known are 1 to 3");
  const bool sized = major == 1 ? c.read_le(&short_size) : c.read_le(&size);
  if (major == 1) size = short_size;
  if (!sized || !c.take_text(size, &text)) return damaged(where, "npy header is truncated");
  Header header;
  if (const auto problem = DictParser(text).parse(&header)) return damaged(where, "npy header " + *problem);
  return header;
}

}  // namespace

Result<HostTensor> parse_npy(std::span<const std::byte> bytes, const std::string& where) {
  Cursor c(bytes);
  LATHE_TRY(const Header header, read_header(c, where));
  HostTensor out{header.dtype, header.dims, {}};
  uint64_t size = 0;
  if (!checked_tensor_bytes(header.dtype, header.dims, &size))
    return damaged(where, "shape " + dims_text(header.dims) + " is too large");
  if (size != c.remaining())
    return damaged(where, "shape " + dims_text(header.dims) + " of " + dtype_name(header.dtype) + " needs " +
                              std::to_string(size) + " bytes, the file has " + std::to_string(c.remaining()));
  std::span<const std::byte> data;
  if (!c.take(size, &data)) return damaged(where, "data is truncated");
  const size_t elem_bytes = dtype_bytes(header.dtype);
  if (header.fortran && header.dims.size() > 1) {
    out.bytes = from_fortran(data, header.dims, elem_bytes);
  } else {
    out.bytes.assign(data.begin(), data.end());
  }
  if (header.big_endian) swap_bytes(out.bytes, elem_bytes);
  // numpy promises 0 or 1; other bytes would be read as true by some and as their value by others.
  if (header.dtype == DType::kBool)
    for (const std::byte b : out.bytes)
      if (b > std::byte{1}) return damaged(where, "a bool has the value " + std::to_string(static_cast<int>(b)));
  return out;
}

Result<std::vector<NamedTensor>> parse_npz(std::span<const std::byte> bytes, const std::string& where) {
  auto entries = parse_zip(bytes);
  if (!entries) return tl::unexpected<Error>(with_context(std::move(entries.error()), where));
  std::vector<NamedTensor> out;
  for (const ZipEntry& entry : *entries) {
    std::string name = entry.name;
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    auto content = read_entry(entry);
    if (!content) return tl::unexpected<Error>(with_context(std::move(content.error()), where));
    LATHE_TRY(HostTensor tensor, parse_npy(*content, where + ": array '" + name + "'"));
    out.push_back({std::move(name), std::move(tensor)});
  }
  return out;
}

Result<HostTensor> read_npy(const std::string& path) {
  LATHE_TRY(const auto bytes, read_file(path));
  return parse_npy(bytes, path);
}

Result<std::vector<NamedTensor>> read_npz(const std::string& path) {
  LATHE_TRY(const auto bytes, read_file(path));
  return parse_npz(bytes, path);
}

Result<std::vector<NamedTensor>> read_arrays(const std::string& path) {
  LATHE_TRY(const auto bytes, read_file(path));
  if (bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'}) return parse_npz(bytes, path);
  LATHE_TRY(HostTensor tensor, parse_npy(bytes, path));
  std::vector<NamedTensor> out;
  out.push_back({"", std::move(tensor)});
  return out;
}

Result<std::vector<std::byte>> npy_bytes(const HostTensor& tensor) {
  const auto* code =
      std::find_if(std::begin(kTypeCodes), std::end(kTypeCodes), [&](const TypeCode& t) { return t.dtype == tensor.dtype; });
  if (code == std::end(kTypeCodes))
    return fail(Code::kUnsupported, std::string("npy has no dtype for ") + dtype_name(tensor.dtype));
  std::string shape;
  for (const int64_t d : tensor.dims) shape += std::to_string(d) + (tensor.dims.size() == 1 ? "," : ", ");
  if (tensor.dims.size() > 1) shape.resize(shape.size() - 2);
  std::string header = std::string("{'descr': '") + (dtype_bytes(tensor.dtype) == 1 ? '|' : '<') + std::string(code->code) +
                       "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const size_t before = kMagic.size() + 4;  // magic, version, header size
  header.append(kHeaderAlign - (before + header.size() + 1) % kHeaderAlign, ' ');
  header += '\n';
  std::string head(kMagic);
  head += '\1';
  head += '\0';
  head += static_cast<char>(header.size() & 255);
  head += static_cast<char>(header.size() >> 8);
  head += header;
  const auto view = std::as_bytes(std::span(head.data(), head.size()));
  std::vector<std::byte> out(view.begin(), view.end());
  out.insert(out.end(), tensor.bytes.begin(), tensor.bytes.end());
  return out;
}

Result<void> write_npy(const std::string& path, const HostTensor& tensor) {
  LATHE_TRY(const auto bytes, npy_bytes(tensor));
  return write_file_atomic(path, bytes);
}

Result<void> write_npz(const std::string& path, const std::vector<NamedTensor>& tensors) {
  ZipWriter zip;
  for (const NamedTensor& t : tensors) {
    LATHE_TRY(const auto bytes, npy_bytes(t.tensor));
    LATHE_CHECK_OK(zip.add(t.name + ".npy", bytes));
  }
  return write_file_atomic(path, zip.finish());
}

}  // namespace lathe
