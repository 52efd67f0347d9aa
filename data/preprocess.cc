#include "data/preprocess.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "data/fields.h"
#include "data/tensor.h"

namespace lathe {
namespace {

std::string list_text(const std::vector<double>& v) {
  std::string out;
  for (const double x : v) out += (out.empty() ? "" : ",") + number_text(x);
  return out;
}

bool parse_size(std::string_view text, int32_t* height, int32_t* width) {
  std::vector<int32_t> size;
  if (!parse_list(text, 'x', &size) || size.size() != 2 || size[0] < 1 || size[1] < 1) return false;
  *height = size[0];
  *width = size[1];
  return true;
}

bool set_field(std::string_view key, std::string_view text, Preprocessing* p) {
  if (key == "scale") return parse_number(text, &p->scale);
  if (key == "zero_point") return parse_number(text, &p->zero_point);
  if (key == "mean") return parse_list(text, ',', &p->mean);
  if (key == "std") return parse_list(text, ',', &p->std);
  if (key == "layout") return parse_name(text, kSampleLayoutNames, &p->layout);
  if (key == "color") return parse_name(text, kColorOrderNames, &p->color);
  if (key == "resize") return parse_size(text, &p->height, &p->width);
  if (key == "shape") return parse_list(text, 'x', &p->shape);
  if (key == "dtype") {
    const Result<DType> dtype = parse_dtype(std::string(text));
    if (dtype) p->dtype = *dtype;
    return dtype.has_value();
  }
  return set_sound_field(key, text, &p->sound);
}

// A list of means or stds for c channels: none, one for all, or one each.
bool fits(const std::vector<double>& list, uint64_t channels) { return list.size() <= 1 || list.size() == channels; }

double entry(const std::vector<double>& list, uint64_t c, double otherwise) {
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : list[c];
}

}  // namespace

std::string to_text(const Preprocessing& p) {
  std::string out = "scale=" + number_text(p.scale) + " zero_point=" + number_text(p.zero_point);
  if (!p.mean.empty()) out += " mean=" + list_text(p.mean);
  if (!p.std.empty()) out += " std=" + list_text(p.std);
  out += std::string(" layout=") + kSampleLayoutNames[static_cast<size_t>(p.layout)];
  out += std::string(" color=") + kColorOrderNames[static_cast<size_t>(p.color)];
  out += std::string(" dtype=") + dtype_name(p.dtype);
  if (p.height != 0) out += " resize=" + std::to_string(p.height) + "x" + std::to_string(p.width);
  out += to_text(p.sound);
  if (!p.shape.empty()) out += " shape=" + dims_text(p.shape);
  return out;
}

Result<Preprocessing> parse_preprocessing(std::string_view text) {
  Preprocessing p;
  for (const std::string_view field : split_text(text, ' ')) {
    const size_t equals = field.find('=');
    const bool known = equals != std::string_view::npos && set_field(field.substr(0, equals), field.substr(equals + 1), &p);
    if (!known) return fail(Code::kCorrupt, "preprocessing: cannot read '" + std::string(field) + "'");
  }
  return p;
}

std::string to_text(const std::vector<NamedPreprocessing>& inputs) {
  std::string out;
  for (const NamedPreprocessing& input : inputs)
    out += (out.empty() ? "" : "\n") + (inputs.size() > 1 ? input.name + ": " : "") + to_text(input.preprocessing);
  return out;
}

Result<std::vector<NamedPreprocessing>> parse_preprocessings(std::string_view text) {
  std::vector<NamedPreprocessing> out;
  for (const std::string_view line : split_text(text, '\n')) {
    const size_t colon = line.rfind(": ");
    NamedPreprocessing input;
    if (colon != std::string_view::npos) input.name = std::string(line.substr(0, colon));
    LATHE_TRY(input.preprocessing, parse_preprocessing(colon == std::string_view::npos ? line : line.substr(colon + 2)));
    out.push_back(std::move(input));
  }
  return out;
}

Hash128 preprocessing_hash(const std::vector<NamedPreprocessing>& inputs) { return hash128(to_text(inputs)); }

Result<void> check_preprocessing(std::string_view stored, const std::vector<NamedPreprocessing>& data) {
  const std::string wanted = to_text(data);
  if (stored.empty() || stored == wanted) return {};
  const auto a = split_text(stored, '\n');
  const auto b = split_text(wanted, '\n');
  size_t line = 0;
  while (line < a.size() && line < b.size() && a[line] == b[line]) ++line;
  const auto show = [&](const std::vector<std::string_view>& lines) {
    return line < lines.size() ? "'" + std::string(lines[line]) + "'" : std::string("nothing");
  };
  return fail(Code::kInvalidArgument,
              "preprocessing differs: the model was made with " + show(a) + ", the data set gives " + show(b));
}

std::optional<PictureForm> picture_form(const RawSample& raw) {
  const size_t rank = raw.axes == RawAxes::kHw ? 2 : raw.axes == RawAxes::kChw || raw.axes == RawAxes::kHwc ? 3 : 0;
  if (rank == 0 || raw.dims.size() != rank) return std::nullopt;
  const bool chw = raw.axes == RawAxes::kChw;
  const size_t first = chw ? 1 : 0;  // axis of the rows
  const int64_t channels = rank == 2 ? 1 : raw.dims[chw ? 0 : 2];
  return PictureForm{channels, raw.dims[first], raw.dims[first + 1], chw};
}

Result<void> Preprocessor::bind_axes(const RawSample& raw) {
  const SampleLayout layout = preprocessing_.layout;
  dims_ = raw.dims;
  if (raw.axes == RawAxes::kPlain || raw.axes == RawAxes::kWave) {
    if (layout != SampleLayout::kAsIs)
      return fail(Code::kInvalidArgument, std::string("layout ") + kSampleLayoutNames[static_cast<size_t>(layout)] +
                                              " needs samples with axes (hw, chw or hwc), these of shape " + dims_text(raw.dims) +
                                              " have none");
    pixels_ = elems_;
    return {};
  }
  const auto picture = picture_form(raw);
  if (!picture)
    return fail(Code::kInvalidArgument, "samples of shape " + dims_text(raw.dims) + " do not have the axes of a picture");
  const auto [c, h, w, chw] = *picture;
  channels_ = static_cast<uint64_t>(c);
  pixels_ = static_cast<uint64_t>(h * w);
  if (layout == SampleLayout::kNchw) dims_ = {c, h, w};
  if (layout == SampleLayout::kNhwc) dims_ = {h, w, c};
  raw_channel_ = chw ? pixels_ : 1;
  raw_pixel_ = chw ? 1 : channels_;
  const bool out_chw = layout == SampleLayout::kNchw || (layout == SampleLayout::kAsIs && chw);
  out_channel_ = out_chw ? pixels_ : 1;
  out_pixel_ = out_chw ? 1 : channels_;
  return {};
}

Result<Preprocessor> Preprocessor::make(const Preprocessing& p, const RawSample& stored) {
  Preprocessor out;
  RawSample raw = stored;
  if (p.sound.features != SoundFeatures::kSamples) {
    if (stored.axes != RawAxes::kWave || stored.dims.size() != 1)
      return fail(Code::kInvalidArgument, std::string("features ") + kSoundFeatureNames[static_cast<size_t>(p.sound.features)] +
                                              " need sound of one channel (mono = true), these samples have shape " +
                                              dims_text(stored.dims));
    LATHE_TRY(FeatureExtractor features, FeatureExtractor::make(p.sound, stored.dims[0]));
    raw = {DType::kF32, RawAxes::kHw, {features.frames(), features.values()}};
    out.features_ = std::make_shared<const FeatureExtractor>(std::move(features));
  }
  out.preprocessing_ = p;
  out.raw_ = raw;
  uint64_t bytes = 0;
  // 2^31: what one tensor of the runtime can hold.
  if (!checked_tensor_bytes(DType::kF64, raw.dims, &bytes) || bytes > uint64_t{1} << 34)
    return fail(Code::kInvalidArgument, "samples of shape " + dims_text(raw.dims) + " are too large");
  if (bytes == 0) return fail(Code::kInvalidArgument, "samples of shape " + dims_text(raw.dims) + " are empty");
  out.elems_ = bytes / dtype_bytes(DType::kF64);
  LATHE_CHECK_OK(out.bind_axes(raw));
  if (!fits(p.mean, out.channels_) || !fits(p.std, out.channels_))
    return fail(Code::kInvalidArgument, "preprocessing has " + std::to_string(p.mean.size()) + " means and " +
                                            std::to_string(p.std.size()) + " stds, samples have " +
                                            std::to_string(out.channels_) + " channels");
  if ((p.color == ColorOrder::kBgr && out.channels_ != 3) || (p.color == ColorOrder::kGray && out.channels_ != 1))
    return fail(Code::kInvalidArgument, std::string("color ") + kColorOrderNames[static_cast<size_t>(p.color)] +
                                            " does not fit samples of " + std::to_string(out.channels_) + " channels");
  out.reverse_ = p.color == ColorOrder::kBgr;
  for (const double s : p.std)
    if (s == 0) return fail(Code::kInvalidArgument, "preprocessing has a std of 0");
  if (!p.shape.empty()) {
    uint64_t shape_bytes = 0;
    if (!checked_tensor_bytes(DType::kF64, p.shape, &shape_bytes) || shape_bytes != bytes)
      return fail(Code::kInvalidArgument,
                  "shape " + dims_text(p.shape) + " has another number of elements than samples of shape " + dims_text(raw.dims));
    out.dims_ = p.shape;
  }
  const bool same_order = out.channels_ == 1 || out.pixels_ == 1 || (out.raw_pixel_ == out.out_pixel_);
  const bool identity = p.scale == 1 && p.zero_point == 0 && p.mean.empty() && p.std.empty();
  out.copy_ = identity && same_order && !out.reverse_ && p.dtype == raw.dtype;
  if (!out.copy_ && p.dtype == DType::kF32 && dtype_bytes(raw.dtype) == 1) {
    out.table_.resize(256 * out.channels_);
    for (uint64_t c = 0; c < out.channels_; ++c)
      for (size_t i = 0; i < 256; ++i) {
        const auto byte = static_cast<std::byte>(i);
        out.table_[c * 256 + i] = static_cast<float>(out.value(element_as_double(raw.dtype, &byte, 0), c));
      }
  }
  return out;
}

double Preprocessor::value(double raw, uint64_t c) const {
  const Preprocessing& p = preprocessing_;
  return ((raw - p.zero_point) * p.scale - entry(p.mean, c, 0)) / entry(p.std, c, 1);
}

// Calls store(index in the sample, channel, index in the output) in the output's order.
template <class Store>
void Preprocessor::for_each(const Store& store) const {
  const bool channels_outside = out_pixel_ == 1;
  const uint64_t outer = channels_outside ? channels_ : pixels_;
  const uint64_t inner = channels_outside ? pixels_ : channels_;
  for (uint64_t i = 0; i < outer; ++i)
    for (uint64_t j = 0; j < inner; ++j) {
      const uint64_t c = channels_outside ? i : j;
      const uint64_t pixel = channels_outside ? j : i;
      const uint64_t from = reverse_ ? channels_ - 1 - c : c;
      store(from * raw_channel_ + pixel * raw_pixel_, c, c * out_channel_ + pixel * out_pixel_);
    }
}

void Preprocessor::apply_to_f32(const std::byte* raw, float* out) const {
  if (!table_.empty()) {
    for_each([&](uint64_t from, uint64_t c, uint64_t to) { out[to] = table_[c * 256 + static_cast<size_t>(raw[from])]; });
  } else {
    for_each([&](uint64_t from, uint64_t c, uint64_t to) {
      out[to] = static_cast<float>(value(element_as_double(raw_.dtype, raw, from), c));
    });
  }
}

template <class T>
Result<void> Preprocessor::apply_to_int(const std::byte* raw, T* out) const {
  constexpr auto kLow = static_cast<double>(std::numeric_limits<T>::min());
  // 2^63 itself is a double, INT64_MAX is not: compare with the first value that is too large.
  const double too_large = std::ldexp(1.0, std::numeric_limits<T>::digits);
  double bad = 0;
  bool ok = true;
  for_each([&](uint64_t from, uint64_t c, uint64_t to) {
    const double v = std::nearbyint(value(element_as_double(raw_.dtype, raw, from), c));
    if (v >= kLow && v < too_large) {
      out[to] = static_cast<T>(v);
    } else if (ok) {
      ok = false;
      bad = v;
    }
  });
  if (!ok) return fail(Code::kInvalidArgument, "value " + number_text(bad) + " does not fit dtype " + dtype_name(dtype()));
  return {};
}

Result<void> Preprocessor::apply(const std::byte* raw, void* out) const {
  if (features_ == nullptr) return apply_values(raw, out);
  std::vector<float> values(static_cast<size_t>(features_->frames() * features_->values()));
  features_->apply(reinterpret_cast<const float*>(raw), values.data());
  return apply_values(reinterpret_cast<const std::byte*>(values.data()), out);
}

Result<void> Preprocessor::apply_values(const std::byte* raw, void* out) const {
  if (copy_) {
    std::memcpy(out, raw, bytes());
    return {};
  }
  switch (dtype()) {
    case DType::kF32:
      apply_to_f32(raw, static_cast<float*>(out));
      return {};
    case DType::kS8:
      return apply_to_int(raw, static_cast<int8_t*>(out));
    case DType::kU8:
      return apply_to_int(raw, static_cast<uint8_t*>(out));
    case DType::kS16:
      return apply_to_int(raw, static_cast<int16_t*>(out));
    case DType::kU16:
      return apply_to_int(raw, static_cast<uint16_t*>(out));
    case DType::kS32:
      return apply_to_int(raw, static_cast<int32_t*>(out));
    case DType::kS64:
      return apply_to_int(raw, static_cast<int64_t*>(out));
    default:
      break;
  }
  return fail(Code::kUnsupported, std::string("preprocessing to dtype ") + dtype_name(dtype()) + " is not supported");
}

}  // namespace lathe
