#include "graph/text_cursor.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace lathe {
namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word_char(char c) { return is_letter(c) || is_digit(c); }
bool is_name_char(char c) { return is_word_char(c) || c == '.' || c == '/' || c == ':' || c == '-'; }
int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void TextCursor::skip() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (is_space(c)) {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.size(), text_.find('\n', at_));
    } else {
      return;
    }
  }
}

bool TextCursor::at_end() {
  skip();
  return at_ == text_.size();
}

char TextCursor::peek() { return at_end() ? '\0' : text_[at_]; }

bool TextCursor::take(std::string_view token) {
  skip();
  if (text_.substr(at_, token.size()) != token) return false;
  const size_t end = at_ + token.size();
  if (is_word_char(token.back()) && end < text_.size() && is_word_char(text_[end])) return false;
  at_ = end;
  return true;
}

Result<void> TextCursor::expect(std::string_view token) {
  if (take(token)) return {};
  return error("'" + std::string(token) + "' is missing");
}

bool TextCursor::at_negative_integer() { return peek() == '-' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]); }

bool TextCursor::at_word() { return is_letter(peek()); }

Result<std::string> TextCursor::word() {
  if (!at_word()) return error("a name is missing");
  const size_t begin = at_;
  while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

Result<std::string> TextCursor::quoted() {
  LATHE_CHECK_OK(expect("\""));
  std::string s;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '"') {
      ++at_;
      return s;
    }
    if (c != '\\') {
      s += c;
      continue;
    }
    const char escaped = ++at_ < text_.size() ? text_[at_] : '\0';
    if (escaped == '"' || escaped == '\\') {
      s += escaped;
    } else if (escaped == 'x' && at_ + 2 < text_.size() && hex_value(text_[at_ + 1]) >= 0 && hex_value(text_[at_ + 2]) >= 0) {
      s += static_cast<char>(hex_value(text_[at_ + 1]) * 16 + hex_value(text_[at_ + 2]));
      at_ += 2;
    } else {
      return error("unknown escape in a quoted name");
    }
  }
  return error("a quoted name does not end");
}

Result<std::string> TextCursor::hex() {
  skip();
  std::string bytes;
  for (; at_ < text_.size() && hex_value(text_[at_]) >= 0; at_ += 2) {
    if (at_ + 1 >= text_.size() || hex_value(text_[at_ + 1]) < 0) return error("odd number of hex digits");
    bytes += static_cast<char>(hex_value(text_[at_]) * 16 + hex_value(text_[at_ + 1]));
  }
  return bytes;
}

Result<int64_t> TextCursor::integer() {
  skip();
  int64_t v = 0;
  const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
  if (status == std::errc::result_out_of_range) return error("integer is too large");
  if (status != std::errc()) return error("an integer is missing");
  at_ = static_cast<size_t>(end - text_.data());
  return v;
}

template <class T>
Result<T> TextCursor::real() {
  const bool negative = take("-");
  T v = 0;
  if (take("inf")) {
    v = std::numeric_limits<T>::infinity();
  } else if (take("nan")) {
    v = std::numeric_limits<T>::quiet_NaN();
  } else {
    skip();
    const bool is_hex = text_.substr(at_, 2) == "0x";
    const size_t begin = at_ + (is_hex ? 2 : 0);
    const auto format = is_hex ? std::chars_format::hex : std::chars_format::general;
    const auto [end, status] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), v, format);
    if (status == std::errc::result_out_of_range) return error("number is out of range");
    if (status != std::errc() || text_[begin] == '-') return error("a number is missing");
    at_ = static_cast<size_t>(end - text_.data());
  }
  return negative ? -v : v;
}
template Result<float> TextCursor::real();
template Result<double> TextCursor::real();

Result<std::string> TextCursor::name() {
  if (at_ < text_.size() && text_[at_] == '"') return quoted();
  const size_t begin = at_;
  while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
  if (begin == at_) return error("a name is missing");
  return std::string(text_.substr(begin, at_ - begin));
}

tl::unexpected<Error> TextCursor::error(std::string message) const {
  // The line of the last token: a look ahead may have skipped the line's end.
  size_t end = at_;
  while (end > 0 && is_space(text_[end - 1])) --end;
  const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  return fail(Code::kInvalidArgument, "line " + std::to_string(line) + ": " + std::move(message));
}

bool is_word(std::string_view s) { return !s.empty() && is_letter(s[0]) && std::all_of(s.begin(), s.end(), is_word_char); }

std::string print_name(std::string_view s) {
  return !s.empty() && std::all_of(s.begin(), s.end(), is_name_char) ? std::string(s) : quote(s);
}

std::string quote(std::string_view s) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u == 0x7f) {
      out += "\\x";
      out += kDigits[u >> 4];
      out += kDigits[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace lathe
