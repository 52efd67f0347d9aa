// Pictures: PNG, JPEG, BMP.
#include "base/file.h"
#include "data/image.h"
#include "tests/fuzz/fuzz.h"

namespace lathe::fuzz {

void run_images(Bytes bytes) {
  for (const int32_t channels : {1, 3}) {
    const auto image = decode_image(bytes, channels, "x");
    if (!image) continue;
    CHECKED(image->pixels.size() == static_cast<size_t>(image->height) * static_cast<size_t>(image->width) *
                                        static_cast<size_t>(image->channels));
    if (image->pixels.size() < (1u << 20)) (void)resize_bilinear(*image, 7, 5);
  }
}

std::vector<std::string> seeds_images() {
  std::vector<std::string> out;
  for (const char* name : {"gradient.png", "gradient.bmp", "gradient.jpg"}) {
    const auto bytes = read_file(std::string(LATHE_SOURCE_ROOT "/tests/data/golden/") + name);
    CHECKED(bytes.has_value());
    out.emplace_back(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  return out;
}

}  // namespace lathe::fuzz
