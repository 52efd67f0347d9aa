// What happens between a stored sample and a network's input. One definition for training, calibration, evaluation and serving.
//
//   value = ((raw - zero_point) * scale - mean[c]) / std[c]
//
// (of sound, `raw` is a sample or a feature, data/sound_features.h) computed in double and rounded once to the input's dtype (to an integer: half to even; out of range is an error). The text form
// is stored in the model; using a model with data of another form is an error. A Preprocessor is immutable and shared between
// threads.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "data/sound_features.h"
#include "lathe/dtype.h"

namespace lathe {

// How the network wants a picture's axes. kAsIs: as stored.
enum class SampleLayout : uint8_t { kAsIs, kNchw, kNhwc };
// Channels in the network's order. Stored pictures are RGB or gray; only decoding an image file can turn one into the other.
enum class ColorOrder : uint8_t { kRgb, kBgr, kGray };
// Their names in TOML and text, in the order of the enumerators.
inline constexpr std::array<const char*, 3> kSampleLayoutNames = {"as-is", "nchw", "nhwc"};
inline constexpr std::array<const char*, 3> kColorOrderNames = {"rgb", "bgr", "gray"};

struct Preprocessing {
  double scale = 1;
  double zero_point = 0;
  std::vector<double> mean, std;  // none, one for all, or one per channel in the network's order; std is never 0
  SampleLayout layout = SampleLayout::kAsIs;
  ColorOrder color = ColorOrder::kRgb;
  DType dtype = DType::kF32;  // of the network's input
  // Images only; 0: as they are. Bilinear between the four nearest pixels, pixel centres at half-integers, no antialiasing, edges
  // repeated, the whole picture (aspect ratio is not kept), rounded to bytes: what OpenCV calls INTER_LINEAR.
  int32_t height = 0, width = 0;
  SoundForm sound;             // of sound; its features are pictures of one channel, frames high, to all that comes after them
  std::vector<int64_t> shape;  // per sample, without batch; empty: what the layout gives

  bool operator==(const Preprocessing&) const = default;
};

// Canonical: one line of key=value pairs in a fixed order, numbers as the shortest text that reads back to the same double.
std::string to_text(const Preprocessing& p);
Result<Preprocessing> parse_preprocessing(std::string_view text);

// All inputs of a data set or model: one "name: text" line each (no name where there is only one).
struct NamedPreprocessing {
  std::string name;
  Preprocessing preprocessing;
};
std::string to_text(const std::vector<NamedPreprocessing>& inputs);
Result<std::vector<NamedPreprocessing>> parse_preprocessings(std::string_view text);
Hash128 preprocessing_hash(const std::vector<NamedPreprocessing>& inputs);

// Keys of a graph's metadata under which tools store the two.
inline constexpr const char* kPreprocessingKey = "preprocessing";
inline constexpr const char* kPreprocessingHashKey = "preprocessing_hash";
// Fails with the first difference if the model's stored text is not that of the data. `stored` empty: the model says nothing,
// which is accepted.
Result<void> check_preprocessing(std::string_view stored, const std::vector<NamedPreprocessing>& data);

// Axes of a stored sample. kPlain has no channels; kWave is sound, f32: [time] or [channel, time].
enum class RawAxes : uint8_t { kPlain, kHw, kChw, kHwc, kWave };

struct RawSample {
  DType dtype = DType::kU8;
  RawAxes axes = RawAxes::kPlain;
  std::vector<int64_t> dims;
};

// A stored picture. nullopt: the sample has other axes than kHw, kChw and kHwc, or another rank than they say.
struct PictureForm {
  int64_t channels = 1, height = 0, width = 0;
  bool planar = false;  // kChw
};
std::optional<PictureForm> picture_form(const RawSample& raw);

// A Preprocessing bound to the form of the stored samples.
class Preprocessor {
 public:
  // Errors: a number of means that is not that of channels, a layout for samples without axes, a shape of other size, a std of 0.
  static Result<Preprocessor> make(const Preprocessing& p, const RawSample& raw);

  // Of what the network gets, without batch.
  const std::vector<int64_t>& dims() const { return dims_; }
  DType dtype() const { return preprocessing_.dtype; }
  uint64_t elems() const { return elems_; }
  uint64_t bytes() const { return elems_ * dtype_bytes(dtype()); }

  // One sample. Requires: raw has the form given to make() (any alignment), out has bytes() and the dtype's alignment.
  Result<void> apply(const std::byte* raw, void* out) const;

 private:
  Result<void> bind_axes(const RawSample& raw);
  double value(double raw, uint64_t channel) const;
  template <class Store>
  void for_each(const Store& store) const;
  template <class T>
  Result<void> apply_to_int(const std::byte* raw, T* out) const;
  void apply_to_f32(const std::byte* raw, float* out) const;

  Result<void> apply_values(const std::byte* raw, void* out) const;

  Preprocessing preprocessing_;
  RawSample raw_;
  std::shared_ptr<const FeatureExtractor> features_;  // null: `raw` is what is stored
  std::vector<int64_t> dims_;
  uint64_t elems_ = 0;
  // Strides in elements of channel and pixel, in the stored and the network's order.
  uint64_t channels_ = 1, pixels_ = 1;
  uint64_t raw_channel_ = 0, raw_pixel_ = 1, out_channel_ = 0, out_pixel_ = 1;
  bool reverse_ = false;      // RGB is stored, the network wants BGR
  bool copy_ = false;         // the bytes are passed on unchanged
  std::vector<float> table_;  // float of each of 256 bytes, per channel; for 8-bit samples
};

}  // namespace lathe
