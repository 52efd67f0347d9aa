#include "data/sound_features.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "damage.h"
#include "data/npy.h"
#include "data/preprocess.h"

namespace lathe {
namespace {

using test::contains;

struct Case {
  SoundForm form;
  int64_t window, hop;  // samples
};

// Those of tests/oracle/make_sound_features.py.
Case case_of(int i) {
  SoundForm f;
  const auto with = [&](int32_t rate, int64_t window, int64_t hop, int32_t fft, int32_t mels, double low, double high, double floor,
                        int32_t coefficients) {
    f.rate = rate;
    f.window = static_cast<double>(window) / rate;
    f.hop = static_cast<double>(hop) / rate;
    f.fft = fft;
    f.mels = mels;
    f.low = low;
    f.high = high;
    f.floor = floor;
    f.coefficients = coefficients;
    return Case{f, window, hop};
  };
  if (i == 0) return with(8000, 200, 80, 256, 40, 20, 4000, 1e-6, 13);
  if (i == 1) return with(16000, 512, 320, 512, 64, 50, 7600, 1e-10, 20);
  return with(12000, 254, 83, 300, 20, 0, 5000, 1e-3, 20);
}

SoundForm log_mel() {
  SoundForm f = case_of(0).form;
  f.features = SoundFeatures::kLogMel;
  return f;
}

std::string error_of(const SoundForm& f, int64_t samples = 8000) {
  const auto made = FeatureExtractor::make(f, samples);
  return made ? "" : made.error().message;
}

#ifdef LATHE_AUDIO
const HostTensor& array(const std::vector<NamedTensor>& arrays, const std::string& name) {
  const auto it = std::find_if(arrays.begin(), arrays.end(), [&](const NamedTensor& a) { return a.name == name; });
  REQUIRE(it != arrays.end());
  return it->tensor;
}

TEST_CASE("log-mel energies and MFCC are those of torchaudio") {
  const auto arrays = read_arrays(LATHE_SOURCE_ROOT "/tests/oracle/expected/sound_features.npz");
  REQUIRE_MESSAGE(arrays, (arrays ? "" : arrays.error().message));
  for (int i = 0; i < 3; ++i)
    for (const SoundFeatures kind : {SoundFeatures::kLogMel, SoundFeatures::kMfcc}) {
      std::vector<float> samples;
      for (const int16_t s : array(*arrays, "samples" + std::to_string(i)).as<int16_t>()) samples.push_back(static_cast<float>(s) / 32768);
      const bool mfcc = kind == SoundFeatures::kMfcc;
      const HostTensor& expected = array(*arrays, (mfcc ? "mfcc" : "log_mel") + std::to_string(i));
      Case c = case_of(i);
      c.form.features = kind;
      const auto made = FeatureExtractor::make(c.form, static_cast<int64_t>(samples.size()));
      REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
      CHECK(expected.dims == std::vector<int64_t>{made->frames(), made->values()});
      CHECK(made->frames() == 1 + (static_cast<int64_t>(samples.size()) - c.window) / c.hop);
      std::vector<float> out(expected.as<float>().size());
      made->apply(samples.data(), out.data());
      float worst = 0;
      for (size_t k = 0; k < out.size(); ++k) worst = std::max(worst, std::abs(out[k] - expected.as<float>()[k]));
      // Of values up to 5 and down to -23 (log-mel); an FFT in float32 leaves 1e-6 of the loudest frequency in the quietest.
      CHECK_MESSAGE(worst < 2e-3, "case " << i << (mfcc ? ", mfcc: " : ", log-mel: ") << worst);
    }
}

TEST_CASE("features go through layout and normalisation like a picture of one channel") {
  Preprocessing p;
  p.sound = log_mel();
  p.mean = {-2};
  p.std = {4};
  p.layout = SampleLayout::kNchw;
  const RawSample wave{DType::kF32, RawAxes::kWave, {1000}};
  const auto made = Preprocessor::make(p, wave);
  REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
  CHECK(made->dims() == std::vector<int64_t>{1, 11, 40});
  std::vector<float> samples(1000, 0.0f), out(11 * 40);
  REQUIRE(made->apply(reinterpret_cast<const std::byte*>(samples.data()), out.data()));
  for (const float v : out) CHECK(v == doctest::Approx((std::log(1e-6) + 2) / 4));
  p.layout = SampleLayout::kAsIs;
  CHECK(Preprocessor::make(p, wave)->dims() == std::vector<int64_t>{11, 40});
  p.shape = {440};
  CHECK(Preprocessor::make(p, wave)->dims() == std::vector<int64_t>{440});
  const auto stereo = Preprocessor::make(p, {DType::kF32, RawAxes::kWave, {2, 1000}});
  REQUIRE(!stereo);
  CHECK(stereo.error().message == "features log-mel need sound of one channel (mono = true), these samples have shape 2x1000");
}

TEST_CASE("features that cannot be are refused with both numbers") {
  const auto with = [](auto change) {
    SoundForm f = log_mel();
    change(f);
    return error_of(f);
  };
  CHECK(error_of(log_mel()) == "");
  CHECK(error_of(log_mel(), 199) == "sound features: a window of 200 samples is longer than the sound, 199");
  CHECK(with([](SoundForm& f) { f.fft = 128; }) == "sound features: a window of 200 samples is longer than fft, 128");
  CHECK(with([](SoundForm& f) { f.high = 4001; }) == "sound features: low 20 and high 4001 are not in order between 0 and 4000 Hz");
  CHECK(contains(with([](SoundForm& f) { f.low = 4000; }), "are not in order"));
  CHECK(with([](SoundForm& f) { f.mels = 200; }) ==
        "sound features: no frequency of an FFT of 256 falls into mel filter 2 of 200: fewer mels, or a longer fft");
  CHECK(contains(with([](SoundForm& f) { f.fft = 257; }), "fft 257 is no even number"));
  CHECK(contains(with([](SoundForm& f) { f.fft = 1 << 20; }), "fft 1048576 is no even number from 2 to 65536"));
  CHECK(contains(with([](SoundForm& f) { f.mels = 0; }), "mels 0 is not from 1"));
  CHECK(contains(with([](SoundForm& f) { f.floor = 0; }), "floor 0 is not above 0"));
  CHECK(contains(with([](SoundForm& f) { f.hop = 1e-6; }), "less than one sample"));
  CHECK(contains(with([](SoundForm& f) { f.window = std::nan(""); }), "must be above 0"));
  CHECK(contains(with([](SoundForm& f) { f.rate = 0; }), "rate 0"));
  CHECK(contains(with([](SoundForm& f) {
                   f.features = SoundFeatures::kMfcc;
                   f.coefficients = 41;
                 }),
                 "coefficients 41 are not from 1 to mels, 40"));
}
#else
TEST_CASE("without the option audio features are refused") { CHECK(contains(error_of(log_mel()), "option audio")); }
#endif

TEST_CASE("sound is part of the preprocessing's text and hash") {
  Preprocessing p;
  const std::string before = to_text(p);
  p.sound = log_mel();
  p.sound.seconds = 1;
  p.sound.mono = true;
  const std::string text = to_text(p);
  CHECK(contains(text, " rate=8000 seconds=1 mono=1 features=log-mel window=0.025 hop=0.01 fft=256 mels=40 low=20 high=4000 floor=1e-06"));
  CHECK(text.starts_with(before));
  const auto back = parse_preprocessing(text);
  REQUIRE_MESSAGE(back, (back ? "" : back.error().message));
  CHECK(*back == p);
  Preprocessing other = p;
  other.sound.hop = 0.02;
  CHECK(preprocessing_hash({{"", p}}) != preprocessing_hash({{"", other}}));
  other = p;
  other.sound.features = SoundFeatures::kMfcc;
  other.sound.coefficients = 20;
  const auto mfcc = parse_preprocessing(to_text(other));
  REQUIRE(mfcc);
  CHECK(*mfcc == other);
  for (const char* bad : {"rate=0", "rate=x", "features=chroma", "mono=yes", "seconds=-1", "window="}) CHECK(!parse_preprocessing(bad));
}

}  // namespace
}  // namespace lathe
