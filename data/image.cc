#include "data/image.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "data/picture.h"

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
const PictureFormat* find_format(PictureBytes file) {
  for (const PictureFormat* format : {&kPng, &kJpeg, &kBmp})
    if (format->matches(file)) return format;
  return nullptr;
}
#endif

}  // namespace

Result<Image> decode_image(std::span<const std::byte> file, int32_t channels, const std::string& where) {
#ifdef LATHE_IMAGES
  const PictureFormat* format = find_format(file);
  if (format == nullptr) return fail(Code::kCorrupt, where + ": not a PNG, JPEG or BMP picture");
  PictureSize size;
  std::string problem;
  if (!format->size(file, &size, &problem)) return fail(Code::kCorrupt, where + ": not a readable picture: " + problem);
  if (size.height < 1 || size.width < 1 || int64_t{size.height} * size.width > kMaxPixels)
    return fail(Code::kInvalidArgument, where + ": picture of " + std::to_string(size.width) + "x" + std::to_string(size.height) +
                                            " pixels, the limit is " + std::to_string(kMaxPixels) + " in all");
  Image image{size.height, size.width, channels, {}};
  image.pixels.resize(static_cast<size_t>(size.height) * static_cast<size_t>(size.width) * static_cast<size_t>(channels));
  if (!format->decode(file, size, channels, image.pixels, &problem))
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
