// JSON text to values and back. Thread-safe: no state.
#pragma once
#include <string>
#include <string_view>

#include "base/tree.h"

namespace lathe {

// Errors name `where` and the line. Nesting over 64 levels, numbers out of range and repeated keys are errors.
Result<Tree> parse_json(std::string_view text, const std::string& where);

// Keys in the table's order. `indent` < 0: one line. Numbers that JSON cannot hold (NaN, infinities) become null; bytes that are
// no UTF-8 become the replacement character.
std::string to_json(const Tree& value, int indent = 2);

}  // namespace lathe
