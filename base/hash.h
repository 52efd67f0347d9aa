// Content hashes (XXH3, 128 bit): names for bytes, not a defence against forgery. Stable across versions and machines.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lathe {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;
};

Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);
// XXH3, 64 bit, for tables and checksums.
uint64_t hash64(std::span<const std::byte> bytes);

// 32 lower-case hexadecimal digits, high half first; and back (nullopt if it is anything else).
std::string to_hex(const Hash128& hash);
std::optional<Hash128> parse_hash128(std::string_view hex);

// The hash of bytes that come in pieces: equal to hash128() of them joined. Not thread-safe.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  Hasher& update(std::span<const std::byte> bytes);
  Hasher& update(std::string_view text);
  Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe
