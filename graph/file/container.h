// Puts sections together to the bytes of a `.lathe` file (runtime/file.h), piece by piece, so that large weights are not copied.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "runtime/file.h"

namespace lathe {

// WEIGHTS as a list of pieces, each on a 64-byte unit, equal pieces stored once.
class WeightsSection {
 public:
  // Offset in units. `owner` keeps `bytes` alive. Error: over 256 GiB.
  Result<uint32_t> place(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);
  uint64_t bytes() const { return bytes_; }
  // Calls sink for every piece and the zeros between them, in order.
  Result<void> write(const std::function<Result<void>(std::span<const std::byte>)>& sink) const;

 private:
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    uint32_t at;
  };
  std::vector<Piece> pieces_;
  std::multimap<uint64_t, size_t> index_;  // hash to piece
  uint64_t bytes_ = 0;
};

struct Section {
  SectionKind kind;
  uint32_t tag = 0;
  bool required = false;
  std::vector<uint8_t> bytes;
};

using Sink = std::function<Result<void>(std::span<const std::byte>)>;

// Header, table, `sections` in order, WEIGHTS, and the readable tail behind it.
Result<void> write_container(const std::vector<Section>& sections, const WeightsSection& weights, const Sink& sink);

// XXH64 with seed 0, as FileSection::checksum.
uint64_t section_checksum(Bytes bytes);
// FileHeader::checksum of a file's header and section table. Requires: file_open() accepted the file.
uint64_t head_checksum(Bytes file);

}  // namespace lathe
