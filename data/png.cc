// PNG by libpng. Its errors leave through longjmp, so nothing with a destructor is made between setjmp and the calls.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "data/picture.h"

namespace lathe {
namespace {

struct Source {
  PictureBytes rest;
  char problem[128] = {};
};

void read_bytes(png_structp png, png_bytep to, size_t n) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (n > source->rest.size()) png_error(png, "the picture is truncated");
  std::memcpy(to, source->rest.data(), n);
  source->rest = source->rest.subspan(n);
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source->problem, message, sizeof source->problem - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

// A reader with its header read; png is null if that failed.
class Reader {
 public:
  explicit Reader(PictureBytes file) : source_{file, {}} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning);
    info = png == nullptr ? nullptr : png_create_info_struct(png);
    if (info == nullptr || !read_info()) close();
  }
  ~Reader() { close(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // 8-bit gray or RGB rows, whatever is stored.
  bool read_rows(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    png_read_image(png, rows);
    return true;
  }
  bool is_gray() const { return (png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR) == 0; }
  std::string problem() const { return source_.problem[0] == '\0' ? "out of memory" : source_.problem; }

  png_structp png = nullptr;
  png_infop info = nullptr;

 private:
  bool read_info() {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_read_fn(png, &source_, read_bytes);
    png_set_user_limits(png, 32768, 32768);
    png_set_chunk_malloc_max(png, 8u << 20);
    png_read_info(png, info);
    return true;
  }
  void close() { png_destroy_read_struct(png == nullptr ? nullptr : &png, info == nullptr ? nullptr : &info, nullptr); }

  Source source_;
};

bool matches(PictureBytes file) { return file.size() >= 8 && png_sig_cmp(reinterpret_cast<png_const_bytep>(file.data()), 0, 8) == 0; }

bool size(PictureBytes file, PictureSize* size, std::string* problem) {
  const Reader reader(file);
  if (reader.png == nullptr) {
    *problem = reader.problem();
    return false;
  }
  *size = {static_cast<int32_t>(png_get_image_height(reader.png, reader.info)),
           static_cast<int32_t>(png_get_image_width(reader.png, reader.info))};
  return true;
}

bool decode(PictureBytes file, PictureSize size, int32_t channels, std::span<uint8_t> out, std::string* problem) {
  Reader reader(file);
  if (reader.png == nullptr) {
    *problem = reader.problem();
    return false;
  }
  const auto height = static_cast<size_t>(size.height), width = static_cast<size_t>(size.width);
  const size_t stored = reader.is_gray() ? 1 : 3;
  std::vector<uint8_t> bytes(height * width * stored);
  std::vector<png_bytep> rows(height);
  for (size_t y = 0; y < height; ++y) rows[y] = bytes.data() + y * width * stored;
  if (!reader.read_rows(rows.data())) {
    *problem = reader.problem();
    return false;
  }
  for (size_t i = 0; i < height * width; ++i) {
    const uint8_t* p = &bytes[i * stored];
    if (channels == 1) out[i] = stored == 1 ? p[0] : luma(p[0], p[1], p[2]);
    else
      for (size_t c = 0; c < 3; ++c) out[i * 3 + c] = p[stored == 1 ? 0 : c];
  }
  return true;
}

}  // namespace

const PictureFormat kPng = {matches, size, decode};

}  // namespace lathe
