#include "data/stb.h"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

// A damaged file can ask for up to 2 GiB while it is inflated; no picture within our limit needs this much.
constexpr size_t kMaxAllocationBytes = size_t{1} << 29;

void* limited_malloc(size_t bytes) { return bytes <= kMaxAllocationBytes ? std::malloc(bytes) : nullptr; }
void* limited_realloc(void* p, size_t bytes) { return bytes <= kMaxAllocationBytes ? std::realloc(p, bytes) : nullptr; }

}  // namespace

#define STBI_MALLOC(bytes) limited_malloc(bytes)
#define STBI_REALLOC(p, bytes) limited_realloc(p, bytes)
#define STBI_FREE(p) std::free(p)
#define STBI_NO_STDIO
#define STBI_ONLY_PNG
#define STBI_ONLY_JPEG
#define STBI_ONLY_BMP
#define STBI_MAX_DIMENSIONS 32768
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#include <stb/stb_image.h>

namespace lathe {
namespace {

const stbi_uc* bytes_of(std::span<const std::byte> file) { return reinterpret_cast<const stbi_uc*>(file.data()); }

std::string reason() {
  const char* r = stbi_failure_reason();
  return r != nullptr ? r : "unknown";
}

}  // namespace

bool stb_size(std::span<const std::byte> file, int32_t* height, int32_t* width, std::string* problem) {
  int channels = 0;
  if (file.size() <= INT_MAX &&
      stbi_info_from_memory(bytes_of(file), static_cast<int>(file.size()), width, height, &channels) == 1)
    return true;
  *problem = file.size() > INT_MAX ? "file too large" : reason();
  return false;
}

bool stb_decode(std::span<const std::byte> file, int32_t height, int32_t width, int32_t channels, std::span<uint8_t> out,
                std::string* problem) {
  int w = 0, h = 0, stored = 0;
  const std::unique_ptr<stbi_uc, decltype(&std::free)> pixels(
      stbi_load_from_memory(bytes_of(file), static_cast<int>(file.size()), &w, &h, &stored, channels), &std::free);
  if (pixels == nullptr) {
    *problem = reason();
    return false;
  }
  if (w != width || h != height) {
    *problem = "its size is not the one that its header says";
    return false;
  }
  std::memcpy(out.data(), pixels.get(), out.size());
  return true;
}

}  // namespace lathe
