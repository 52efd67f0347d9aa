// Small cases at the edges of operators, where code is wrong by one or takes the wrong axis: each is here because such a mistake
// went through the other tests of this folder.
#include <cmath>
#include <limits>

#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

template <class T> void append(std::vector<uint8_t>& out, const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  out.insert(out.end(), bytes, bytes + values.size() * sizeof(T));
}
// Several outputs, one behind the other.
template <class... T> std::vector<uint8_t> joined(const std::vector<T>&... values) {
  std::vector<uint8_t> out;
  (append(out, values), ...);
  return out;
}

TestTensor flags(std::vector<int> dims, const std::vector<uint8_t>& v) { return tensor_of(DType::kBool, std::move(dims), v); }

}  // namespace

TEST_CASE("a shift by the width of the type leaves nothing") {
  const auto u32 = [](const std::vector<uint32_t>& v) { return tensor_of(DType::kU32, {3}, v); };
  const TestTensor x = u32({1, 0x80000000u, 5}), n = u32({32, 31, 33});
  check_equal<uint32_t>({Op::kBitShift, {x, n}, like(DType::kU32, {3})}, BitShiftAttrs{1}, {0, 0, 0});
  check_equal<uint32_t>({Op::kBitShift, {x, n}, like(DType::kU32, {3})}, BitShiftAttrs{0}, {0, 1, 0});
  const TestTensor wide = tensor_of<uint64_t>(DType::kU64, {2}, {3, 3}), w = tensor_of<uint64_t>(DType::kU64, {2}, {64, 63});
  check_equal<uint64_t>({Op::kBitShift, {wide, w}, like(DType::kU64, {2})}, BitShiftAttrs{1}, {0, uint64_t{1} << 63});
}

TEST_CASE("functions without a kernel of their own agree with libm") {
  const struct {
    Op op;
    double (*f)(double);
    float lo, hi;
  } functions[] = {{Op::kAbs, [](double v) { return std::fabs(v); }, -4, 4},
                   {Op::kSign, [](double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : 0.0; }, -4, 4},
                   {Op::kFloor, [](double v) { return std::floor(v); }, -4, 4},
                   {Op::kCeil, [](double v) { return std::ceil(v); }, -4, 4},
                   {Op::kRound, [](double v) { return std::nearbyint(v); }, -4, 4},
                   {Op::kLog, [](double v) { return std::log(v); }, 0.01f, 9},
                   {Op::kSin, [](double v) { return std::sin(v); }, -9, 9},
                   {Op::kCos, [](double v) { return std::cos(v); }, -9, 9},
                   {Op::kTan, [](double v) { return std::tan(v); }, -1.5f, 1.5f},
                   {Op::kAsin, [](double v) { return std::asin(v); }, -1, 1},
                   {Op::kAcos, [](double v) { return std::acos(v); }, -1, 1},
                   {Op::kAtan, [](double v) { return std::atan(v); }, -9, 9},
                   {Op::kSinh, [](double v) { return std::sinh(v); }, -4, 4},
                   {Op::kCosh, [](double v) { return std::cosh(v); }, -4, 4},
                   {Op::kAsinh, [](double v) { return std::asinh(v); }, -9, 9},
                   {Op::kAcosh, [](double v) { return std::acosh(v); }, 1, 9},
                   {Op::kAtanh, [](double v) { return std::atanh(v); }, -0.99f, 0.99f},
                   {Op::kSoftplus, [](double v) { return std::log1p(std::exp(v)); }, -9, 9},
                   {Op::kMish, [](double v) { return v * std::tanh(std::log1p(std::exp(v))); }, -9, 9}};
  for (const auto& f : functions) {
    const TestTensor x = random_f32({3, 67}, 9, f.lo, f.hi);
    std::vector<double> expected(x.elems());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = f.f(static_cast<double>(x.data<float>()[i]));
    CAPTURE(op_name(f.op));
    check_close({f.op, {x}, like(DType::kF32, {3, 67})}, NoAttrs{}, expected, 1e-6);
  }
}

TEST_CASE("exponential units with all three parameters, and a hard sigmoid at both ends") {
  const EluAttrs a{0.5f, 2.0f, 3.0f};
  check_close({Op::kElu, {f32({3}, {-1, 0, 2})}, like(DType::kF32, {3})}, a, {3 * 0.5 * std::expm1(-2.0), 0, 6});
  check_close({Op::kHardSigmoid, {f32({4}, {-10, 0, 1, 10})}, like(DType::kF32, {4})}, HardSigmoidAttrs{0.25f, 0.5f},
              {0, 0.5, 0.75, 1});
}

TEST_CASE("searches and reductions along an axis that is not the last") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_equal<int64_t>({Op::kArgMax, {s64({2, 2}, {5, 1, 7, 3})}, like(DType::kS64, {2})}, ArgAttrs{0, 0, 0}, {1, 1});
  check_equal<int64_t>({Op::kArgMin, {f32({1, 4}, {0, nan, 7, nan})}, like(DType::kS64, {1})}, ArgAttrs{1, 0, 0}, {1});
  check_equal<uint8_t>({Op::kReduceMin, {flags({2, 2}, {1, 3, 1, 0})}, like(DType::kBool, {2})}, ReduceAttrs{{1, {0}}, 0},
                       {1, 0});
  check_close({Op::kDet, {f32({2, 2}, {0, 2, 3, 4})}, like(DType::kF32, {})}, NoAttrs{}, {-6});
  const TestTensor x = s32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  check_equal<int32_t>({Op::kTrilu, {x}, like(DType::kS32, {2, 2, 2})}, TriluAttrs{1, 0}, {1, 2, 0, 4, 5, 6, 0, 8});
}

TEST_CASE("sizes and elements that depend on data") {
  check_equal<int64_t>({Op::kExtents, {s64({3}, {1, 2, 3})}, like(DType::kS64, {3})}, ExtentsAttrs{}, {1, 2, 3});
  const TestTensor x = f32({2, 3}, {0, 1, 2, 3, 4, 5});
  check_equal<float>({Op::kTrim, {x}, like(DType::kF32, {2, 2})}, AxisAttrs{1}, {0, 1, 3, 4});
  check_equal<int64_t>({Op::kRange, {s64({}, {2}), s64({}, {11}), s64({}, {3})}, like(DType::kS64, {3})}, NoAttrs{}, {2, 5, 8});
  OpCase compress{Op::kCompress, {f32({3, 2}, {1, 2, 3, 4, 5, 6}), flags({3}, {3, 0, 2})}, like(DType::kF32, {3, 2})};
  compress.more_outputs = {like(DType::kS64, {1})};
  check_equal(compress, AxisAttrs{0}, joined(std::vector<float>{1, 2, 5, 6, 0, 0}, std::vector<int64_t>{2}));
  check_equal<float>({Op::kGatherNd, {x, s64({2, 1}, {2, 0})}, like(DType::kF32, {2})}, GatherNdAttrs{1}, {2, 3});
}

TEST_CASE("windows whose axes have different attributes") {
  ArgMaxPoolAttrs pool;
  pool.kernel[0] = pool.kernel[1] = pool.dilation[0] = 2;
  OpCase c{Op::kArgMaxPool2d, {f32({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})}, like(DType::kF32, {1, 1, 1, 2})};
  c.more_outputs = {like(DType::kS64, {1, 1, 1, 2})};
  check_equal(c, pool, joined(std::vector<float>{8, 9}, std::vector<int64_t>{7, 8}));
  const Ints one{2, {1, 1}}, two{2, {2, 2}}, none{2, {0, 0}};
  check_equal<float>({Op::kCol2Im, {f32({1, 4, 1}, {1, 2, 3, 4})}, like(DType::kF32, {1, 1, 3, 3})},
                     Col2ImAttrs{{2, {3, 3}}, two, one, two, none, none}, {1, 0, 2, 0, 0, 0, 3, 0, 4});
  check_equal<float>({Op::kCol2Im, {f32({1, 2, 3}, {1, 2, 3, 4, 5, 6})}, like(DType::kF32, {1, 1, 3})},
                     Col2ImAttrs{{1, {3}}, {1, {2}}, {1, {1}}, {1, {1}}, {1, {1}}, {1, {0}}}, {6, 8, 6});
  const BorderAttrs edge{{3, {0, 1, 0}}, {3, {0, 0, 0}}, static_cast<int32_t>(BorderMode::kEdge)};
  check_equal<float>({Op::kBorder, {f32({2, 2, 1}, {1, 2, 3, 4})}, like(DType::kF32, {2, 3, 1})}, edge, {1, 1, 2, 3, 3, 4});
  Conv2dAttrs conv;
  conv.pad[3] = 1;
  const auto u8 = [](std::vector<int> dims, std::vector<uint8_t> v) { return tensor_of(DType::kU8, std::move(dims), v); };
  const TestTensor x = u8({1, 2, 2, 1}, {3, 5, 7, 9}), w = u8({1, 1, 2, 1}, {1, 10});
  check_equal<int32_t>({Op::kConvInteger, {x, w}, like(DType::kS32, {1, 2, 2, 1})}, conv, {53, 5, 97, 9});
}

TEST_CASE("nearest neighbours between two elements go the way that is asked for") {
  ResizeAttrs a;
  a.coordinates = static_cast<int32_t>(ResizeCoordinates::kAsymmetric);
  a.size = 3;
  a.nearest = static_cast<int32_t>(ResizeNearest::kCeil);
  const TestTensor x = f32({4}, {10, 20, 30, 40});
  check_equal<float>({Op::kResizeNearest, {x}, like(DType::kF32, {3})}, a, {10, 30, 40});
  a.size = 8;
  a.nearest = static_cast<int32_t>(ResizeNearest::kRoundPreferFloor);
  check_equal<float>({Op::kResizeNearest, {x}, like(DType::kF32, {8})}, a, {10, 10, 20, 20, 30, 30, 40, 40});
  a.nearest = static_cast<int32_t>(ResizeNearest::kRoundPreferCeil);
  check_equal<float>({Op::kResizeNearest, {x}, like(DType::kF32, {8})}, a, {10, 20, 20, 30, 30, 40, 40, 40});
}

TEST_CASE("parameters of blocks, and ranges that must contain zero") {
  const auto s8 = [](std::vector<int> dims, std::vector<int8_t> v) { return tensor_of(DType::kS8, std::move(dims), v); };
  check_equal<float>({Op::kDequantizeLinear, {s8({4, 2}, std::vector<int8_t>(8, 1)), f32({2, 2}, {1, 10, 100, 1000})},
                      like(DType::kF32, {4, 2})},
                     DequantizeLinearAttrs{0, 2}, {1, 10, 1, 10, 100, 1000, 100, 1000});
  check_equal<uint16_t>({Op::kQuantizeLinear, {f32({2}, {70000, -1}), f32({}, {1})}, like(DType::kU16, {2})},
                        QuantizeLinearAttrs{0, 0, static_cast<int32_t>(DType::kU16)}, {65535, 0});
  OpCase dynamic{Op::kDynamicQuantizeLinear, {f32({2}, {0.5f, 2})}, like(DType::kU8, {2})};
  dynamic.more_outputs = {like(DType::kF32, {}), like(DType::kU8, {})};
  check_equal(dynamic, NoAttrs{},
              joined(std::vector<uint8_t>{64, 255}, std::vector<float>{2.0f / 255.0f}, std::vector<uint8_t>{0}));
}

TEST_CASE("boxes by their centre, per batch, above a score") {
  const auto check = [](const std::vector<float>& boxes, const std::vector<float>& scores, float overlap, float least,
                        int32_t center, std::vector<int64_t> rows) {
    const int batch = static_cast<int>(scores.size() / 2);
    OpCase c{Op::kNonMaxSuppression,
             {f32({batch, 2, 4}, boxes), f32({batch, 1, 2}, scores), s64({1}, {2}), f32({1}, {overlap}), f32({1}, {least})},
             like(DType::kS64, {2 * batch, 3})};
    c.more_outputs = {like(DType::kS64, {1})};
    const auto count = static_cast<int64_t>(rows.size() / 3);
    rows.resize(static_cast<size_t>(6 * batch), 0);
    check_equal(c, NmsAttrs{center}, joined(rows, std::vector<int64_t>{count}));
  };
  // Two of 2 x 2, half a unit apart: 3 of 5 in common. As corners they would have 1/2.
  check({1, 1, 2, 2, 1, 1.5f, 2, 2}, {0.9f, 0.8f}, 0.55f, 0, 1, {0, 0, 0});
  check({1, 1, 2, 2, 1, 1.5f, 2, 2}, {0.9f, 0.8f}, 0.55f, 0, 0, {0, 0, 0, 0, 0, 1});
  check({0, 0, 1, 1, 5, 5, 6, 6}, {0.9f, 0.5f}, 0.5f, 0.5f, 0, {0, 0, 0});
  check({0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 5, 5, 6, 6}, {0.9f, 0.8f, 0.9f, 0.8f}, 0.5f, 0, 0, {0, 0, 0, 1, 0, 0, 1, 0, 1});
}

}  // namespace lathe::test
