// A checked cursor over bytes from outside, and size arithmetic that cannot wrap.
//
// A read that does not fit leaves the cursor where it was and returns false; nothing is ever read past the end. The caller makes
// the error, because it knows what was expected. Not thread-safe; owns nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace lathe {

// *out = a * b; false, and *out unchanged, if the product does not fit.
constexpr bool checked_mul(uint64_t a, uint64_t b, uint64_t* out) {
  if (b != 0 && a > UINT64_MAX / b) return false;
  *out = a * b;
  return true;
}

constexpr bool checked_add(uint64_t a, uint64_t b, uint64_t* out) {
  if (a > UINT64_MAX - b) return false;
  *out = a + b;
  return true;
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  bool at_end() const { return remaining() == 0; }

  // Absolute position; the end itself is allowed.
  [[nodiscard]] bool seek(uint64_t position) {
    if (position > bytes_.size()) return false;
    position_ = static_cast<size_t>(position);
    return true;
  }
  [[nodiscard]] bool skip(uint64_t n) { return n <= remaining() && seek(position_ + n); }

  // The next n bytes, not copied.
  [[nodiscard]] bool take(uint64_t n, std::span<const std::byte>* out) {
    if (n > remaining()) return false;
    *out = bytes_.subspan(position_, static_cast<size_t>(n));
    position_ += static_cast<size_t>(n);
    return true;
  }
  [[nodiscard]] bool take_text(uint64_t n, std::string_view* out) {
    std::span<const std::byte> bytes;
    if (!take(n, &bytes)) return false;
    *out = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    return true;
  }

  // Little-endian and big-endian integers.
  template <class T>
  [[nodiscard]] bool read_le(T* out) {
    return read_int<T, false>(out);
  }
  template <class T>
  [[nodiscard]] bool read_be(T* out) {
    return read_int<T, true>(out);
  }

 private:
  template <class T, bool big>
  bool read_int(T* out) {
    static_assert(std::is_integral_v<T>);
    std::span<const std::byte> raw;
    if (!take(sizeof(T), &raw)) return false;
    uint64_t v = 0;
    for (size_t i = 0; i < sizeof(T); ++i) v = v << 8 | static_cast<uint64_t>(raw[big ? i : sizeof(T) - 1 - i]);
    *out = static_cast<T>(v);
    return true;
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace lathe
