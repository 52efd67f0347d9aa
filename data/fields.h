// Pieces of the one-line text forms (key=value fields) under which preprocessing and augmentation are stored, hashed and given.
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// The shortest text that reads back to the same double.
std::string number_text(double v);

// The whole text must be the number.
template <class T>
bool parse_number(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// Parts between separators; nothing for an empty text, and none after a separator at the end.
std::vector<std::string_view> split_text(std::string_view text, char separator);

// The enumerator at whose place the name stands.
template <class Enum, size_t n>
bool parse_name(std::string_view text, const std::array<const char*, n>& names, Enum* out) {
  const auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) return false;
  *out = static_cast<Enum>(it - names.begin());
  return true;
}

// Appends the numbers between separators.
template <class T>
bool parse_list(std::string_view text, char separator, std::vector<T>* out) {
  for (const std::string_view part : split_text(text, separator)) {
    T v{};
    if (!parse_number(part, &v)) return false;
    out->push_back(v);
  }
  return true;
}

}  // namespace lathe
