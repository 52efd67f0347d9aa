#include "data/image.h"

#include <doctest/doctest.h>

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
  // IHDR: width at 16, height at 20, big-endian.
  png[18] = png[22] = std::byte{0x40};
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
