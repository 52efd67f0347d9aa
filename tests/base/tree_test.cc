#include "base/tree.h"

#include <doctest/doctest.h>

#include "base/toml.h"

namespace lathe {
namespace {

Tree parse(const char* text) { return parse_toml(text, "set.toml").value(); }

TEST_CASE("a strict reader gives values and defaults") {
  const Tree v = parse("name = 'x'\ncount = 3\nmean = 0.5\nstd = [1, 2.5]\non = true\nlist = 'one'\nshape = [1, 28]\n");
  auto r = TableReader::open(v, "set.toml");
  REQUIRE(r);
  CHECK(r->string("name").value() == "x");
  CHECK(r->integer("count", 0, 10).value() == 3);
  CHECK(r->numbers("mean").value() == std::vector<double>{0.5});
  CHECK(r->numbers("std").value() == std::vector<double>{1, 2.5});
  CHECK(r->boolean("on").value());
  CHECK(r->strings("list").value() == std::vector<std::string>{"one"});
  CHECK(r->integers("shape", 1, 100).value() == std::vector<int64_t>{1, 28});
  CHECK(r->string_or("other", "default").value() == "default");
  CHECK(r->finish());
}

TEST_CASE("a strict reader names file, line and key of every mistake") {
  const Tree v = parse("name = 1\ncount = 30\n\nmeen = 0.5\nshape = [1, 'x']");
  auto r = TableReader::open(v, "set.toml");
  REQUIRE(r);
  CHECK(r->string("name").error().message == "set.toml:1: 'name' must be a string, it is an integer");
  CHECK(r->integer("count", 0, 10).error().message == "set.toml:2: 'count' must be between 0 and 10, it is 30");
  CHECK(r->integers("shape", 0, 10).error().message == "set.toml:5: 'shape' must be a list of integers, it is a string");
  CHECK(r->number("mean").error().message == "set.toml: key 'mean' is missing");
  CHECK(r->finish().error().message == "set.toml:4: unknown key 'meen'");
  CHECK_FALSE(TableReader::open(*v.find("name"), "set.toml"));
}

TEST_CASE("setting a key twice keeps one entry, in its first place") {
  Tree v = Tree::table();
  v.set("a", 1).set("b", 2).set("a", 3);
  REQUIRE(v.as_table()->size() == 2);
  CHECK(*v.find("a")->as_int() == 3);
  CHECK(v.as_table()->front().first == "a");
}

}  // namespace
}  // namespace lathe
