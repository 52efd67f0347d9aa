#include "data/csv.h"

#include <doctest/doctest.h>

#include "damage.h"

namespace lathe {
namespace {

using test::contains;

std::string error_of(std::string_view text) {
  const auto t = parse_csv(text, "x.csv");
  return t ? "" : t.error().message;
}

TEST_CASE("CSV reads quotes, both line ends, tabs and a byte order mark") {
  const auto t = parse_csv("\xef\xbb\xbfuser, note\r\n1,\"a \"\"b\"\", c\nnext line\"\r\n2,\n", "x.csv");
  REQUIRE(t);
  CHECK(t->columns == std::vector<std::string>{"user", "note"});
  REQUIRE(t->rows.size() == 2);
  CHECK(t->rows[0][1] == "a \"b\", c\nnext line");
  CHECK(t->rows[1] == std::vector<std::string>{"2", ""});
  CHECK(t->lines == std::vector<uint32_t>{2, 4});
  CHECK(parse_csv("a\tb\n1\t2", "x")->rows[0][1] == "2");
}

TEST_CASE("CSV mistakes name the line") {
  CHECK(error_of("") == "x.csv: the file is empty");
  CHECK(error_of("a,b\n1,2\n3\n") == "x.csv:3: has 1 cells, the header has 2");
  CHECK(error_of("a,b\n1,\"2\n") == "x.csv:2: a quoted cell is not closed");
  CHECK(error_of("a,b\n1,\"2\"x\n") == "x.csv:2: a quoted cell is not closed");
  CHECK(error_of("a,a\n") == "x.csv:1: column 'a' is there twice");
  CHECK(error_of("a,\n") == "x.csv:1: column 2 has no name");
  CHECK(contains(error_of(std::string_view("a\n\0\n", 4)), "zero byte"));
}

TEST_CASE("a cell is a number as a whole or not at all") {
  CHECK(cell_number(" -1.5e3 ") == -1500.0);
  CHECK(cell_number("+2") == 2.0);
  CHECK_FALSE(cell_number("1.5x"));
  CHECK_FALSE(cell_number(""));
  CHECK_FALSE(cell_number("1,5"));
  CHECK(cell_integer("7") == 7);
  CHECK_FALSE(cell_integer("7.0"));
  CHECK_FALSE(cell_integer("99999999999999999999"));
}

TEST_CASE("truncated and flipped CSV is refused or read, never worse") {
  const test::Bytes text = test::bytes_of("user,\"note, long\",x\n1,\"a\"\"b\",2\r\n3,c,4\n");
  const auto parse = [](const test::Bytes& bad) {
    const auto t = parse_csv({reinterpret_cast<const char*>(bad.data()), bad.size()}, "x");
    if (t)
      for (const auto& row : t->rows) CHECK(row.size() == t->columns.size());
  };
  test::truncate_everywhere(text, parse);
  test::flip_bits(text, 20240716, 5000, parse);
}

}  // namespace
}  // namespace lathe
