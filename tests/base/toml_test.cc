#include "base/toml.h"

#include <doctest/doctest.h>

#include <random>

#include "base/atomic_file.h"
#include "temp_folder.h"

namespace lathe {
namespace {

constexpr const char* kText = R"(# a comment
format = "idx"
mean = [0.5, 1]

[split.train]
range = [0, 100]
shuffle = true
[[input]]
name = "x"
[[input]]
name = "y"
)";

TEST_CASE("TOML becomes values in the text's order, with their lines") {
  const auto v = parse_toml(kText, "set.toml");
  REQUIRE(v);
  REQUIRE(v->as_table() != nullptr);
  std::string keys;
  for (const auto& [key, value] : *v->as_table()) keys += key + " ";
  CHECK(keys == "format mean split input ");
  CHECK(v->find("format")->line() == 2);
  CHECK(v->find("split")->find("train")->find("shuffle")->line() == 7);
  CHECK(*v->find("split")->find("train")->find("range")->as_array()->at(1).as_int() == 100);
  REQUIRE(v->find("input")->as_array()->size() == 2);
  CHECK(*v->find("input")->as_array()->at(1).find("name")->as_string() == "y");
}

TEST_CASE("TOML errors name the file and the line in one line") {
  const auto v = parse_toml("a = 1\nb = = 2\n", "set.toml");
  REQUIRE_FALSE(v);
  CHECK(v.error().code == Code::kCorrupt);
  CHECK(v.error().message.rfind("set.toml:2: not valid TOML: ", 0) == 0);
  CHECK(parse_toml("\nday = 2024-01-01\n", "x").error().message == "x:2: dates and times are not supported");
  CHECK_FALSE(parse_toml("a = 1\na = 2\n", "x"));
  CHECK_FALSE(parse_toml("a = " + std::string(100'000, '['), "x"));
}

TEST_CASE("letters beyond ASCII are text in strings and comments, and an error in bare keys") {
  const auto tree = parse_toml("a = 'caf\u00e9'  # \u0416\nb = \"\"\"\n\u00a0\u00e9\"\"\"\n", "x.toml");
  REQUIRE(tree);
  CHECK(*tree->find("a")->as_string() == "caf\u00e9");
  CHECK(*tree->find("b")->as_string() == "\u00a0\u00e9");
  for (const char* text : {"caf\u00e9 = 1\n", "a\u0416", "[\u00e9]\n", "a = \u1680 1\n"}) {
    const auto bad = parse_toml(text, "x.toml");
    REQUIRE_FALSE(bad);
    CHECK(bad.error().message.rfind("x.toml", 0) == 0);
  }
}

TEST_CASE("a TOML file that is missing or truncated is an error with its path") {
  const test::TempFolder folder;
  CHECK(load_toml(folder.file("none.toml")).error().message.find("none.toml") != std::string::npos);
  REQUIRE(write_file_atomic(folder.file("bad.toml"), "format = \"idx"));
  CHECK(load_toml(folder.file("bad.toml")).error().message.rfind(folder.file("bad.toml") + ":1: ", 0) == 0);
}

TEST_CASE("flipped TOML is refused or read, never worse") {
  const uint32_t seed = 20240712;
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = kText;
    bad[random() % bad.size()] ^= static_cast<char>(1u << random() % 8);
    const auto v = parse_toml(bad, "x");
    if (!v) CHECK(v.error().message.rfind("x:", 0) == 0);
  }
}

}  // namespace
}  // namespace lathe
