// Deflate streams (gzip members, zip entries) read piece by piece, so that a header can be checked before memory is spent on what
// it promises.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace lathe {

class Inflater {
 public:
  enum class Format : uint8_t { kGzip, kRaw };
  // Keeps a view of `compressed`, which must outlive it.
  static Result<Inflater> open(std::span<const std::byte> compressed, Format format);
  ~Inflater();
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;

  // Fills `out` whole, or fails: "ends after N of M bytes", or zlib's own reason.
  Result<void> read(std::span<std::byte> out);
  // Fails unless the stream ends here, its checksum (gzip) is right and nothing follows it.
  Result<void> finish();
  // Everything that is left; fails if that is more than max_bytes.
  Result<std::vector<std::byte>> read_rest(uint64_t max_bytes);

 private:
  struct Stream;
  Inflater();
  // Reads up to out.size() bytes; fewer at the stream's end.
  Result<size_t> read_some(std::span<std::byte> out);
  std::unique_ptr<Stream> stream_;
};

bool looks_like_gzip(std::span<const std::byte> bytes);

// zlib's CRC-32.
uint32_t crc32_of(std::span<const std::byte> bytes);

}  // namespace lathe
