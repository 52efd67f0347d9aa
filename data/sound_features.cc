#include "data/sound_features.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#ifdef LATHE_AUDIO
#include <kiss_fftr.h>
#endif

#include "data/fields.h"

namespace lathe {
namespace {

constexpr int32_t kMaxRate = 1 << 20, kMaxFft = 1 << 16, kMaxMels = 1024;

tl::unexpected<Error> bad(const std::string& what) { return fail(Code::kInvalidArgument, "sound features: " + what); }

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// What does not depend on the length of a sound.
Result<void> check(const SoundForm& f) {
  if (f.rate < 1 || f.rate > kMaxRate) return bad("rate " + std::to_string(f.rate) + " is not from 1 to " + std::to_string(kMaxRate));
  if (!(f.window > 0 && f.window <= 10) || !(f.hop > 0 && f.hop <= 10))
    return bad("window " + number_text(f.window) + " and hop " + number_text(f.hop) + " must be above 0 and at most 10 seconds");
  if (f.fft < 2 || f.fft > kMaxFft || f.fft % 2 != 0)
    return bad("fft " + std::to_string(f.fft) + " is no even number from 2 to " + std::to_string(kMaxFft));
  if (f.mels < 1 || f.mels > kMaxMels) return bad("mels " + std::to_string(f.mels) + " is not from 1 to " + std::to_string(kMaxMels));
  if (!(f.low >= 0 && f.low < f.high) || !(f.high <= f.rate / 2.0))
    return bad("low " + number_text(f.low) + " and high " + number_text(f.high) + " are not in order between 0 and " +
               number_text(f.rate / 2.0) + " Hz");
  if (!(f.floor > 0 && f.floor <= 1e6)) return bad("floor " + number_text(f.floor) + " is not above 0");
  if (f.features == SoundFeatures::kMfcc && (f.coefficients < 1 || f.coefficients > f.mels))
    return bad("coefficients " + std::to_string(f.coefficients) + " are not from 1 to mels, " + std::to_string(f.mels));
  return {};
}

}  // namespace

std::string to_text(const SoundForm& f) {
  if (f.rate == 0) return "";
  std::string out = " rate=" + std::to_string(f.rate);
  if (f.seconds != 0) out += " seconds=" + number_text(f.seconds);
  if (f.mono) out += " mono=1";
  if (f.features == SoundFeatures::kSamples) return out;
  out += std::string(" features=") + kSoundFeatureNames[static_cast<size_t>(f.features)];
  out += " window=" + number_text(f.window) + " hop=" + number_text(f.hop) + " fft=" + std::to_string(f.fft);
  out += " mels=" + std::to_string(f.mels) + " low=" + number_text(f.low) + " high=" + number_text(f.high);
  out += " floor=" + number_text(f.floor);
  if (f.features == SoundFeatures::kMfcc) out += " coefficients=" + std::to_string(f.coefficients);
  return out;
}

bool set_sound_field(std::string_view key, std::string_view value, SoundForm* f) {
  if (key == "rate") return parse_number(value, &f->rate) && f->rate >= 1;
  if (key == "seconds") return parse_number(value, &f->seconds) && f->seconds > 0;
  if (key == "mono") {
    f->mono = value == "1";
    return f->mono;
  }
  if (key == "features") return parse_name(value, kSoundFeatureNames, &f->features);
  if (key == "window") return parse_number(value, &f->window);
  if (key == "hop") return parse_number(value, &f->hop);
  if (key == "fft") return parse_number(value, &f->fft);
  if (key == "mels") return parse_number(value, &f->mels);
  if (key == "low") return parse_number(value, &f->low);
  if (key == "high") return parse_number(value, &f->high);
  if (key == "floor") return parse_number(value, &f->floor);
  if (key == "coefficients") return parse_number(value, &f->coefficients);
  return false;
}

Result<FeatureExtractor> FeatureExtractor::make(const SoundForm& f, int64_t samples) {
#ifndef LATHE_AUDIO
  return fail(Code::kUnsupported, "this build has no sound features (option audio)");
#endif
  LATHE_CHECK_OK(check(f));
  FeatureExtractor out;
  out.form_ = f;
  out.window_ = std::llround(f.window * f.rate);
  out.hop_ = std::llround(f.hop * f.rate);
  if (out.window_ < 1 || out.hop_ < 1)
    return bad("window and hop of " + number_text(f.window) + " and " + number_text(f.hop) + " seconds are less than one sample");
  if (out.window_ > f.fft)
    return bad("a window of " + std::to_string(out.window_) + " samples is longer than fft, " + std::to_string(f.fft));
  if (out.window_ > samples)
    return bad("a window of " + std::to_string(out.window_) + " samples is longer than the sound, " + std::to_string(samples));
  out.frames_ = 1 + (samples - out.window_) / out.hop_;
  for (int64_t i = 0; i < out.window_; ++i)
    out.hann_.push_back(static_cast<float>(
        0.5 - 0.5 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(out.window_))));
  const auto point = [&](int32_t i) {
    return hertz_of(mel_of(f.low) + (mel_of(f.high) - mel_of(f.low)) * i / (f.mels + 1));
  };
  for (int32_t m = 0; m < f.mels; ++m) {
    const double left = point(m), middle = point(m + 1), right = point(m + 2);
    Filter filter;
    for (int32_t k = 0; k <= f.fft / 2; ++k) {
      const double hertz = static_cast<double>(k) * f.rate / f.fft;
      const double weight = std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle));
      if (weight <= 0) continue;
      if (filter.weights.empty()) filter.first = static_cast<uint32_t>(k);
      filter.weights.push_back(static_cast<float>(weight));
    }
    if (filter.weights.empty())
      return bad("no frequency of an FFT of " + std::to_string(f.fft) + " falls into mel filter " + std::to_string(m) + " of " +
                 std::to_string(f.mels) + ": fewer mels, or a longer fft");
    out.filters_.push_back(std::move(filter));
  }
  for (int32_t c = 0; f.features == SoundFeatures::kMfcc && c < f.coefficients; ++c)
    for (int32_t m = 0; m < f.mels; ++m)
      out.cosines_.push_back(std::sqrt((c == 0 ? 1.0 : 2.0) / f.mels) * std::cos(std::numbers::pi * c * (m + 0.5) / f.mels));
  return out;
}

void FeatureExtractor::mel_energies(const float* power, double* out) const {
  for (const Filter& filter : filters_) {
    double sum = 0;
    for (size_t i = 0; i < filter.weights.size(); ++i) sum += static_cast<double>(filter.weights[i]) * power[filter.first + i];
    *out++ = std::log(std::max(sum, form_.floor));
  }
}

void FeatureExtractor::apply([[maybe_unused]] const float* samples, [[maybe_unused]] float* out) const {
#ifdef LATHE_AUDIO
  struct Free {
    void operator()(kiss_fftr_cfg plan) const { kiss_fftr_free(plan); }
  };
  // A plan holds scratch memory, so that threads cannot share one.
  const std::unique_ptr<kiss_fftr_state, Free> plan(kiss_fftr_alloc(form_.fft, 0, nullptr, nullptr));
  const auto n = static_cast<size_t>(form_.fft);
  std::vector<float> frame(n), power(n / 2 + 1);
  std::vector<kiss_fft_cpx> spectrum(n / 2 + 1);
  std::vector<double> mel(filters_.size());
  for (int64_t t = 0; t < frames_; ++t) {
    for (int64_t i = 0; i < window_; ++i) frame[static_cast<size_t>(i)] = samples[t * hop_ + i] * hann_[static_cast<size_t>(i)];
    kiss_fftr(plan.get(), frame.data(), spectrum.data());
    for (size_t k = 0; k < power.size(); ++k) power[k] = spectrum[k].r * spectrum[k].r + spectrum[k].i * spectrum[k].i;
    mel_energies(power.data(), mel.data());
    if (form_.features == SoundFeatures::kLogMel) {
      for (const double v : mel) *out++ = static_cast<float>(v);
      continue;
    }
    for (size_t c = 0; c < static_cast<size_t>(form_.coefficients); ++c) {
      double sum = 0;
      for (size_t m = 0; m < mel.size(); ++m) sum += cosines_[c * mel.size() + m] * mel[m];
      *out++ = static_cast<float>(sum);
    }
  }
#endif
}

}  // namespace lathe
