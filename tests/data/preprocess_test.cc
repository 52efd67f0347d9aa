#include "data/preprocess.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "damage.h"

namespace lathe {
namespace {

using test::Bytes;
using test::contains;

template <class T>
std::vector<T> apply(const Preprocessing& p, const RawSample& raw, const Bytes& bytes) {
  auto bound = Preprocessor::make(p, raw);
  REQUIRE_MESSAGE(bound, (bound ? "" : bound.error().message));
  std::vector<T> out(bound->bytes() / sizeof(T));
  const auto done = bound->apply(bytes.data(), out.data());
  REQUIRE_MESSAGE(done, (done ? "" : done.error().message));
  return out;
}

std::string error_of(const Preprocessing& p, const RawSample& raw) {
  const auto bound = Preprocessor::make(p, raw);
  return bound ? "" : bound.error().message;
}

Bytes u8(std::vector<uint8_t> v) { return test::bytes_of_values(v); }

TEST_CASE("bytes become (v / 255 - mean) / std per channel, rounded once") {
  Preprocessing p;
  p.scale = 1.0 / 255;
  p.mean = {0.485, 0.456};
  p.std = {0.229, 0.224};
  const auto out = apply<float>(p, {DType::kU8, RawAxes::kChw, {2, 1, 2}}, u8({0, 255, 128, 7}));
  CHECK(out[0] == static_cast<float>(-0.485 / 0.229));
  CHECK(out[1] == static_cast<float>((1.0 - 0.485) / 0.229));
  CHECK(out[2] == static_cast<float>((128 * (1.0 / 255) - 0.456) / 0.224));
  CHECK(out[3] == static_cast<float>((7 * (1.0 / 255) - 0.456) / 0.224));
}

TEST_CASE("the zero_point is taken off before the scale") {
  Preprocessing p;
  p.scale = 0.5847029;
  p.zero_point = 83;
  const auto out = apply<float>(p, {DType::kS8, RawAxes::kPlain, {3}}, u8({83, 0x80, 127}));
  CHECK(out[0] == 0);
  CHECK(out[1] == static_cast<float>((-128 - 83) * 0.5847029));
  CHECK(out[2] == static_cast<float>((127 - 83) * 0.5847029));
}

TEST_CASE("layouts move channels and pixels and mean and std go with the network's channel") {
  // 2 x 2 pixels of RGB: pixel i has 10 i, 10 i + 1, 10 i + 2.
  const Bytes hwc = u8({0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32});
  const RawSample raw{DType::kU8, RawAxes::kHwc, {2, 2, 3}};
  Preprocessing p;
  p.layout = SampleLayout::kNchw;
  CHECK(apply<float>(p, raw, hwc) == std::vector<float>{0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32});
  CHECK(Preprocessor::make(p, raw)->dims() == std::vector<int64_t>{3, 2, 2});
  p.layout = SampleLayout::kNhwc;
  CHECK(apply<float>(p, raw, hwc) == std::vector<float>{0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32});
  p.color = ColorOrder::kBgr;
  p.mean = {2, 0, 0};
  CHECK(apply<float>(p, raw, hwc) == std::vector<float>{0, 1, 0, 10, 11, 10, 20, 21, 20, 30, 31, 30});
  const Bytes chw = u8({0, 10, 1, 11, 2, 12});
  p.layout = SampleLayout::kNchw;
  CHECK(apply<float>(p, {DType::kU8, RawAxes::kChw, {3, 1, 2}}, chw) == std::vector<float>{0, 10, 1, 11, 0, 10});
  p = {};
  p.layout = SampleLayout::kNhwc;
  CHECK(apply<float>(p, {DType::kU8, RawAxes::kChw, {3, 1, 2}}, chw) == std::vector<float>{0, 1, 2, 10, 11, 12});
  CHECK(Preprocessor::make(p, {DType::kU8, RawAxes::kHw, {5, 4}})->dims() == std::vector<int64_t>{5, 4, 1});
}

TEST_CASE("integer inputs round half to even and refuse what does not fit") {
  Preprocessing p;
  p.dtype = DType::kS8;
  p.scale = 0.5;
  CHECK(apply<int8_t>(p, {DType::kU8, RawAxes::kPlain, {4}}, u8({1, 3, 5, 254})) == std::vector<int8_t>{0, 2, 2, 127});
  const auto bound = Preprocessor::make(p, {DType::kU8, RawAxes::kPlain, {1}});
  int8_t out = 0;
  CHECK(bound->apply(u8({255}).data(), &out).error().message == "value 128 does not fit dtype s8");
  p.dtype = DType::kS64;
  p.scale = 1;
  const std::vector<float> huge = {9.3e18f}, nan = {NAN};
  const auto wide = Preprocessor::make(p, {DType::kF32, RawAxes::kPlain, {1}});
  int64_t big = 0;
  CHECK_FALSE(wide->apply(test::bytes_of_values(huge).data(), &big));
  CHECK_FALSE(wide->apply(test::bytes_of_values(nan).data(), &big));
}

TEST_CASE("an identity of one dtype passes the bytes on, whatever the dtype") {
  Preprocessing p;
  p.dtype = DType::kS64;
  const std::vector<int64_t> tokens = {INT64_MAX, INT64_MIN, 9007199254740993};
  CHECK(apply<int64_t>(p, {DType::kS64, RawAxes::kPlain, {3}}, test::bytes_of_values(tokens)) == tokens);
}

TEST_CASE("a shape of its own must keep the number of elements") {
  Preprocessing p;
  p.shape = {1, 49, 10};
  CHECK(Preprocessor::make(p, {DType::kS8, RawAxes::kPlain, {490}})->dims() == p.shape);
  CHECK(contains(error_of(p, {DType::kS8, RawAxes::kPlain, {491}}), "shape 1x49x10 has another number of elements"));
}

TEST_CASE("preprocessing that does not fit its samples says what is wrong") {
  Preprocessing p;
  p.mean = {1, 2};
  CHECK(error_of(p, {DType::kU8, RawAxes::kChw, {3, 1, 1}}) == "preprocessing has 2 means and 0 stds, samples have 3 channels");
  p = {};
  p.std = {0};
  CHECK(error_of(p, {DType::kU8, RawAxes::kPlain, {1}}) == "preprocessing has a std of 0");
  p = {};
  p.layout = SampleLayout::kNchw;
  CHECK(contains(error_of(p, {DType::kU8, RawAxes::kPlain, {4}}), "layout nchw needs samples with axes"));
  p = {};
  CHECK(contains(error_of(p, {DType::kU8, RawAxes::kChw, {4}}), "do not have the axes of a picture"));
  CHECK(contains(error_of(p, {DType::kU8, RawAxes::kPlain, {0}}), "are empty"));
  CHECK(contains(error_of(p, {DType::kU8, RawAxes::kPlain, {1 << 30, 1 << 30, 1 << 30}}), "too large"));
  p.color = ColorOrder::kBgr;
  CHECK(contains(error_of(p, {DType::kU8, RawAxes::kHw, {4, 4}}), "color bgr does not fit samples of 1 channels"));
}

TEST_CASE("the canonical text reads back to the same preprocessing") {
  Preprocessing p;
  p.scale = 1.0 / 255;
  p.zero_point = -3.25;
  p.mean = {0.485, 0.456, 0.406};
  p.std = {0.229, 0.224, 0.225};
  p.layout = SampleLayout::kNhwc;
  p.color = ColorOrder::kBgr;
  p.dtype = DType::kS8;
  p.height = 224;
  p.width = 192;
  p.shape = {224, 192, 3};
  CHECK(to_text(p) ==
        "scale=0.00392156862745098 zero_point=-3.25 mean=0.485,0.456,0.406 std=0.229,0.224,0.225 layout=nhwc color=bgr dtype=s8 "
        "resize=224x192 shape=224x192x3");
  CHECK(parse_preprocessing(to_text(p)).value() == p);
  CHECK(parse_preprocessing(to_text(Preprocessing{})).value() == Preprocessing{});
  for (const char* bad :
       {"scale", "scale=", "scale=x", "layout=chw", "dtype=f33", "resize=3", "resize=0x4", "colour=rgb", "mean=1,,2", "mean=1;2"})
    CHECK_FALSE(parse_preprocessing(bad));
  const std::vector<NamedPreprocessing> two = {{"a: b", p}, {"c", {}}};
  const auto back = parse_preprocessings(to_text(two)).value();
  REQUIRE(back.size() == 2);
  CHECK(back[0].name == "a: b");
  CHECK(back[0].preprocessing == p);
}

TEST_CASE("a model made with other preprocessing is refused with both texts") {
  Preprocessing a, b;
  b.scale = 2;
  const std::vector<NamedPreprocessing> data = {{"x", a}};
  CHECK(check_preprocessing(to_text(data), data));
  CHECK(check_preprocessing("", data));
  // The name of an only input does not matter.
  CHECK(check_preprocessing(to_text(std::vector<NamedPreprocessing>{{"", a}}), data));
  const auto differs = check_preprocessing(to_text(std::vector<NamedPreprocessing>{{"x", b}}), data);
  REQUIRE_FALSE(differs);
  CHECK(contains(differs.error().message, "the model was made with 'scale=2 "));
  CHECK(contains(differs.error().message, "the data set gives 'scale=1 "));
  CHECK(preprocessing_hash(data) != preprocessing_hash({{"x", b}}));
}

TEST_CASE("flipped preprocessing text is refused or read, never worse") {
  Preprocessing p;
  p.mean = {0.5, 0.25};
  p.shape = {1, 2, 3};
  test::flip_bits(test::bytes_of(to_text(p)), 20240719, 5000, [](const Bytes& bad) {
    const auto back = parse_preprocessings({reinterpret_cast<const char*>(bad.data()), bad.size()});
    if (!back) CHECK(back.error().code == Code::kCorrupt);
  });
}

}  // namespace
}  // namespace lathe
