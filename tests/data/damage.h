// Damage as files suffer it: every truncation, and random flipped bits from a printed seed.
#pragma once
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text.data(), text.size()));
  return {view.begin(), view.end()};
}

template <class T>
Bytes bytes_of_values(const std::vector<T>& values) {
  const auto view = std::as_bytes(std::span(values));
  return {view.begin(), view.end()};
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Without the syncing of write_file_atomic(), which thousands of variants need not wait for.
inline void overwrite(const std::string& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

// Calls use(bytes) with every proper prefix. Each lies in a block of its own size, so that sanitizers see a read past it.
template <class Use>
void truncate_everywhere(const Bytes& whole, const Use& use) {
  for (size_t n = 0; n < whole.size(); ++n) use(Bytes(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(n)));
}

// Calls use(bytes) `times` times with one to four flipped bits.
template <class Use>
void flip_bits(const Bytes& whole, uint32_t seed, int times, const Use& use) {
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < times; ++i) {
    Bytes bad = whole;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) bad[random() % bad.size()] ^= static_cast<std::byte>(1u << random() % 8);
    use(bad);
  }
}

// Calls use(bytes) once for each byte, with one bit of it flipped.
template <class Use>
void flip_each_byte(const Bytes& whole, const Use& use) {
  for (size_t i = 0; i < whole.size(); ++i) {
    Bytes bad = whole;
    bad[i] ^= static_cast<std::byte>(1u << i % 8);
    use(bad);
  }
}

// Calls use(bytes) `times` times with one to five bytes of chance.
template <class Use>
void replace_bytes(const Bytes& whole, uint32_t seed, int times, const Use& use) {
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < times; ++i) {
    Bytes bad = whole;
    for (int k = 0; k < 1 + i % 5; ++k) bad[random() % bad.size()] = static_cast<std::byte>(random());
    use(bad);
  }
}

}  // namespace lathe::test
