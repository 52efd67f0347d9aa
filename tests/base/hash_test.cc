#include "base/hash.h"

#include <doctest/doctest.h>

namespace lathe {
namespace {

TEST_CASE("the hash of nothing is XXH3's published value") {
  CHECK(to_hex(hash128(std::string_view())) == "99aa06d3014798d86001c324468d497f");
  CHECK(hash64({}) == 0x2d06800538d394c2u);
}

TEST_CASE("hexadecimal text goes both ways and refuses anything else") {
  const Hash128 h = hash128("lathe");
  CHECK(parse_hash128(to_hex(h)) == h);
  CHECK_FALSE(parse_hash128("99aa06d3014798d86001c324468d497"));
  CHECK_FALSE(parse_hash128("99AA06D3014798D86001C324468D497F"));
  CHECK_FALSE(parse_hash128("99aa06d3014798d86001c324468d497g"));
}

TEST_CASE("pieces hash as the whole does") {
  const std::string text(1000, 'x');
  Hasher pieces;
  pieces.update(std::string_view(text).substr(0, 1))
      .update(std::string_view(text).substr(1, 700))
      .update(std::string_view(text).substr(701));
  CHECK(pieces.finish() == hash128(text));
  CHECK(hash128(text) != hash128(text + "x"));
}

}  // namespace
}  // namespace lathe
