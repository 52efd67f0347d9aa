// Sound files to samples (libsndfile). Part of the build only with the option `audio`; else every call is kUnsupported.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "data/sound_features.h"

namespace lathe {

struct Sound {
  int64_t channels = 0, length = 0;
  std::vector<float> samples;  // [channels, length]; integers of a file become -1 ... 1
};

// A file as `form` wants it: rate, length, channels. With form.seconds == 0 it keeps its length, at most 2^26 samples per channel.
// Errors name the file: none that libsndfile reads, another rate (both are named).
Result<Sound> read_sound(const std::string& path, const SoundForm& form);

// By the extension, in any case: .wav .flac .ogg
bool has_sound_extension(const std::string& path);

// Rate of a file in Hz, and seconds. For guesses of a description.
Result<SoundForm> sound_form_of(const std::string& path);

}  // namespace lathe
