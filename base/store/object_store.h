// Pieces of files by the hash of their bytes: what two files share is kept once.
//
// An object appears whole or not at all and never changes, so adding is safe at any instant; what a killed process leaves behind
// are objects that nobody names, which sweep() removes. One writer at a time (the registry's lock); any number of readers.
#pragma once
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

namespace lathe {

struct Chunk {
  Hash128 hash;
  uint64_t bytes = 0;
  bool operator==(const Chunk&) const = default;
};

class ObjectStore {
 public:
  explicit ObjectStore(std::string folder) : folder_(std::move(folder)) {}

  // Keeps the pieces of `file` between neighbouring `cuts` (offsets in any order; those outside do not count).
  Result<std::vector<Chunk>> put(std::span<const std::byte> file, std::vector<uint64_t> cuts);
  // Writes the file that the chunks make, whole or not at all. Errors: a chunk that is missing or damaged, by its hash.
  Result<void> get(std::span<const Chunk> chunks, const std::string& path) const;
  // Reads every chunk and compares its hash. Errors: as get.
  Result<void> verify(std::span<const Chunk> chunks) const;

  struct Swept {
    uint64_t objects = 0, bytes = 0;
  };
  // Removes every object that is not in `keep`.
  Result<Swept> sweep(const std::set<Hash128>& keep);

 private:
  std::string path_of(const Hash128& hash) const;
  Result<std::vector<std::byte>> read(const Chunk& chunk) const;
  std::string folder_;
};

}  // namespace lathe
