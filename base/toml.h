// TOML text to values (base/tree.h), each with its line. Thread-safe: no state.
#pragma once
#include <string>
#include <string_view>

#include "base/tree.h"

namespace lathe {

// Errors name `where` and the line. Keys keep the order of the text. Dates and times are refused: nothing here means one.
Result<Tree> parse_toml(std::string_view text, const std::string& where);
// A file of at most 16 MiB; errors name its path.
Result<Tree> load_toml(const std::string& path);

}  // namespace lathe
