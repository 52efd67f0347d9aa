#include "data/sound_samples.h"

#include <cstring>

#include "base/file.h"
#include "data/sound.h"

namespace lathe {
namespace {

constexpr uint64_t kMaxSoundFileBytes = uint64_t{1} << 30;

class SoundSamples : public Samples {
 public:
  SoundSamples(std::vector<std::string> files, const SoundForm& form) : files_(std::move(files)), sound_(form) {}

  Result<void> find_size() {
    if (files_.empty()) return {};
    LATHE_TRY(const Sound first, read_sound(files_[0], sound_));
    channels_ = first.channels;
    length_ = first.length;
    form_ = {DType::kF32, RawAxes::kWave, {length_}};
    if (channels_ > 1) form_.dims.insert(form_.dims.begin(), channels_);
    return {};
  }

  uint64_t count() const override { return files_.size(); }

  Result<const std::byte*> raw(uint64_t i, std::vector<std::byte>* scratch) const override {
    LATHE_TRY(const Sound sound, read_sound(files_[i], sound_));
    if (sound.channels != channels_)
      return fail(Code::kInvalidArgument, "sound of " + std::to_string(sound.channels) + " channels, the first one has " +
                                              std::to_string(channels_) + " (give mono = true)");
    if (sound.length != length_)
      return fail(Code::kInvalidArgument, "sound of " + std::to_string(sound.length) + " samples, the first one has " +
                                              std::to_string(length_) + " (give seconds = ...)");
    const auto bytes = std::as_bytes(std::span(sound.samples));
    scratch->assign(bytes.begin(), bytes.end());
    return scratch->data();
  }

  // Of the file: the same sound in two formats counts as two.
  Result<Hash128> hash(uint64_t i) const override {
    LATHE_TRY(const auto bytes, read_file(files_[i], kMaxSoundFileBytes));
    return hash128(bytes);
  }

  std::string where(uint64_t i) const override { return "file '" + files_[i] + "'"; }

 private:
  std::vector<std::string> files_;
  SoundForm sound_;
  int64_t channels_ = 1, length_ = 1;
};

}  // namespace

Result<std::shared_ptr<const Samples>> make_sound_samples(std::vector<std::string> files, const Preprocessing& p) {
  auto samples = std::make_shared<SoundSamples>(std::move(files), p.sound);
  LATHE_CHECK_OK(samples->find_size());
  return samples;
}

}  // namespace lathe
