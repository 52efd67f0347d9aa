// Sound files that tests write: 16-bit PCM in a WAV container.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "damage.h"

namespace lathe::test {

// `samples` are interleaved.
inline Bytes wav_bytes(uint32_t rate, uint16_t channels, const std::vector<int16_t>& samples) {
  Bytes out;
  const auto text = [&](const char* four) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(four[i]));
  };
  const auto number = [&](uint32_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<std::byte>(v >> (8 * i)));
  };
  const auto data = static_cast<uint32_t>(samples.size() * 2);
  text("RIFF");
  number(36 + data, 4);
  text("WAVE");
  text("fmt ");
  number(16, 4);
  number(1, 2);  // PCM
  number(channels, 2);
  number(rate, 4);
  number(rate * channels * 2, 4);
  number(channels * 2u, 2);
  number(16, 2);
  text("data");
  number(data, 4);
  for (const int16_t s : samples) number(static_cast<uint16_t>(s), 2);
  return out;
}

}  // namespace lathe::test
