// Text for HTML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace lathe::tools {

// With < > & and quotes as references.
std::string escaped(std::string_view text);

// As std::printf prints it.
[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace lathe::tools
