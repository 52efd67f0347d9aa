#include "data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "data/fields.h"
#include "data/tensor.h"

namespace lathe {
namespace {

constexpr uint64_t kDrawStream = 1;  // data/batches.cc has streams 2 and 3

// A number in (0, most].
bool positive(std::string_view text, double most, double* out) { return parse_number(text, out) && *out > 0 && *out <= most; }

template <class T>
bool whole(std::string_view text, T most, T* out) {
  return parse_number(text, out) && *out >= 1 && *out <= most;
}

struct Field {
  const char* key;
  const char* range;  // for messages
  bool (*set)(std::string_view value, Augment*);
};

constexpr std::array<Field, 8> kFields = {{
    {"crop", "pixels from 1 to 4096", [](std::string_view v, Augment* a) { return whole(v, 4096u, &a->crop_pad); }},
    {"pad", "reflect or zero",
     [](std::string_view v, Augment* a) {
       a->reflect = v == "reflect";
       return a->reflect || v == "zero";
     }},
    {"flip", "without a value",
     [](std::string_view v, Augment* a) {
       a->flip = true;
       return v.empty();
     }},
    {"shift", "a part of the length, above 0, at most 1",
     [](std::string_view v, Augment* a) { return positive(v, 1, &a->shift); }},
    {"gain", "decibels above 0, at most 60", [](std::string_view v, Augment* a) { return positive(v, 60, &a->gain_db); }},
    {"noise", "a part of full scale, above 0, at most 1",
     [](std::string_view v, Augment* a) { return positive(v, 1, &a->noise); }},
    {"mixup", "alpha above 0, at most 100", [](std::string_view v, Augment* a) { return positive(v, 100, &a->mixup); }},
    {"variants", "a number from 1 to 100000", [](std::string_view v, Augment* a) { return whole(v, 100000u, &a->variants); }},
}};

std::string known_keys() {
  std::string out;
  for (const Field& f : kFields) out += (out.empty() ? "" : ", ") + std::string(f.key);
  return out;
}

struct Place {
  int64_t height, width;
};

// One plane of `place.height` rows of pixels; the cut is `down` and `right` of the picture's own place.
void change_plane(const Augment& a, const AugmentDraw& d, Place place, size_t pixel, const std::byte* in, std::byte* out) {
  const auto mirrored = [](int64_t at, int64_t n) { return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at; };
  const size_t row_bytes = static_cast<size_t>(place.width) * pixel;
  const int64_t first = std::max<int64_t>(0, -d.right), end = std::min(place.width, place.width - d.right);
  for (int64_t y = 0; y < place.height; ++y, out += row_bytes) {
    const int64_t from = a.reflect ? mirrored(y + d.down, place.height) : y + d.down;
    if (from < 0 || from >= place.height) {
      std::memset(out, 0, row_bytes);
      continue;
    }
    const std::byte* row = in + static_cast<size_t>(from) * row_bytes;
    const auto border = [&](int64_t x) {
      std::byte* to = out + static_cast<size_t>(x) * pixel;
      if (a.reflect)
        std::memcpy(to, row + static_cast<size_t>(mirrored(x + d.right, place.width)) * pixel, pixel);
      else
        std::memset(to, 0, pixel);
    };
    for (int64_t x = 0; x < first; ++x) border(x);
    std::memcpy(out + static_cast<size_t>(first) * pixel, row + static_cast<size_t>(first + d.right) * pixel,
                static_cast<size_t>(end - first) * pixel);
    for (int64_t x = end; x < place.width; ++x) border(x);
    if (!d.flip) continue;
    if (pixel == 1) {
      std::reverse(out, out + row_bytes);
      continue;
    }
    for (std::byte *left = out, *right = out + row_bytes - pixel; left < right; left += pixel, right -= pixel)
      std::swap_ranges(left, left + pixel, right);
  }
}

void change_picture(const Augment& a, const AugmentDraw& d, const RawSample& form, const std::byte* in, std::byte* out) {
  const PictureForm picture = *picture_form(form);
  const size_t one = dtype_bytes(form.dtype);
  const size_t pixel = picture.planar ? one : one * static_cast<size_t>(picture.channels);
  const size_t plane = pixel * static_cast<size_t>(picture.height * picture.width);
  for (int64_t c = 0; c < (picture.planar ? picture.channels : 1); ++c) {
    const size_t at = static_cast<size_t>(c) * plane;
    change_plane(a, d, {picture.height, picture.width}, pixel, in + at, out + at);
  }
}

// Stored sound is f32, its last axis is time.
void change_sound(const AugmentDraw& d, const RawSample& form, const std::byte* in, std::byte* out) {
  const int64_t n = form.dims.back();
  const int64_t later = std::llround(d.shift * static_cast<double>(n));
  Random values = d.noise_values;
  uint64_t bytes = 0;
  (void)checked_tensor_bytes(form.dtype, form.dims, &bytes);
  const auto channels = static_cast<int64_t>(bytes / sizeof(float)) / n;
  const auto* from = reinterpret_cast<const float*>(in);
  auto* to = reinterpret_cast<float*>(out);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t t = 0; t < n; ++t) {
      const int64_t at = t - later;
      double v = at >= 0 && at < n ? static_cast<double>(from[c * n + at]) * d.factor : 0;
      if (d.noise != 0) v += d.noise * values.normal();
      to[c * n + t] = static_cast<float>(v);
    }
}

}  // namespace

std::string to_text(const Augment& a) {
  std::string out;
  const auto add = [&](const std::string& field) { out += (out.empty() ? "" : ",") + field; };
  if (a.crop_pad != 0) add("crop=" + std::to_string(a.crop_pad));
  if (a.reflect) add("pad=reflect");
  if (a.flip) add("flip");
  if (a.shift != 0) add("shift=" + number_text(a.shift));
  if (a.gain_db != 0) add("gain=" + number_text(a.gain_db));
  if (a.noise != 0) add("noise=" + number_text(a.noise));
  if (a.mixup != 0) add("mixup=" + number_text(a.mixup));
  if (a.variants != 0) add("variants=" + std::to_string(a.variants));
  return out.empty() ? "none" : out;
}

Result<Augment> parse_augment(std::string_view text) {
  Augment out;
  if (text == "none") return out;
  std::array<bool, kFields.size()> seen{};
  const auto bad = [](std::string_view field, const std::string& what) {
    return fail(Code::kInvalidArgument, "augmentation '" + std::string(field) + "': " + what);
  };
  for (const std::string_view field : split_text(text, ',')) {
    const size_t equals = field.find('=');
    const std::string_view key = field.substr(0, equals);
    const auto it = std::find_if(kFields.begin(), kFields.end(), [&](const Field& f) { return key == f.key; });
    if (it == kFields.end()) return bad(field, "not known (known: " + known_keys() + ")");
    if (std::exchange(seen[static_cast<size_t>(it - kFields.begin())], true)) return bad(field, "is there twice");
    if (!it->set(equals == std::string_view::npos ? std::string_view() : field.substr(equals + 1), &out))
      return bad(field, std::string("'") + it->key + "' is given as " + it->range);
  }
  if (out.reflect && out.crop_pad == 0) return bad("pad=reflect", "needs crop=");
  return out;
}

bool applies_to(const Augment& a, const RawSample& form) {
  return (a.changes_pictures() && picture_form(form)) || (a.changes_sound() && form.axes == RawAxes::kWave);
}

Result<void> check_augment(const Augment& a, std::span<const RawSample> forms, std::span<const DType> dtypes) {
  bool pictures = false, sound = false;
  for (const RawSample& form : forms) {
    if (form.axes == RawAxes::kWave) sound = true;
    const auto picture = picture_form(form);
    if (!picture) continue;
    pictures = true;
    const int64_t least = std::min(picture->height, picture->width);
    if (static_cast<int64_t>(a.crop_pad) >= least)
      return fail(Code::kInvalidArgument, "augmentation: a border of " + std::to_string(a.crop_pad) +
                                              " pixels is too wide for pictures of " + std::to_string(picture->width) + "x" +
                                              std::to_string(picture->height));
  }
  const std::string of = forms.empty() ? "" : ", these of shape " + dims_text(forms[0].dims) + " have none";
  if (a.changes_pictures() && !pictures)
    return fail(Code::kInvalidArgument,
                "augmentation: crop and flip need samples with the axes of a picture (hw, chw or hwc)" + of);
  if (a.changes_sound() && !sound)
    return fail(Code::kInvalidArgument, "augmentation: shift, gain and noise need samples with the axis of a sound (wave)" + of);
  for (const DType dtype : dtypes)
    if (a.mixup != 0 && dtype != DType::kF32)
      return fail(Code::kInvalidArgument,
                  std::string("augmentation: mixup needs inputs of f32, this one is ") + dtype_name(dtype));
  return {};
}

AugmentDraw draw_augment(const Augment& a, uint64_t seed, uint64_t variant, uint64_t sample) {
  Random random(seed, {kDrawStream, variant, sample});
  const auto within = [&](double most) { return most * (2 * random.uniform() - 1); };
  AugmentDraw d;
  if (a.crop_pad != 0) {
    const uint64_t places = 2 * uint64_t{a.crop_pad} + 1;
    d.down = static_cast<int32_t>(random.below(places)) - static_cast<int32_t>(a.crop_pad);
    d.right = static_cast<int32_t>(random.below(places)) - static_cast<int32_t>(a.crop_pad);
  }
  if (a.flip) d.flip = random.below(2) == 1;
  if (a.shift != 0) d.shift = within(a.shift);
  if (a.gain_db != 0) d.factor = std::pow(10, within(a.gain_db) / 20);
  if (a.noise != 0) d.noise = a.noise * random.uniform();
  if (a.mixup != 0) d.mix = static_cast<float>(random.beta(a.mixup, a.mixup));
  d.noise_values = Random(random.next());
  return d;
}

void change_sample(const Augment& a, const AugmentDraw& d, const RawSample& form, const std::byte* stored, std::byte* changed) {
  if (form.axes == RawAxes::kWave)
    change_sound(d, form, stored, changed);
  else
    change_picture(a, d, form, stored, changed);
}

}  // namespace lathe
