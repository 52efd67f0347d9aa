#include "data/augment.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "damage.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;

Augment parsed(const char* text) {
  const auto a = parse_augment(text);
  REQUIRE_MESSAGE(a, (a ? "" : a.error().message));
  return *a;
}

std::string error_of(const char* text) {
  const auto a = parse_augment(text);
  return a ? "" : a.error().message;
}

std::string refusal(const char* text, const RawSample& form, DType dtype = DType::kF32) {
  const auto ok = check_augment(parsed(text), std::span(&form, 1), std::span(&dtype, 1));
  return ok ? "" : ok.error().message;
}

// Element (c, y, x) of a picture whatever its axes; `size` in bytes.
size_t place(const RawSample& form, int64_t c, int64_t y, int64_t x, size_t size) {
  const PictureForm p = *picture_form(form);
  const int64_t at = p.planar ? (c * p.height + y) * p.width + x : (y * p.width + x) * p.channels + c;
  return static_cast<size_t>(at) * size;
}

// The definition, element by element: a border, a cut, a flip.
Bytes changed_slowly(const Augment& a, const AugmentDraw& d, const RawSample& form, const Bytes& stored) {
  const PictureForm p = *picture_form(form);
  const size_t size = dtype_bytes(form.dtype);
  Bytes out(stored.size());
  for (int64_t c = 0; c < p.channels; ++c)
    for (int64_t y = 0; y < p.height; ++y)
      for (int64_t x = 0; x < p.width; ++x) {
        int64_t from_y = y + d.down, from_x = (d.flip ? p.width - 1 - x : x) + d.right;
        const auto fold = [](int64_t v, int64_t n) { return v < 0 ? -v : v >= n ? 2 * n - 2 - v : v; };
        if (a.reflect) {
          from_y = fold(from_y, p.height);
          from_x = fold(from_x, p.width);
        }
        if (from_y < 0 || from_y >= p.height || from_x < 0 || from_x >= p.width) continue;
        std::memcpy(&out[place(form, c, y, x, size)], &stored[place(form, c, from_y, from_x, size)], size);
      }
  return out;
}

TEST_CASE("an augmentation reads back from its text, whose fields have one order") {
  for (const char* text :
       {"none", "crop=4", "crop=4,pad=reflect,flip,shift=0.1,gain=6,noise=0.01,mixup=0.2,variants=8", "flip,mixup=1e-05"})
    CHECK(to_text(parsed(text)) == text);
  CHECK(to_text(parsed("mixup=0.50,flip,crop=2,pad=zero")) == "crop=2,flip,mixup=0.5");
  CHECK(parsed("none") == Augment());
  CHECK(parsed("") == Augment());
}

TEST_CASE("what an augmentation cannot be is an error that names the field") {
  CHECK(error_of("blur=2") == "augmentation 'blur=2': not known (known: crop, pad, flip, shift, gain, noise, mixup, variants)");
  CHECK(error_of("flip,flip") == "augmentation 'flip': is there twice");
  CHECK(error_of("flip=1") == "augmentation 'flip=1': 'flip' is given as without a value");
  CHECK(error_of("pad=reflect") == "augmentation 'pad=reflect': needs crop=");
  for (const char* text : {"crop", "crop=0", "crop=-1", "crop=4097", "crop=2x", "mixup=0", "mixup=nan", "mixup=1e9", "shift=1.5",
                           "gain=inf", "noise=", "variants=0", "pad=edge", "crop=2, flip"})
    CHECK_MESSAGE(!error_of(text).empty(), text);
}

TEST_CASE("a change that no input has the axes for is refused") {
  const RawSample plain{DType::kU8, RawAxes::kPlain, {784}}, gray{DType::kU8, RawAxes::kHw, {28, 20}};
  const RawSample wave{DType::kF32, RawAxes::kWave, {8000}};
  CHECK(refusal("crop=2", plain) ==
        "augmentation: crop and flip need samples with the axes of a picture (hw, chw or hwc), these of shape 784 have none");
  CHECK(contains(refusal("flip", wave), "the axes of a picture"));
  CHECK(contains(refusal("gain=3", gray), "shift, gain and noise need samples with the axis of a sound"));
  CHECK(refusal("crop=20", gray) == "augmentation: a border of 20 pixels is too wide for pictures of 20x28");
  CHECK(refusal("crop=19,flip", gray) == "");
  CHECK(refusal("mixup=1", gray, DType::kS8) == "augmentation: mixup needs inputs of f32, this one is s8");
  CHECK(refusal("mixup=1", plain) == "");
  CHECK(refusal("shift=0.1", wave) == "");
}

TEST_CASE("crops and flips are those of the definition for every order of axes") {
  const std::vector<RawSample> forms = {{DType::kU8, RawAxes::kHw, {7, 5}},
                                        {DType::kU8, RawAxes::kChw, {3, 5, 6}},
                                        {DType::kU8, RawAxes::kHwc, {6, 7, 3}},
                                        {DType::kF32, RawAxes::kHwc, {4, 5, 2}},
                                        {DType::kS16, RawAxes::kChw, {2, 4, 4}}};
  for (const char* text : {"crop=3,flip", "crop=3,pad=reflect,flip", "flip", "crop=1"})
    for (const RawSample& form : forms) {
      const Augment a = parsed(text);
      uint64_t elems = 1;
      for (const int64_t d : form.dims) elems *= static_cast<uint64_t>(d);
      Bytes stored(elems * dtype_bytes(form.dtype));
      for (size_t i = 0; i < stored.size(); ++i) stored[i] = static_cast<std::byte>(i * 7 + 1);
      REQUIRE(applies_to(a, form));
      for (uint64_t sample = 0; sample < 60; ++sample) {
        const AugmentDraw d = draw_augment(a, 1, 0, sample);
        Bytes out(stored.size(), std::byte{0xee});
        change_sample(a, d, form, stored.data(), out.data());
        CHECK_MESSAGE(out == changed_slowly(a, d, form, stored), text << ", sample " << sample);
      }
    }
}

TEST_CASE("draws depend on seed, variant and sample, and reach every place") {
  const Augment a = parsed("crop=2,flip,gain=6,shift=0.25");
  std::set<std::pair<int32_t, int32_t>> places;
  int flips = 0;
  for (uint64_t sample = 0; sample < 2000; ++sample) {
    const AugmentDraw d = draw_augment(a, 5, 3, sample), same = draw_augment(a, 5, 3, sample);
    CHECK((d.down == same.down && d.right == same.right && d.flip == same.flip && d.factor == same.factor));
    places.insert({d.down, d.right});
    flips += d.flip ? 1 : 0;
    CHECK((d.factor > 0.5 && d.factor < 2 && std::abs(d.shift) <= 0.25));
  }
  CHECK(places.size() == 25);
  CHECK(std::abs(flips - 1000) < 150);
  int equal = 0;
  for (uint64_t sample = 0; sample < 100; ++sample) {
    const double base = draw_augment(a, 5, 3, sample).factor;
    equal += draw_augment(a, 6, 3, sample).factor == base || draw_augment(a, 5, 4, sample).factor == base ? 1 : 0;
  }
  CHECK(equal == 0);
}

TEST_CASE("sound is shifted with silence behind it, made louder and given noise") {
  const RawSample form{DType::kF32, RawAxes::kWave, {2, 4}};
  const Bytes stored = test::bytes_of_values<float>({1, 2, 3, 4, -1, -2, -3, -4});
  Bytes out(stored.size());
  const auto run = [&](const Augment& a, const AugmentDraw& d) {
    change_sample(a, d, form, stored.data(), out.data());
    std::vector<float> values(8);
    std::memcpy(values.data(), out.data(), out.size());
    return values;
  };
  AugmentDraw d;
  d.shift = 0.25;
  d.factor = 2;
  CHECK(run(parsed("shift=0.5,gain=6"), d) == std::vector<float>{0, 2, 4, 6, 0, -2, -4, -6});
  d.shift = -0.5;
  d.factor = 1;
  CHECK(run(parsed("shift=0.5"), d) == std::vector<float>{3, 4, 0, 0, -3, -4, 0, 0});
  d.shift = 0;
  d.noise = 0.5;
  const auto noisy = run(parsed("noise=1"), d);
  CHECK(noisy == run(parsed("noise=1"), d));
  for (size_t i = 0; i < 8; ++i) {
    CHECK(noisy[i] != static_cast<float>(i));
    CHECK(std::abs(noisy[i] - (i < 4 ? 1.0f : -1.0f) * static_cast<float>(i % 4 + 1)) < 3);
  }
}

}  // namespace
}  // namespace lathe
