#include "base/cursor.h"

#include <doctest/doctest.h>

#include <array>

namespace lathe {
namespace {

constexpr std::array<std::byte, 8> kBytes = {std::byte{1},    std::byte{2},    std::byte{3},   std::byte{4},
                                             std::byte{0xff}, std::byte{0xfe}, std::byte{'a'}, std::byte{'b'}};

TEST_CASE("a cursor reads both byte orders and signs") {
  Cursor c(kBytes);
  uint32_t le = 0;
  int16_t be = 0;
  std::string_view text;
  REQUIRE(c.read_le(&le));
  CHECK(le == 0x04030201u);
  REQUIRE(c.read_be(&be));
  CHECK(be == -2);
  REQUIRE(c.take_text(2, &text));
  CHECK(text == "ab");
  CHECK(c.at_end());
}

TEST_CASE("a read that does not fit fails and moves nothing") {
  Cursor c(kBytes);
  REQUIRE(c.skip(5));
  uint32_t v = 7;
  std::span<const std::byte> out;
  CHECK_FALSE(c.read_le(&v));
  CHECK_FALSE(c.read_be(&v));
  CHECK_FALSE(c.take(4, &out));
  CHECK_FALSE(c.take(UINT64_MAX, &out));
  CHECK_FALSE(c.skip(UINT64_MAX));
  CHECK_FALSE(c.seek(9));
  CHECK(v == 7);
  CHECK(c.position() == 5);
  CHECK(c.take(3, &out));
}

TEST_CASE("products and sums of sizes do not wrap") {
  uint64_t out = 5;
  CHECK(checked_mul(1u << 31, 1u << 31, &out));
  CHECK(out == uint64_t{1} << 62);
  CHECK_FALSE(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32, &out));
  CHECK_FALSE(checked_add(UINT64_MAX, 1, &out));
  CHECK(out == uint64_t{1} << 62);
  CHECK(checked_mul(0, UINT64_MAX, &out));
  CHECK(out == 0);
}

}  // namespace
}  // namespace lathe
