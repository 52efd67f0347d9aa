// The two calls of stb_image that data/image.cc uses; stb.cc alone includes the library and is compiled with its warnings off.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lathe {

bool stb_size(std::span<const std::byte> file, int32_t* height, int32_t* width, std::string* problem);
// Requires: out holds height * width * channels bytes. Fails if the picture has another size.
bool stb_decode(std::span<const std::byte> file, int32_t height, int32_t width, int32_t channels, std::span<uint8_t> out,
                std::string* problem);

}  // namespace lathe
