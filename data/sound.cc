#include "data/sound.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#ifdef LATHE_AUDIO
#include <sndfile.h>
#endif

namespace lathe {
namespace {

#ifdef LATHE_AUDIO
constexpr int64_t kMaxLength = int64_t{1} << 26;
constexpr int64_t kChunk = 1 << 14;  // samples per channel read at a time: a header's length is not believed
constexpr int kMaxChannels = 64;

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using File = std::unique_ptr<SNDFILE, Close>;

Result<File> open_sound(const std::string& path, SF_INFO* info) {
  *info = {};
  File file(sf_open(path.c_str(), SFM_READ, info));
  if (file == nullptr) return fail(Code::kCorrupt, "file '" + path + "': " + sf_strerror(nullptr));
  if (info->channels < 1 || info->channels > kMaxChannels || info->samplerate < 1)
    return fail(Code::kCorrupt, "file '" + path + "': " + std::to_string(info->channels) + " channels of " +
                                    std::to_string(info->samplerate) + " Hz");
  return file;
}

// Interleaved, at most `limit` samples per channel.
Result<std::vector<float>> read_interleaved(SNDFILE* file, const std::string& path, int channels, int64_t limit) {
  std::vector<float> out;
  std::vector<float> chunk(static_cast<size_t>(kChunk * channels));
  for (int64_t done = 0; done < limit;) {
    const sf_count_t n = sf_readf_float(file, chunk.data(), std::min(kChunk, limit - done));
    if (n <= 0) break;
    out.insert(out.end(), chunk.begin(), chunk.begin() + n * channels);
    done += n;
  }
  if (sf_error(file) != SF_ERR_NO_ERROR) return fail(Code::kCorrupt, "file '" + path + "': " + sf_strerror(file));
  return out;
}
#endif

#ifndef LATHE_AUDIO
tl::unexpected<Error> no_sound(const std::string& path) {
  return fail(Code::kUnsupported, "file '" + path + "': this build reads no sound (option audio)");
}
#endif

}  // namespace

Result<Sound> read_sound(const std::string& path, [[maybe_unused]] const SoundForm& form) {
#ifdef LATHE_AUDIO
  SF_INFO info;
  LATHE_TRY(const File file, open_sound(path, &info));
  if (info.samplerate != form.rate)
    return fail(Code::kInvalidArgument, "file '" + path + "' has " + std::to_string(info.samplerate) + " samples per second, rate is " +
                                            std::to_string(form.rate));
  const int64_t wanted = std::llround(form.seconds * form.rate);
  LATHE_TRY(const auto values, read_interleaved(file.get(), path, info.channels, wanted == 0 ? kMaxLength + 1 : wanted));
  const auto channels = static_cast<int64_t>(info.channels);
  const auto found = static_cast<int64_t>(values.size()) / channels;
  if (found > kMaxLength) return fail(Code::kInvalidArgument, "file '" + path + "' is too long: give seconds");
  if (wanted == 0 && found == 0) return fail(Code::kCorrupt, "file '" + path + "' is empty");
  Sound out;
  out.channels = form.mono ? 1 : channels;
  out.length = wanted == 0 ? found : wanted;
  out.samples.resize(static_cast<size_t>(out.channels * out.length));
  for (int64_t t = 0; t < found; ++t) {
    double sum = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const float v = values[static_cast<size_t>(t * channels + c)];
      sum += v;
      if (!form.mono) out.samples[static_cast<size_t>(c * out.length + t)] = v;
    }
    if (form.mono) out.samples[static_cast<size_t>(t)] = static_cast<float>(sum / static_cast<double>(channels));
  }
  return out;
#else
  return no_sound(path);
#endif
}

bool has_sound_extension(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  for (char& c : extension) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return extension == ".wav" || extension == ".flac" || extension == ".ogg";
}

Result<SoundForm> sound_form_of(const std::string& path) {
#ifdef LATHE_AUDIO
  SF_INFO info;
  LATHE_TRY(const File file, open_sound(path, &info));
  SoundForm out;
  out.rate = info.samplerate;
  out.seconds = static_cast<double>(info.frames) / info.samplerate;
  out.mono = info.channels == 1;
  return out;
#else
  return no_sound(path);
#endif
}

}  // namespace lathe
