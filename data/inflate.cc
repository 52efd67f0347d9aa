#include "data/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <string>

#include "base/cancel.h"

namespace lathe {
namespace {

// zlib counts in 32 bits; feeding it in pieces lifts that limit and lets Ctrl-C in.
constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

struct Inflater::Stream {
  z_stream z{};
  std::span<const std::byte> input;  // not yet given to zlib
  uint64_t produced = 0;
  bool open = false;
  bool ended = false;
  ~Stream() {
    if (open) inflateEnd(&z);
  }
};

Inflater::Inflater() : stream_(std::make_unique<Stream>()) {}
Inflater::~Inflater() = default;
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;

Result<Inflater> Inflater::open(std::span<const std::byte> compressed, Format format) {
  Inflater out;
  // 15: the largest window; +16: a gzip header; negative: no header.
  if (inflateInit2(&out.stream_->z, format == Format::kGzip ? 15 + 16 : -15) != Z_OK)
    return fail(Code::kOutOfMemory, "no memory for decompression");
  out.stream_->open = true;
  out.stream_->input = compressed;
  return out;
}

Result<size_t> Inflater::read_some(std::span<std::byte> out) {
  Stream& s = *stream_;
  size_t done = 0;
  while (done < out.size() && !s.ended) {
    LATHE_CHECK_OK(check_cancelled());
    if (s.z.avail_in == 0) {
      const auto piece = s.input.first(std::min(s.input.size(), kPieceBytes));
      s.input = s.input.subspan(piece.size());
      // zlib does not write through next_in; its field is not const unless ZLIB_CONST is set everywhere.
      s.z.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
      s.z.avail_in = static_cast<uInt>(piece.size());
    }
    const size_t want = std::min(out.size() - done, kPieceBytes);
    s.z.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    s.z.avail_out = static_cast<uInt>(want);
    const int code = inflate(&s.z, Z_NO_FLUSH);
    const size_t got = want - s.z.avail_out;
    done += got;
    s.produced += got;
    if (code == Z_STREAM_END) {
      s.ended = true;
    } else if (code == Z_BUF_ERROR && s.input.empty()) {
      return fail(Code::kCorrupt, "compressed data is truncated after " + std::to_string(s.produced) + " bytes");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return fail(Code::kCorrupt, std::string("compressed data is damaged: ") + (s.z.msg != nullptr ? s.z.msg : zError(code)));
    }
  }
  return done;
}

Result<void> Inflater::read(std::span<std::byte> out) {
  LATHE_TRY(const size_t got, read_some(out));
  if (got < out.size())
    return fail(Code::kCorrupt, "data ends after " + std::to_string(stream_->produced) + " bytes, " +
                                    std::to_string(stream_->produced - got + out.size()) + " are needed");
  return {};
}

Result<void> Inflater::finish() {
  std::byte extra{};
  LATHE_TRY(const size_t got, read_some({&extra, 1}));
  if (got != 0) return fail(Code::kCorrupt, "data goes on after its " + std::to_string(stream_->produced - 1) + " bytes");
  const uint64_t left = stream_->input.size() + stream_->z.avail_in;
  if (left != 0) return fail(Code::kCorrupt, std::to_string(left) + " bytes follow the compressed data");
  return {};
}

Result<std::vector<std::byte>> Inflater::read_rest(uint64_t max_bytes) {
  std::vector<std::byte> out;
  uint64_t done = 0;
  while (!stream_->ended) {
    if (done == out.size()) {
      if (done >= max_bytes) break;
      out.resize(static_cast<size_t>(std::min<uint64_t>(max_bytes, std::max<uint64_t>(2 * done, 64 * 1024))));
    }
    LATHE_TRY(const size_t got, read_some(std::span(out).subspan(static_cast<size_t>(done))));
    done += got;
  }
  out.resize(static_cast<size_t>(done));
  if (!stream_->ended) LATHE_CHECK_OK(finish());
  return out;
}

bool looks_like_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

uint32_t crc32_of(std::span<const std::byte> bytes) {
  uLong crc = crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPieceBytes));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(piece.data()), static_cast<uInt>(piece.size()));
    bytes = bytes.subspan(piece.size());
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace lathe
