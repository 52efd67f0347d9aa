// Sound as networks get it: samples, log-mel energies or cepstral coefficients (MFCC). Part of the preprocessing and of its text.
//
// Frame t is samples t H ... t H + W - 1 (W = window, H = hop, both rounded to samples), times a periodic Hann window, padded with
// zeros to the FFT's length; there are 1 + (n - W) / H frames, none reaches past the end. P(k) = |FFT(k)|^2, k = 0 ... fft / 2.
//
// log-mel: ln(max(sum_k f_m(k) P(k), floor)), m = 0 ... mels - 1. f_m is a triangle over frequency in Hz with peak 1, its corners
// three of mels + 2 points that lie evenly on mel(f) = 2595 log10(1 + f / 700) between low and high (O'Shaughnessy 1987).
// mfcc: the first `coefficients` of the orthonormal DCT-II of a frame's log-mel energies (Davis, Mermelstein 1980).
//
// Part of the build only with the option `audio`; else making an extractor is kUnsupported. Immutable, shared between threads.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe {

enum class SoundFeatures : uint8_t { kSamples, kLogMel, kMfcc };
// Their names in TOML and text, in the order of the enumerators.
inline constexpr std::array<const char*, 3> kSoundFeatureNames = {"samples", "log-mel", "mfcc"};

struct SoundForm {
  int32_t rate = 0;    // samples per second; 0: the input is no sound
  double seconds = 0;  // longer sounds lose their end, shorter ones get silence; 0: all are as long as the first
  bool mono = false;   // several channels become their mean
  SoundFeatures features = SoundFeatures::kSamples;
  // Of log-mel and MFCC.
  double window = 0.025, hop = 0.01;  // seconds
  int32_t fft = 0;                    // samples, even, at least the window
  int32_t mels = 40;
  double low = 20, high = 0;  // Hz, at most half the rate
  double floor = 1e-6;        // of a mel energy, above 0; samples are in -1 ... 1
  int32_t coefficients = 13;  // of MFCC, at most mels

  bool operator==(const SoundForm&) const = default;
};

// Fields of the preprocessing's text: " rate=8000 seconds=1 mono=1 features=mfcc window=0.025 ..."; "" without a rate.
std::string to_text(const SoundForm& form);
// False: no such key, or no such value.
bool set_sound_field(std::string_view key, std::string_view value, SoundForm* form);

class FeatureExtractor {
 public:
  // For sounds of `samples` samples. Errors name the field and both numbers: a window longer than the sound or the FFT, a filter that
  // no frequency of the FFT falls into, values out of range.
  static Result<FeatureExtractor> make(const SoundForm& form, int64_t samples);

  int64_t frames() const { return frames_; }
  int64_t values() const { return form_.features == SoundFeatures::kMfcc ? form_.coefficients : form_.mels; }  // per frame
  // out: [frames, values].
  void apply(const float* samples, float* out) const;

 private:
  struct Filter {
    uint32_t first = 0;  // frequency of the FFT
    std::vector<float> weights;
  };
  FeatureExtractor() = default;
  void mel_energies(const float* power, double* out) const;

  SoundForm form_;
  int64_t window_ = 0, hop_ = 0, frames_ = 0;
  std::vector<float> hann_;
  std::vector<Filter> filters_;
  std::vector<double> cosines_;  // [coefficients, mels]
};

}  // namespace lathe
