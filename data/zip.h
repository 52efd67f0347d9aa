// Zip archives as numpy writes them: stored and deflated entries, with zip64 sizes read but not written. No encryption, no split
// archives.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe {

struct ZipEntry {
  std::string name;
  std::span<const std::byte> stored;  // as the archive holds them
  uint64_t size = 0;                  // uncompressed, as the directory claims
  uint32_t crc = 0;
  bool deflated = false;
};

// The directory of an archive whose bytes outlive the entries. Every offset is checked against the archive, names against
// repetition.
Result<std::vector<ZipEntry>> parse_zip(std::span<const std::byte> archive);

// An entry's bytes, with size and checksum checked.
Result<std::vector<std::byte>> read_entry(const ZipEntry& entry);

// Builds an archive of stored entries. Fails where zip64 would be needed (4 GiB, 65,535 entries).
class ZipWriter {
 public:
  // The name is at most 65,535 bytes.
  Result<void> add(const std::string& name, std::span<const std::byte> bytes);
  std::vector<std::byte> finish();

 private:
  std::vector<std::byte> archive_, directory_;
  uint16_t entries_ = 0;
};

}  // namespace lathe
