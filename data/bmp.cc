// BMP: 1, 4, 8 (palette), 16, 24 and 32 bits per pixel, bottom-up and top-down, with the OS/2 header and all of Windows'; no
// run-length or embedded compression.
#include <bit>
#include <cstdlib>
#include <vector>

#include "base/cursor.h"
#include "data/picture.h"

namespace lathe {
namespace {

constexpr uint32_t kUncompressed = 0, kBitFields = 3;

struct Header {
  uint32_t data = 0, palette = 0, palette_entry = 0, palette_count = 0;
  int32_t width = 0, height = 0;  // positive
  bool top_down = false;
  uint32_t bits = 0;
  uint32_t mask[3] = {0, 0, 0};  // red, green, blue of 16 and 32 bits
};

bool fail_with(std::string* problem, const char* text) {
  *problem = text;
  return false;
}

bool read_masks(Cursor& c, uint32_t compression, uint32_t header_bytes, Header* h, std::string* problem) {
  if (h->bits != 16 && h->bits != 32)
    return compression == kUncompressed || fail_with(problem, "compressed BMP is not supported");
  if (compression == kUncompressed) {
    const uint32_t width = h->bits == 16 ? 5 : 8;
    for (uint32_t i = 0; i < 3; ++i) h->mask[i] = ((1u << width) - 1) << (2 - i) * width;
    return true;
  }
  if (compression != kBitFields) return fail_with(problem, "compressed BMP is not supported");
  // Behind the 40 bytes of the oldest Windows header, whether they count as part of it or not.
  if (!c.seek(14 + 40)) return fail_with(problem, "the header is truncated");
  for (uint32_t& mask : h->mask) {
    if (!c.read_le(&mask)) return fail_with(problem, "the header is truncated");
    const uint32_t run = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    if (run == 0 || (run & (run + 1)) != 0) return fail_with(problem, "a colour mask is not a run of bits");
  }
  if (header_bytes == 40) h->palette += 12;
  return true;
}

bool read_header(PictureBytes file, Header* h, std::string* problem) {
  Cursor c(file);
  uint32_t header_bytes = 0, compression = kUncompressed, used = 0;
  uint16_t planes = 0, bits = 0;
  int32_t height = 0;
  bool whole = c.seek(10) && c.read_le(&h->data) && c.read_le(&header_bytes);
  const bool os2 = header_bytes == 12;
  if (os2) {
    uint16_t w16 = 0, h16 = 0;
    whole = whole && c.read_le(&w16) && c.read_le(&h16) && c.read_le(&planes) && c.read_le(&bits);
    h->width = w16, height = h16;
  } else {
    whole = whole && header_bytes >= 40 && c.read_le(&h->width) && c.read_le(&height) && c.read_le(&planes) && c.read_le(&bits) &&
            c.read_le(&compression) && c.skip(12) && c.read_le(&used);
  }
  if (!whole) return fail_with(problem, "the header is truncated");
  if (h->width < 1 || height == 0 || height == INT32_MIN) return fail_with(problem, "it has no pixels");
  h->top_down = height < 0;
  h->height = std::abs(height);
  h->bits = bits;
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
    return fail_with(problem, "its number of bits per pixel is not 1, 4, 8, 16, 24 or 32");
  h->palette = 14 + header_bytes;
  h->palette_entry = os2 ? 3 : 4;
  if (bits <= 8) h->palette_count = used == 0 || used > (1u << bits) ? 1u << bits : used;
  return read_masks(c, compression, header_bytes, h, problem);
}

// A field of a pixel as a byte.
uint32_t field(uint32_t pixel, uint32_t mask) {
  const uint32_t most = mask >> std::countr_zero(mask), v = (pixel & mask) >> std::countr_zero(mask);
  return most >= 255 ? static_cast<uint32_t>(uint64_t{v} * 255 / most) : (v * 255 + most / 2) / most;
}

struct Rgb {
  uint8_t r, g, b;
};

bool read_palette(PictureBytes file, const Header& h, std::vector<Rgb>* palette, std::string* problem) {
  if (uint64_t{h.palette} + uint64_t{h.palette_count} * h.palette_entry > file.size())
    return fail_with(problem, "the palette is truncated");
  for (uint32_t i = 0; i < h.palette_count; ++i) {
    const std::byte* p = file.data() + h.palette + i * h.palette_entry;
    palette->push_back({std::to_integer<uint8_t>(p[2]), std::to_integer<uint8_t>(p[1]), std::to_integer<uint8_t>(p[0])});
  }
  return true;
}

// Pixel x of a row; false: its palette entry is missing.
bool pixel_of(const Header& h, const std::vector<Rgb>& palette, const std::byte* row, uint32_t x, Rgb* out) {
  const auto at = [&](uint32_t i) { return std::to_integer<uint32_t>(row[i]); };
  if (h.bits <= 8) {
    const uint32_t per = 8 / h.bits, index = at(x / per) >> (per - 1 - x % per) * h.bits & ((1u << h.bits) - 1);
    if (index >= palette.size()) return false;
    *out = palette[index];
  } else if (h.bits == 24) {
    *out = {static_cast<uint8_t>(at(x * 3 + 2)), static_cast<uint8_t>(at(x * 3 + 1)), static_cast<uint8_t>(at(x * 3))};
  } else {
    uint32_t v = 0;
    for (uint32_t i = 0; i < h.bits / 8; ++i) v |= at(x * h.bits / 8 + i) << 8 * i;
    *out = {static_cast<uint8_t>(field(v, h.mask[0])), static_cast<uint8_t>(field(v, h.mask[1])),
            static_cast<uint8_t>(field(v, h.mask[2]))};
  }
  return true;
}

bool matches(PictureBytes file) { return file.size() >= 2 && file[0] == std::byte{'B'} && file[1] == std::byte{'M'}; }

bool size(PictureBytes file, PictureSize* size, std::string* problem) {
  Header h;
  if (!read_header(file, &h, problem)) return false;
  *size = {h.height, h.width};
  return true;
}

bool decode(PictureBytes file, PictureSize size, int32_t channels, std::span<uint8_t> out, std::string* problem) {
  Header h;
  std::vector<Rgb> palette;
  if (!read_header(file, &h, problem) || !read_palette(file, h, &palette, problem)) return false;
  const uint64_t row_bytes = (uint64_t{static_cast<uint32_t>(size.width)} * h.bits + 31) / 32 * 4;
  if (h.data > file.size() || (file.size() - h.data) / row_bytes < static_cast<uint32_t>(size.height))
    return fail_with(problem, "the picture is truncated");
  size_t to = 0;
  for (int32_t y = 0; y < size.height; ++y) {
    const auto stored = static_cast<uint64_t>(h.top_down ? y : size.height - 1 - y);
    const std::byte* row = file.data() + h.data + stored * row_bytes;
    for (uint32_t x = 0; x < static_cast<uint32_t>(size.width); ++x) {
      Rgb p{};
      if (!pixel_of(h, palette, row, x, &p)) return fail_with(problem, "a pixel has no entry in the palette");
      if (channels == 1) {
        out[to++] = luma(p.r, p.g, p.b);
      } else {
        out[to++] = p.r;
        out[to++] = p.g;
        out[to++] = p.b;
      }
    }
  }
  return true;
}

}  // namespace

const PictureFormat kBmp = {matches, size, decode};

}  // namespace lathe
