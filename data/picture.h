// Picture formats as data/image.cc uses them; each has a file of its own (png.cc, jpeg.cc, bmp.cc).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lathe {

using PictureBytes = std::span<const std::byte>;

struct PictureSize {
  int32_t height = 0, width = 0;
};

struct PictureFormat {
  // By its first bytes.
  bool (*matches)(PictureBytes file);
  // From the header alone. False: `problem` says why.
  bool (*size)(PictureBytes file, PictureSize* size, std::string* problem);
  // To interleaved rows, top first, of 1 (luma) or 3 (RGB) channels. Requires: `size` is what size() gave and out holds as many
  // bytes. False: `problem` says why; what out holds is then undefined.
  bool (*decode)(PictureBytes file, PictureSize size, int32_t channels, std::span<uint8_t> out, std::string* problem);
};

extern const PictureFormat kPng, kJpeg, kBmp;

// ITU-R BT.601 in eighths of bytes.
constexpr uint8_t luma(uint32_t r, uint32_t g, uint32_t b) { return static_cast<uint8_t>((r * 77 + g * 150 + b * 29) >> 8); }

}  // namespace lathe
