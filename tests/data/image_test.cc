#include "data/image.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>

#include "base/file.h"
#include "damage.h"
#include "test_data.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;

const std::string kGolden = LATHE_SOURCE_ROOT "/tests/data/golden/";

Bytes golden(const std::string& name) { return read_file(kGolden + name).value(); }

TEST_CASE("PNG and BMP decode exactly and JPEG within its loss") {
  for (const auto& file : {std::pair("gradient.png", 0), std::pair("gradient.bmp", 0), std::pair("gradient.jpg", 8)}) {
    const std::string name = file.first;
    const int tolerance = file.second;
    CAPTURE(name);
    const auto image = decode_image(golden(name), 3, name);
    REQUIRE(image);
    REQUIRE(image->height == 6);
    REQUIRE(image->width == 8);
    for (int y = 0; y < 6; ++y)
      for (int x = 0; x < 8; ++x) {
        const uint8_t* p = &image->pixels[static_cast<size_t>(y * 8 + x) * 3];
        CHECK(std::abs(p[0] - 32 * x) <= tolerance);
        CHECK(std::abs(p[1] - 40 * y) <= tolerance);
        CHECK(std::abs(p[2] - 16 * (x + y)) <= tolerance);
      }
  }
  const auto gray = decode_image(golden("gradient.png"), 1, "x");
  REQUIRE(gray);
  CHECK(gray->pixels.size() == 48);
}

// A BMP of 2 x 2 pixels: red, green / blue, white in reading order. `rows`: the stored rows, first to last, padded to 4 bytes.
Bytes bmp_of(uint32_t bits, bool os2, int32_t height, uint32_t compression, const std::vector<uint8_t>& table,
             const std::vector<uint8_t>& rows) {
  std::string s = "BM";
  const auto put = [&](uint64_t v, int n) {
    for (int i = 0; i < n; ++i) s.push_back(static_cast<char>(i < 8 ? v >> 8 * i : 0));
  };
  const uint32_t header = os2 ? 12 : 40;
  const auto data = static_cast<uint32_t>(14 + header + table.size());
  put(data + rows.size(), 4), put(0, 4), put(data, 4), put(header, 4);
  put(2, os2 ? 2 : 4), put(static_cast<uint32_t>(height), os2 ? 2 : 4), put(1, 2), put(bits, 2);
  if (!os2) put(compression, 4), put(0, 12), put(bits <= 8 ? 4 : 0, 4), put(0, 4);
  s.append(table.begin(), table.end()).append(rows.begin(), rows.end());
  return test::bytes_of(s);
}

TEST_CASE("every kind of BMP gives the same picture") {
  const std::vector<uint8_t> expected = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  const std::vector<uint8_t> palette = {0, 0, 255, 0, 0, 255, 0, 0, 255, 0, 0, 0, 255, 255, 255, 0};
  std::vector<uint8_t> os2_palette = {0, 0, 255, 0, 255, 0, 255, 0, 0, 255, 255, 255};
  os2_palette.resize(256 * 3);  // the old header has no count of colours
  const std::vector<uint8_t> masks565 = {0, 0xf8, 0, 0, 0xe0, 7, 0, 0, 0x1f, 0, 0, 0};
  const struct {
    const char* what;
    Bytes file;
  } cases[] = {
      {"8 bits", bmp_of(8, false, 2, 0, palette, {2, 3, 0, 0, 0, 1, 0, 0})},
      {"8 bits, top-down", bmp_of(8, false, -2, 0, palette, {0, 1, 0, 0, 2, 3, 0, 0})},
      {"8 bits, OS/2", bmp_of(8, true, 2, 0, os2_palette, {2, 3, 0, 0, 0, 1, 0, 0})},
      {"4 bits", bmp_of(4, false, 2, 0, palette, {0x23, 0, 0, 0, 0x01, 0, 0, 0})},
      {"16 bits, 555", bmp_of(16, false, 2, 0, {}, {0x1f, 0, 0xff, 0x7f, 0, 0x7c, 0xe0, 3})},
      {"16 bits, 565", bmp_of(16, false, 2, 3, masks565, {0x1f, 0, 0xff, 0xff, 0, 0xf8, 0xe0, 7})},
      {"24 bits", bmp_of(24, false, 2, 0, {}, {255, 0, 0, 255, 255, 255, 0, 0, 0, 0, 255, 0, 255, 0, 0, 0})},
      {"32 bits", bmp_of(32, false, 2, 0, {}, {255, 0, 0, 9, 255, 255, 255, 9, 0, 0, 255, 9, 0, 255, 0, 9})},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    const auto image = decode_image(c.file, 3, "x");
    REQUIRE_MESSAGE(image, image.error().message);
    CHECK(image->pixels == expected);
    const auto gray = decode_image(c.file, 1, "x");
    REQUIRE(gray);
    CHECK(gray->pixels == std::vector<uint8_t>{76, 149, 28, 255});
  }
  CHECK(contains(decode_image(bmp_of(8, false, 2, 1, palette, {0, 0, 0, 0}), 3, "x").error().message, "compressed BMP"));
  CHECK(contains(decode_image(bmp_of(8, false, 2, 0, palette, {9, 3, 0, 0, 0, 1, 0, 0}), 3, "x").error().message, "palette"));
}

TEST_CASE("bilinear resize has its centres at half pixels and repeats the edges") {
  const Image two{1, 2, 1, {0, 100}};
  CHECK(resize_bilinear(two, 1, 4).pixels == std::vector<uint8_t>{0, 25, 75, 100});
  const Image four{1, 4, 1, {0, 10, 20, 40}};
  CHECK(resize_bilinear(four, 1, 2).pixels == std::vector<uint8_t>{5, 30});
  const Image square{2, 2, 1, {0, 100, 200, 50}};
  CHECK(resize_bilinear(square, 1, 1).pixels == std::vector<uint8_t>{88});  // 87.5, half to even
  CHECK(resize_bilinear(square, 2, 2).pixels == square.pixels);
  // Two channels keep apart.
  const Image pair{1, 2, 2, {0, 200, 100, 0}};
  CHECK(resize_bilinear(pair, 1, 1).pixels == std::vector<uint8_t>{50, 100});
}

TEST_CASE("a truncated picture is an error at every length") {
  for (const char* name : {"gradient.png", "gradient.bmp", "gradient.jpg"}) {
    CAPTURE(name);
    const Bytes whole = golden(name);
    test::truncate_everywhere(whole, [&](const Bytes& bad) {
      const auto image = decode_image(bad, 3, "x");
      CAPTURE(bad.size());
      // A PNG without its last chunk (12 bytes: the end mark) still has every pixel.
      if (image && bad.size() + 12 >= whole.size() && std::string_view(name) == "gradient.png") return;
      REQUIRE_FALSE(image);
      CHECK(image.error().message.rfind("x: ", 0) == 0);
    });
  }
}

TEST_CASE("flipped bits in a picture are refused or decoded, never worse") {
  for (const char* name : {"gradient.png", "gradient.bmp", "gradient.jpg"})
    test::flip_bits(golden(name), 20240717, 2000, [](const Bytes& bad) {
      const auto image = decode_image(bad, 3, "x");
      if (image) CHECK(image->pixels.size() == static_cast<size_t>(image->height) * static_cast<size_t>(image->width) * 3);
    });
}

TEST_CASE("a picture whose header claims too many pixels takes no memory") {
  Bytes png = golden("gradient.png");
  // IHDR: its name at 12, width at 16, height at 20, its checksum at 29, big-endian.
  png[18] = png[22] = std::byte{0x40};
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(png.data() + 12), 17);
  for (size_t i = 0; i < 4; ++i) png[29 + i] = static_cast<std::byte>(sum >> (24 - 8 * i));
  CHECK(contains(decode_image(png, 3, "x").error().message, "x: picture of 16392x16390 pixels"));
  CHECK_FALSE(decode_image(test::bytes_of("not a picture"), 3, "x"));
  CHECK_FALSE(decode_image({}, 3, "x"));
}

TEST_CASE("a real photograph survives truncation and flips as an error or a picture") {
  const std::string path = test::data_path("datasets/photos/face.jpg");
  if (path.empty()) {
    test::say_skipped("datasets/photos", "no data");
    return;
  }
  const Bytes whole = read_file(path).value();
  REQUIRE(decode_image(whole, 3, "x"));
  for (size_t n = 0; n < whole.size(); n += 997) CHECK_FALSE(decode_image(std::span(whole).first(n), 3, "x"));
  test::flip_bits(whole, 20240718, 40, [](const Bytes& bad) {
    const auto image = decode_image(bad, 3, "x");
    if (!image) CHECK(image.error().message.rfind("x: ", 0) == 0);
  });
}

}  // namespace
}  // namespace lathe
