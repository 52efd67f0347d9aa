#include "base/json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>

namespace lathe {
namespace {

TEST_CASE("JSON keeps the order of keys, integers and the text's escapes") {
  const std::string text = R"({"z":1,"a":[true,null,-9007199254740993,0.5],"s":"q\"\n\u00e9"})";
  const auto v = parse_json(text, "x.json");
  REQUIRE(v);
  CHECK(*v->find("a")->as_array()->at(2).as_int() == -9007199254740993);
  CHECK(to_json(*v, -1) == "{\"z\":1,\"a\":[true,null,-9007199254740993,0.5],\"s\":\"q\\\"\\n\xc3\xa9\"}");
}

TEST_CASE("JSON errors name the file and the line") {
  const auto v = parse_json("{\n\"a\": 1,\n\"b\": }", "x.json");
  REQUIRE_FALSE(v);
  CHECK(v.error().code == Code::kCorrupt);
  CHECK(v.error().message.rfind("x.json:3: not valid JSON: ", 0) == 0);
  CHECK_FALSE(parse_json("", "x"));
  CHECK_FALSE(parse_json("{\"a\":1,\"a\":2}", "x"));
  CHECK_FALSE(parse_json("18446744073709551615", "x"));
}

TEST_CASE("JSON nested too deep is an error, not a deep recursion") {
  CHECK(parse_json(std::string(64, '[') + std::string(64, ']'), "x"));
  CHECK_FALSE(parse_json(std::string(65, '[') + std::string(65, ']'), "x"));
  CHECK_FALSE(parse_json(std::string(1'000'000, '['), "x"));
}

TEST_CASE("numbers and bytes that JSON cannot hold are replaced") {
  Tree v = Tree::array();
  v.push(std::nan("")).push(INFINITY).push("\xff");
  CHECK(to_json(v, -1) == "[null,null,\"\xef\xbf\xbd\"]");
}

TEST_CASE("truncated and flipped JSON is refused or read, never worse") {
  const std::string text = R"({"name": "x", "list": [1, 2.5e3, {"deep": [true, false, null]}], "text": "\u20ac"})";
  for (size_t n = 0; n < text.size(); ++n) CHECK_FALSE(parse_json(text.substr(0, n), "x"));
  const uint32_t seed = 20240711;
  MESSAGE("seed " << seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = text;
    bad[random() % bad.size()] ^= static_cast<char>(1u << random() % 8);
    const auto v = parse_json(bad, "x");
    if (!v) CHECK(v.error().message.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace lathe
