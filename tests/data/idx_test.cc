#include "data/idx.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include "damage.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;

Bytes idx_file(int type, const std::vector<uint32_t>& dims, const Bytes& data) {
  Bytes out = {std::byte{0}, std::byte{0}, static_cast<std::byte>(type), static_cast<std::byte>(dims.size())};
  for (const uint32_t d : dims)
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<std::byte>(d >> shift & 255));
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

Bytes gzip(const Bytes& in) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes copy = in, out(deflateBound(&z, in.size()) + 64);
  z.next_in = reinterpret_cast<Bytef*>(copy.data());
  z.avail_in = static_cast<uInt>(copy.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

Bytes counting(size_t n) {
  Bytes out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 5);
  return out;
}

TEST_CASE("idx files read the same plain and gzipped") {
  const Bytes file = idx_file(8, {2, 3, 4}, counting(24));
  for (const Bytes& f : {file, gzip(file)}) {
    CHECK(looks_like_idx(f));
    const auto t = parse_idx(f, "x");
    REQUIRE(t);
    CHECK(t->dtype == DType::kU8);
    CHECK(t->dims == std::vector<int64_t>{2, 3, 4});
    CHECK(t->bytes == counting(24));
  }
}

TEST_CASE("idx elements are big-endian") {
  const auto t = parse_idx(idx_file(0x0d, {1}, {std::byte{0x3f}, std::byte{0x80}, std::byte{0}, std::byte{0}}), "x");
  REQUIRE(t);
  CHECK(t->as<float>()[0] == 1.0f);
  CHECK(parse_idx(idx_file(0x0b, {1}, {std::byte{0xff}, std::byte{0xfe}}), "x")->as<int16_t>()[0] == -2);
}

TEST_CASE("an idx header that promises too much takes no memory") {
  const Bytes file = idx_file(8, {0xffffffff, 0xffffffff, 2}, counting(24));
  for (const Bytes& f : {file, gzip(file)})
    CHECK(contains(parse_idx(f, "x").error().message, "x: idx header says 4294967295x4294967295x2 of u8"));
}

TEST_CASE("an idx file that is shorter, longer or none at all says which") {
  const Bytes good = idx_file(8, {3}, counting(3));
  Bytes longer = good;
  longer.push_back({});
  CHECK(parse_idx(longer, "x").error().message == "x: data goes on after its 11 bytes");
  CHECK(parse_idx(gzip(longer), "x").error().message == "x: data goes on after its 11 bytes");
  Bytes trailing = gzip(good);
  trailing.push_back({});
  CHECK(parse_idx(trailing, "x").error().message == "x: 1 bytes follow the compressed data");
  CHECK(parse_idx(test::bytes_of("hello world"), "x").error().message == "x: not an idx file");
  CHECK_FALSE(looks_like_idx(test::bytes_of("hello world")));
  CHECK_FALSE(looks_like_idx({}));
}

TEST_CASE("a truncated idx file is an error at every length") {
  const Bytes file = idx_file(8, {2, 3, 4}, counting(24));
  for (const Bytes& f : {file, gzip(file)})
    test::truncate_everywhere(f, [](const Bytes& bad) {
      const auto t = parse_idx(bad, "x");
      REQUIRE_FALSE(t);
      CHECK(t.error().message.rfind("x: ", 0) == 0);
    });
}

TEST_CASE("flipped bits in a gzipped idx never pass as other data") {
  const Bytes file = idx_file(8, {2, 30, 40}, counting(2400));
  test::flip_bits(gzip(file), 20240715, 4000, [](const Bytes& bad) {
    const auto t = parse_idx(bad, "x");
    if (t) CHECK(t->bytes == counting(2400));
  });
}

}  // namespace
}  // namespace lathe
