#include "data/csv.h"

#include <algorithm>
#include <charconv>

#include "base/file.h"

namespace lathe {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

tl::unexpected<Error> bad_line(const std::string& where, uint32_t line, const std::string& what) {
  return fail(Code::kCorrupt, where + ":" + std::to_string(line) + ": " + what);
}

class CsvParser {
 public:
  CsvParser(std::string_view text, char separator) : text_(text), separator_(separator) {}

  bool at_end() const { return at_ >= text_.size(); }
  uint32_t line() const { return line_; }

  // The next row; false if a quote stays open or text follows a closing quote.
  bool row(std::vector<std::string>* cells) {
    cells->clear();
    for (;;) {
      std::string cell;
      if (!read_cell(&cell)) return false;
      cells->push_back(std::move(cell));
      if (at_end() || text_[at_] != separator_) break;
      ++at_;
    }
    end_line();
    return true;
  }

 private:
  bool at_break() const { return at_end() || text_[at_] == separator_ || text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n"; }
  void end_line() {
    if (!at_end() && text_[at_] == '\r') ++at_;
    if (!at_end()) ++at_;
    ++line_;
  }
  bool read_cell(std::string* cell) {
    if (at_end() || text_[at_] != '"') {
      const size_t begin = at_;
      while (!at_break()) ++at_;
      *cell = std::string(text_.substr(begin, at_ - begin));
      return true;
    }
    for (++at_; !at_end(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        *cell += text_[at_];
      } else if (text_.substr(at_, 2) == "\"\"") {
        *cell += text_[at_++];
      } else {
        ++at_;
        return at_break();
      }
    }
    return false;
  }

  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  uint32_t line_ = 1;
};

std::string_view trim(std::string_view s) {
  const size_t begin = s.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return s.substr(begin, s.find_last_not_of(" \t") - begin + 1);
}

template <class T>
std::optional<T> parse_cell(std::string_view cell) {
  cell = trim(cell);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  T v{};
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), v);
  if (cell.empty() || error != std::errc() || end != cell.data() + cell.size()) return std::nullopt;
  return v;
}

}  // namespace

std::optional<size_t> CsvTable::find(std::string_view column) const {
  const auto it = std::find(columns.begin(), columns.end(), column);
  if (it == columns.end()) return std::nullopt;
  return static_cast<size_t>(it - columns.begin());
}

Result<CsvTable> parse_csv(std::string_view text, const std::string& where) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.empty()) return fail(Code::kCorrupt, where + ": the file is empty");
  if (text.find('\0') != std::string_view::npos) return fail(Code::kCorrupt, where + ": not text (it has a zero byte)");
  const std::string_view first = text.substr(0, text.find('\n'));
  CsvParser parser(text, first.find('\t') != std::string_view::npos && first.find(',') == std::string_view::npos ? '\t' : ',');
  CsvTable table;
  if (!parser.row(&table.columns)) return bad_line(where, 1, "a quoted cell is not closed");
  for (size_t i = 0; i < table.columns.size(); ++i) {
    table.columns[i] = std::string(trim(table.columns[i]));
    if (table.columns[i].empty()) return bad_line(where, 1, "column " + std::to_string(i + 1) + " has no name");
    if (*table.find(table.columns[i]) != i) return bad_line(where, 1, "column '" + table.columns[i] + "' is there twice");
  }
  while (!parser.at_end()) {
    const uint32_t line = parser.line();
    std::vector<std::string> cells;
    if (!parser.row(&cells)) return bad_line(where, line, "a quoted cell is not closed");
    if (cells.size() != table.columns.size())
      return bad_line(where, line,
                      "has " + std::to_string(cells.size()) + " cells, the header has " + std::to_string(table.columns.size()));
    table.rows.push_back(std::move(cells));
    table.lines.push_back(line);
  }
  return table;
}

Result<CsvTable> read_csv(const std::string& path) {
  LATHE_TRY(const std::string text, read_text_file(path, uint64_t{1} << 30));
  return parse_csv(text, path);
}

std::optional<double> cell_number(std::string_view cell) { return parse_cell<double>(cell); }
std::optional<int64_t> cell_integer(std::string_view cell) { return parse_cell<int64_t>(cell); }

}  // namespace lathe
