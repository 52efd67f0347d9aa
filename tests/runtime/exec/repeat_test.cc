// Expand, Tile, Border, Resize, windows and Einsum against what they mean, written down once more: on every instruction set, cut
// into tasks, and refused where shapes do not fit.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/runtime/exec/op_run.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const QuantParams kGrid{0.5f, 3, -128, 127};

std::vector<double> doubles(const TestTensor& t) {
  const float* p = t.data<float>();
  return {p, p + t.elems()};
}

}  // namespace

TEST_CASE("Expand and Tile repeat what is there") {
  check_equal<float>({Op::kExpand, {f32({2, 1}, {1, 2})}, like(DType::kF32, {2, 2, 3})}, NoAttrs{},
                     {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  check_equal<int8_t>({Op::kExpand, {q8({1}, {7}, kGrid)}, like(DType::kS8, {4}, kGrid)}, NoAttrs{}, {7, 7, 7, 7});
  check_refused(OpCase{Op::kExpand, {f32({2}, {1, 2})}, like(DType::kF32, {3})}, NoAttrs{}, Code::kInvalidArgument);
  check_equal<float>({Op::kTile, {f32({2, 2}, {1, 2, 3, 4})}, like(DType::kF32, {2, 6})}, TileAttrs{{2, {1, 3}}},
                     {1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4});
  check_equal<float>({Op::kTile, {f32({2, 1}, {1, 2})}, like(DType::kF32, {4, 2})}, TileAttrs{{2, {2, 2}}},
                     {1, 1, 2, 2, 1, 1, 2, 2});
  check_refused(OpCase{Op::kTile, {f32({2}, {1, 2})}, like(DType::kF32, {3})}, TileAttrs{{1, {2}}}, Code::kInvalidArgument);
  // A large one, so that it is cut into tasks.
  const TestTensor x = random_f32({64, 1, 32}, 7);
  std::vector<float> expected;
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 40; ++j)
      for (int k = 0; k < 32; ++k) expected.push_back(x.data<float>()[i * 32 + k]);
  check_equal<float>({Op::kExpand, {x}, like(DType::kF32, {64, 40, 32})}, NoAttrs{}, expected);
}

TEST_CASE("Border mirrors, repeats and wraps, also further than the input is long") {
  const auto border = [](BorderMode mode, int before, int after, const std::vector<float>& expected) {
    check_equal<float>({Op::kBorder, {f32({3}, {1, 2, 3})}, like(DType::kF32, {static_cast<int>(expected.size())})},
                       BorderAttrs{{1, {before}}, {1, {after}}, static_cast<int32_t>(mode)}, expected);
  };
  border(BorderMode::kReflect, 2, 1, {3, 2, 1, 2, 3, 2});
  border(BorderMode::kReflect, 5, 0, {2, 1, 2, 3, 2, 1, 2, 3});
  border(BorderMode::kEdge, 2, 2, {1, 1, 1, 2, 3, 3, 3});
  border(BorderMode::kWrap, 4, 1, {3, 1, 2, 3, 1, 2, 3, 1});
  check_equal<int8_t>({Op::kBorder, {q8({2, 2}, {1, 2, 3, 4}, kGrid)}, like(DType::kS8, {3, 3}, kGrid)},
                      BorderAttrs{{2, {1, 0}}, {2, {0, 1}}, 1}, {1, 2, 2, 1, 2, 2, 3, 4, 4});
  const OpCase c{Op::kBorder, {f32({3}, {1, 2, 3})}, like(DType::kF32, {5})};
  check_refused(c, BorderAttrs{{1, {1}}, {1, {2}}, 0}, Code::kInvalidArgument);
  check_refused(c, BorderAttrs{{1, {-1}}, {1, {3}}, 0}, Code::kInvalidArgument);
  check_refused(c, BorderAttrs{{1, {1}}, {1, {1}}, 3}, Code::kInvalidArgument);
}

TEST_CASE("ResizeNearest moves elements of any type") {
  ResizeAttrs a;
  a.axis = 1;
  a.scale_up = 2;
  check_equal<int8_t>({Op::kResizeNearest, {q8({2, 2}, {1, 2, 3, 4}, kGrid)}, like(DType::kS8, {2, 4}, kGrid)}, a,
                      {1, 1, 2, 2, 3, 3, 4, 4});
  a.axis = 0;
  check_equal<int64_t>({Op::kResizeNearest, {s64({2, 2}, {1, 2, 3, 4})}, like(DType::kS64, {4, 2})}, a, {1, 2, 1, 2, 3, 4, 3, 4});
  check_refused(OpCase{Op::kResizeNearest, {f32({2}, {1, 2})}, like(DType::kF32, {5})}, a, Code::kInvalidArgument);
  a.scale_up = 1;
  a.scale_down = 2;
  a.coordinates = static_cast<int32_t>(ResizeCoordinates::kAsymmetric);
  check_equal<float>({Op::kResizeNearest, {f32({5}, {1, 2, 3, 4, 5})}, like(DType::kF32, {2})}, a, {1, 3});
}

TEST_CASE("Resize interpolates along any axis") {
  ResizeAttrs a;
  a.mode = static_cast<int32_t>(ResizeMode::kLinear);
  a.size = 5;
  a.coordinates = static_cast<int32_t>(ResizeCoordinates::kAlignCorners);
  check_close({Op::kResize, {f32({3}, {0, 4, 2})}, like(DType::kF32, {5})}, a, {0, 2, 4, 3, 2});
  a.coordinates = static_cast<int32_t>(ResizeCoordinates::kHalfPixel);
  a.axis = 0;
  check_close({Op::kResize, {f32({2, 2}, {0, 1, 10, 11})}, like(DType::kF32, {5, 2})}, a, {0, 1, 1, 2, 5, 6, 9, 10, 10, 11});
  // Halving with antialiasing is a tent of four elements, whose outer ones have a third of the weight of the inner ones.
  a.antialias = 1;
  a.size = 2;
  check_close({Op::kResize, {f32({4}, {8, 0, 0, 16})}, like(DType::kF32, {2})}, a, {4, 8});
  a.mode = static_cast<int32_t>(ResizeMode::kNearest);
  check_refused(OpCase{Op::kResize, {f32({4}, {8, 0, 0, 16})}, like(DType::kF32, {2})}, a, Code::kInvalidArgument);
  // Large, so that it is cut into tasks: doubling by linear steps.
  a = {};
  a.axis = 1;
  a.scale_up = 2;
  a.mode = static_cast<int32_t>(ResizeMode::kLinear);
  const TestTensor x = random_f32({8, 64, 64}, 3);
  std::vector<double> expected;
  for (int n = 0; n < 8; ++n)
    for (int i = 0; i < 128; ++i)
      for (int k = 0; k < 64; ++k) {
        const double at = std::min(std::max((i + 0.5) / 2 - 0.5, 0.0), 63.0);
        const int left = std::min(static_cast<int>(at), 62);
        const float* p = x.data<float>() + n * 4096 + k;
        expected.push_back(static_cast<double>(p[left * 64]) * (1 - (at - left)) + static_cast<double>(p[(left + 1) * 64]) * (at - left));
      }
  check_close({Op::kResize, {x}, like(DType::kF32, {8, 128, 64})}, a, expected);
}

TEST_CASE("crop and resize fills in what is outside") {
  ResizeAttrs a;
  a.size = 3;
  a.coordinates = static_cast<int32_t>(ResizeCoordinates::kCropAndResize);
  a.start = 0.5f;
  a.end = 1.5f;
  a.extrapolation = -7;
  check_equal<float>({Op::kResizeNearest, {f32({3}, {1, 2, 3})}, like(DType::kF32, {3})}, a, {2, 3, -7});
  a.mode = static_cast<int32_t>(ResizeMode::kLinear);
  check_close({Op::kResize, {f32({3}, {1, 2, 3})}, like(DType::kF32, {3})}, a, {2, 3, -7});
}

TEST_CASE("ArgMaxPool2d names the first of the largest") {
  ArgMaxPoolAttrs a;
  a.kernel[0] = a.kernel[1] = 2;
  a.stride[0] = a.stride[1] = 2;
  const OpCase c{Op::kArgMaxPool2d,
                 {f32({1, 2, 2, 4}, {1, 5, 5, 0, 5, 2, 3, 5, -1, -2, -3, -4, -1, -1, -9, -9})},
                 like(DType::kF32, {1, 2, 1, 2}),
                 {like(DType::kS64, {1, 2, 1, 2})}};
  const auto check = [&](int32_t column_major, const std::vector<int64_t>& places) {
    a.column_major = column_major;
    for (const OpResult& r : run_everywhere(c, a)) {
      CHECK(OpResult::as<float>(r.parts[0]) == std::vector<float>{5, 5, -1, -3});
      CHECK(OpResult::as<int64_t>(r.parts[1]) == places);
    }
  };
  check(0, {1, 2, 8, 10});
  check(1, {2, 4, 8, 12});
}

TEST_CASE("Col2Im adds up what lies on one pixel") {
  Col2ImAttrs a{{2, {3, 3}}, {2, {2, 2}}, {2, {1, 1}}, {2, {1, 1}}, {2, {0, 0}}, {2, {0, 0}}};
  check_close({Op::kCol2Im, {f32({1, 4, 4}, std::vector<float>(16, 1))}, like(DType::kF32, {1, 1, 3, 3})}, a,
              {1, 2, 1, 2, 4, 2, 1, 2, 1});
  check_refused(OpCase{Op::kCol2Im, {f32({1, 4, 3}, std::vector<float>(12, 1))}, like(DType::kF32, {1, 1, 3, 3})}, a,
                Code::kInvalidArgument);
}

TEST_CASE("RoiAlign takes no pixel of an image that is not there") {
  RoiAlignAttrs a;
  a.height = a.width = 2;
  a.sampling = 1;
  a.half_pixel = 0;
  const TestTensor x = f32({1, 1, 3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  check_close({Op::kRoiAlign, {x, f32({1, 4}, {0, 0, 2, 2}), s64({1}, {0})}, like(DType::kF32, {1, 1, 2, 2})}, a, {2, 3, 5, 6});
  const OpCase outside{Op::kRoiAlign, {x, f32({1, 4}, {0, 0, 2, 2}), s64({1}, {1})}, like(DType::kF32, {1, 1, 2, 2})};
  for (const OpResult& r : run_everywhere(outside, a))
    for (const float v : r.as<float>()) CHECK(std::isnan(v));
  // Corners from a hostile file: everything is far outside, or not a number.
  const float huge = 3e38f, nan = std::nanf("");
  a.sampling = 0;
  const OpCase hostile{Op::kRoiAlign,
                       {x, f32({2, 4}, {-huge, -huge, huge, huge, nan, nan, nan, nan}), s64({2}, {0, 0})},
                       like(DType::kF32, {2, 1, 2, 2})};
  CHECK(!run_everywhere(hostile, a).empty());
}

TEST_CASE("Einsum sums over what the result lacks") {
  const TestTensor a = random_f32({3, 4, 5}, 1), b = random_f32({5, 3}, 2);
  std::vector<double> product(12), diagonal;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 5; ++k)
        product[static_cast<size_t>(j * 3 + i)] +=
            doubles(a)[static_cast<size_t>((i * 4 + j) * 5 + k)] * doubles(b)[static_cast<size_t>(k * 3 + i)];
  check_close({Op::kEinsum, {a, b}, like(DType::kF32, {4, 3})}, EinsumAttrs{{3, {0, 1, 2}}, {2, {2, 0}}, {2, {1, 0}}}, product);
  const TestTensor square = random_f32({4, 4}, 3);
  for (size_t i = 0; i < 4; ++i) diagonal.push_back(doubles(square)[i * 5]);
  check_close({Op::kEinsum, {square}, like(DType::kF32, {4})}, EinsumAttrs{{2, {0, 0}}, {}, {1, {0}}}, diagonal);
  check_close({Op::kEinsum, {f32({1, 2}, {2, 3}), f32({3, 2}, {1, 1, 1, 1, 1, 1})}, like(DType::kF32, {3})},
              EinsumAttrs{{2, {0, 1}}, {2, {0, 1}}, {1, {0}}}, {5, 5, 5});
  check_refused(OpCase{Op::kEinsum, {random_f32({4, 3}, 1)}, like(DType::kF32, {3})}, EinsumAttrs{{2, {0, 0}}, {}, {1, {0}}},
                Code::kInvalidArgument);
  check_refused(OpCase{Op::kEinsum, {a, b}, like(DType::kF32, {4, 3})}, EinsumAttrs{{3, {0, 1, 2}}, {2, {2, 1}}, {2, {1, 0}}},
                Code::kInvalidArgument);
  check_refused(OpCase{Op::kEinsum, {square}, like(DType::kF32, {4})}, EinsumAttrs{{2, {0, 16}}, {}, {1, {0}}},
                Code::kInvalidArgument);
}
