#include "data/idx.h"

#include <algorithm>
#include <optional>

#include "base/cursor.h"
#include "base/file.h"
#include "data/inflate.h"

namespace lathe {
namespace {

constexpr size_t kMaxRank = 8;
constexpr size_t kMagicBytes = 4;
// A deflate stream cannot grow more than this (zlib's documentation: 1032:1): a larger claim is a lie and takes no memory.
constexpr uint64_t kMaxDeflateRatio = 1032;

std::optional<DType> dtype_of(std::byte code) {
  switch (static_cast<int>(code)) {
    case 0x08:
      return DType::kU8;
    case 0x09:
      return DType::kS8;
    case 0x0b:
      return DType::kS16;
    case 0x0c:
      return DType::kS32;
    case 0x0d:
      return DType::kF32;
    case 0x0e:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

bool is_magic(std::span<const std::byte> m) {
  return m.size() >= kMagicBytes && m[0] == std::byte{0} && m[1] == std::byte{0} && dtype_of(m[2]) && m[3] >= std::byte{1} &&
         static_cast<size_t>(m[3]) <= kMaxRank;
}

// One interface over plain and gzipped files.
class Source {
 public:
  static Result<Source> open(std::span<const std::byte> file) {
    Source s(file);
    if (looks_like_gzip(file)) {
      LATHE_TRY(s.inflater_, Inflater::open(file, Inflater::Format::kGzip));
    }
    return s;
  }
  Result<void> read(std::span<std::byte> out) {
    if (inflater_) return inflater_->read(out);
    std::span<const std::byte> bytes;
    if (!plain_.take(out.size(), &bytes))
      return fail(Code::kCorrupt, "data ends after " + std::to_string(file_.size()) + " bytes, " +
                                      std::to_string(plain_.position() + out.size()) + " are needed");
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return {};
  }
  Result<void> finish() {
    if (inflater_) return inflater_->finish();
    if (!plain_.at_end()) return fail(Code::kCorrupt, "data goes on after its " + std::to_string(plain_.position()) + " bytes");
    return {};
  }
  // The most bytes that this file can hold.
  uint64_t capacity() const { return inflater_ ? (file_.size() + 1) * kMaxDeflateRatio : file_.size(); }

 private:
  explicit Source(std::span<const std::byte> file) : file_(file), plain_(file) {}
  std::span<const std::byte> file_;
  Cursor plain_;
  std::optional<Inflater> inflater_;
};

Result<HostTensor> parse(std::span<const std::byte> file) {
  LATHE_TRY(Source source, Source::open(file));
  std::byte magic[kMagicBytes];
  LATHE_CHECK_OK(source.read(magic));
  if (!is_magic(magic)) return fail(Code::kCorrupt, "not an idx file");
  HostTensor out{*dtype_of(magic[2]), {}, {}};
  std::vector<std::byte> raw_dims(4 * static_cast<size_t>(magic[3]));
  LATHE_CHECK_OK(source.read(raw_dims));
  Cursor c(raw_dims);
  for (uint32_t d = 0; c.read_be(&d);) out.dims.push_back(d);
  uint64_t bytes = 0;
  if (!checked_tensor_bytes(out.dtype, out.dims, &bytes) || bytes > source.capacity())
    return fail(Code::kCorrupt,
                "idx header says " + dims_text(out.dims) + " of " + dtype_name(out.dtype) + ", more than the file can hold");
  out.bytes.resize(bytes);
  LATHE_CHECK_OK(source.read(out.bytes));
  LATHE_CHECK_OK(source.finish());
  const size_t elem_bytes = dtype_bytes(out.dtype);
  for (size_t i = 0; elem_bytes > 1 && i < bytes; i += elem_bytes)
    std::reverse(out.bytes.begin() + static_cast<ptrdiff_t>(i), out.bytes.begin() + static_cast<ptrdiff_t>(i + elem_bytes));
  return out;
}

}  // namespace

Result<HostTensor> parse_idx(std::span<const std::byte> file, const std::string& where) {
  auto out = parse(file);
  if (!out) return tl::unexpected<Error>(with_context(std::move(out.error()), where));
  return out;
}

Result<HostTensor> read_idx(const std::string& path) {
  LATHE_TRY(const auto file, read_file(path));
  return parse_idx(file, path);
}

bool looks_like_idx(std::span<const std::byte> file) {
  if (!looks_like_gzip(file)) return is_magic(file);
  auto inflater = Inflater::open(file, Inflater::Format::kGzip);
  std::byte magic[kMagicBytes];
  return inflater && inflater->read(magic) && is_magic(magic);
}

}  // namespace lathe
