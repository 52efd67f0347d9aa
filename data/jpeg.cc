// JPEG by libjpeg-turbo. Its errors leave through longjmp, so nothing with a destructor is made between setjmp and the calls.
#include <csetjmp>
#include <cstdio>
// These need <cstdio> before them.
#include <jerror.h>
#include <jpeglib.h>

#include "data/picture.h"

namespace lathe {
namespace {

// A progressive picture has about ten; thousands make a small file take minutes.
constexpr int kMostScans = 100;

struct State {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  jmp_buf back;
  char problem[JMSG_LENGTH_MAX];
};

State* state_of(j_common_ptr jpeg) { return static_cast<State*>(jpeg->client_data); }

[[noreturn]] void leave(j_common_ptr jpeg) {
  jpeg->err->format_message(jpeg, state_of(jpeg)->problem);
  longjmp(state_of(jpeg)->back, 1);
}

// Level -1: the data is damaged, and libjpeg would go on with gray. Bytes between markers harm nobody.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA) leave(jpeg);
}

void on_progress(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
  std::snprintf(state_of(jpeg)->problem, JMSG_LENGTH_MAX, "more than %d scans", kMostScans);
  longjmp(state_of(jpeg)->back, 1);
}

void open(State* s, PictureBytes file) {
  s->jpeg.err = jpeg_std_error(&s->errors);
  s->errors.error_exit = leave;
  s->errors.emit_message = on_message;
  s->jpeg.client_data = s;
  jpeg_create_decompress(&s->jpeg);
  s->jpeg.client_data = s;
  s->progress.progress_monitor = on_progress;
  s->jpeg.progress = &s->progress;
  jpeg_mem_src(&s->jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&s->jpeg, TRUE);
}

bool matches(PictureBytes file) {
  return file.size() >= 3 && file[0] == std::byte{0xff} && file[1] == std::byte{0xd8} && file[2] == std::byte{0xff};
}

bool read_size(State* s, PictureBytes file, PictureSize* size) {
  if (setjmp(s->back)) return false;
  open(s, file);
  *size = {static_cast<int32_t>(s->jpeg.image_height), static_cast<int32_t>(s->jpeg.image_width)};
  return true;
}

bool read_rows(State* s, PictureBytes file, PictureSize size, int32_t channels, uint8_t* out) {
  if (setjmp(s->back)) return false;
  open(s, file);
  s->jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&s->jpeg);
  const auto width = static_cast<size_t>(size.width);
  while (s->jpeg.output_scanline < static_cast<JDIMENSION>(size.height)) {
    JSAMPROW row = out + s->jpeg.output_scanline * width * static_cast<size_t>(channels);
    jpeg_read_scanlines(&s->jpeg, &row, 1);
  }
  jpeg_finish_decompress(&s->jpeg);
  return true;
}

bool size(PictureBytes file, PictureSize* size, std::string* problem) {
  State s{};
  const bool ok = read_size(&s, file, size);
  jpeg_destroy_decompress(&s.jpeg);
  if (!ok) *problem = s.problem;
  return ok;
}

bool decode(PictureBytes file, PictureSize size, int32_t channels, std::span<uint8_t> out, std::string* problem) {
  State s{};
  const bool ok = read_rows(&s, file, size, channels, out.data());
  jpeg_destroy_decompress(&s.jpeg);
  if (!ok) *problem = s.problem;
  return ok;
}

}  // namespace

const PictureFormat kJpeg = {matches, size, decode};

}  // namespace lathe
