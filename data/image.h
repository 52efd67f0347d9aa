// PNG, JPEG and BMP pictures to bytes (libpng, libjpeg-turbo). Part of the build only with the option `images`; else every call is
// kUnsupported.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe {

// Interleaved rows, top first: height x width x channels.
struct Image {
  int32_t height = 0, width = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

// `channels`: 3 (RGB) or 1 (luma); an alpha channel is dropped, 16-bit samples keep their high byte. Pictures over 64 million
// pixels are refused before memory is taken. Errors name `where`.
Result<Image> decode_image(std::span<const std::byte> file, int32_t channels, const std::string& where);

// Bilinear, as data/preprocess.h defines it. Requires: height and width at least 1.
Image resize_bilinear(const Image& image, int32_t height, int32_t width);

// By the extension, in any case: .png .jpg .jpeg .bmp
bool has_image_extension(const std::string& path);

}  // namespace lathe
