#include "data/image.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "base/cursor.h"
#include "data/stb.h"

namespace lathe {
namespace {

constexpr int64_t kMaxPixels = int64_t{64} << 20;

// Two neighbours and the second one's weight, for one output coordinate.
struct Tap {
  int32_t a = 0, b = 0;
  float weight = 0;
};

std::vector<Tap> taps(int32_t in, int32_t out) {
  std::vector<Tap> result(static_cast<size_t>(out));
  for (int32_t i = 0; i < out; ++i) {
    const double center = (i + 0.5) * in / out - 0.5;
    const auto low = static_cast<int32_t>(std::floor(center));
    Tap& t = result[static_cast<size_t>(i)];
    t.a = std::clamp(low, 0, in - 1);
    t.b = std::clamp(low + 1, 0, in - 1);
    t.weight = static_cast<float>(center - low);
  }
  return result;
}

#ifdef LATHE_IMAGES

// stb reads zeros past the end of a file, so that a truncated BMP or JPEG would pass as a picture with a grey or black rest.
bool bmp_truncated(std::span<const std::byte> file) {
  Cursor c(file);
  uint32_t data = 0, header = 0;
  if (!c.seek(10) || !c.read_le(&data) || !c.read_le(&header)) return true;
  int32_t w = 0, h = 0;
  uint16_t w16 = 0, h16 = 0, bits = 0;
  const bool old = header == 12;  // OS/2: 16-bit sizes
  const bool whole = old ? c.read_le(&w16) && c.read_le(&h16) : c.read_le(&w) && c.read_le(&h);
  if (!whole || !c.skip(2) || !c.read_le(&bits)) return true;
  const uint64_t width = old ? w16 : static_cast<uint64_t>(std::abs(int64_t{w}));
  const uint64_t height = old ? h16 : static_cast<uint64_t>(std::abs(int64_t{h}));
  const uint64_t row_bytes = (width * bits + 31) / 32 * 4;
  return data > file.size() || (row_bytes != 0 && (file.size() - data) / row_bytes < height);
}

// Inside a scan 0xff is always followed by 0 or a restart marker, so the end marker can only stand after the last scan.
bool jpeg_truncated(std::span<const std::byte> file) {
  constexpr std::byte kScan[] = {std::byte{0xff}, std::byte{0xda}}, kEnd[] = {std::byte{0xff}, std::byte{0xd9}};
  const auto scan = std::find_end(file.begin(), file.end(), std::begin(kScan), std::end(kScan));
  return std::find_end(scan, file.end(), std::begin(kEnd), std::end(kEnd)) == file.end();
}

bool truncated(std::span<const std::byte> file) {
  if (file.size() < 2) return true;
  if (file[0] == std::byte{'B'} && file[1] == std::byte{'M'}) return bmp_truncated(file);
  if (file[0] == std::byte{0xff} && file[1] == std::byte{0xd8}) return jpeg_truncated(file);
  return false;
}

#endif

}  // namespace

Result<Image> decode_image(std::span<const std::byte> file, int32_t channels, const std::string& where) {
#ifdef LATHE_IMAGES
  if (truncated(file)) return fail(Code::kCorrupt, where + ": the picture is truncated");
  Image image;
  image.channels = channels;
  std::string problem;
  if (!stb_size(file, &image.height, &image.width, &problem))
    return fail(Code::kCorrupt, where + ": not a readable picture: " + problem);
  if (image.height < 1 || image.width < 1 || int64_t{image.height} * image.width > kMaxPixels)
    return fail(Code::kInvalidArgument, where + ": picture of " + std::to_string(image.width) + "x" +
                                            std::to_string(image.height) + " pixels, the limit is " + std::to_string(kMaxPixels) +
                                            " in all");
  image.pixels.resize(static_cast<size_t>(image.height) * static_cast<size_t>(image.width) * static_cast<size_t>(channels));
  if (!stb_decode(file, image.height, image.width, channels, image.pixels, &problem))
    return fail(Code::kCorrupt, where + ": not a readable picture: " + problem);
  return image;
#else
  (void)file;
  (void)channels;
  return fail(Code::kUnsupported, where + ": this build cannot read pictures (option images)");
#endif
}

Image resize_bilinear(const Image& image, int32_t height, int32_t width) {
  if (image.height == height && image.width == width) return image;
  const std::vector<Tap> rows = taps(image.height, height), columns = taps(image.width, width);
  const auto c = static_cast<size_t>(image.channels);
  Image out{height, width, image.channels, {}};
  out.pixels.reserve(static_cast<size_t>(height) * static_cast<size_t>(width) * c);
  const auto at = [&](int32_t y, int32_t x) {
    return image.pixels.data() + (static_cast<size_t>(y) * static_cast<size_t>(image.width) + static_cast<size_t>(x)) * c;
  };
  for (const Tap& y : rows)
    for (const Tap& x : columns) {
      const uint8_t *p00 = at(y.a, x.a), *p01 = at(y.a, x.b), *p10 = at(y.b, x.a), *p11 = at(y.b, x.b);
      for (size_t i = 0; i < c; ++i) {
        const float top = static_cast<float>(p00[i]) + static_cast<float>(p01[i] - p00[i]) * x.weight;
        const float bottom = static_cast<float>(p10[i]) + static_cast<float>(p11[i] - p10[i]) * x.weight;
        out.pixels.push_back(static_cast<uint8_t>(std::nearbyint(top + (bottom - top) * y.weight)));
      }
    }
  return out;
}

bool has_image_extension(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == std::string::npos) return false;
  std::string extension = path.substr(dot);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char ch) { return static_cast<char>(std::tolower(ch)); });
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".bmp";
}

}  // namespace lathe
