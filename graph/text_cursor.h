// Reads the tokens of the text forms (dimensions, attributes, graphs). Used by graph/ only.
//
// Spaces and newlines separate tokens; `//` starts a comment that ends with the line. Bytes come from outside: every function is total, and
// errors give the line. Not thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/dim.h"

namespace lathe {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  bool at_end();
  // Consumes `token` if it comes next: a word only if no letter, digit or _ follows it.
  bool take(std::string_view token);
  Result<void> expect(std::string_view token);
  char peek();  // next character that is not a space; 0 at the end

  bool at_negative_integer();    // a minus and a digit come next
  bool at_word();                // a letter or _ comes next
  Result<std::string> word();    // [A-Za-z_][A-Za-z0-9_]*
  Result<std::string> quoted();  // "..." with \" \\ and \xHH
  Result<std::string> hex();     // bytes of a run of hex digits
  Result<int64_t> integer();     // with an optional -
  template <class T>
  Result<T> real();              // float or double: decimal, hex float, inf, nan, with an optional -
  Result<std::string> name();    // directly here: a quoted name, or [A-Za-z0-9_./:-]+

  tl::unexpected<Error> error(std::string message) const;

  // Nesting, limited so that text cannot exhaust the stack.
  bool enter() { return ++depth_ <= kMaxDepth; }
  void leave() { --depth_; }

 private:
  static constexpr int kMaxDepth = 64;
  void skip();
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// `s` as quoted() reads it.
std::string quote(std::string_view s);
bool is_word(std::string_view s);
// As name() reads it: in quotes only where needed.
std::string print_name(std::string_view s);

// A dimension expression, as far as it goes. Not in DimTable, so that its header does not need this one.
Result<Dim> parse_dim(DimTable& dims, TextCursor& in);

}  // namespace lathe
