// Comma- or tab-separated text with a header line: RFC 4180 quoting, LF or CRLF, optional UTF-8 byte order mark.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe {

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as columns
  std::vector<uint32_t> lines;                 // where each row starts, from 1

  std::optional<size_t> find(std::string_view column) const;
};

// Errors name `where` and the line: a row of another length, a quote that is not closed, a repeated or empty column name, a zero
// byte.
Result<CsvTable> parse_csv(std::string_view text, const std::string& where);
Result<CsvTable> read_csv(const std::string& path);

// A cell as a number or an integer; the whole cell must be one, spaces around it do not count.
std::optional<double> cell_number(std::string_view cell);
std::optional<int64_t> cell_integer(std::string_view cell);

}  // namespace lathe
