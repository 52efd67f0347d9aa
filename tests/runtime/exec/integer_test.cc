// Plain integers: borders, quantization with operands as parameters, and exact products.
#include "tests/runtime/exec/op_run.h"

using namespace lathe;
using namespace lathe::test;

namespace {

TestTensor u8(std::vector<int> dims, const std::vector<uint8_t>& v) { return tensor_of(DType::kU8, std::move(dims), v); }
TestTensor s8(std::vector<int> dims, const std::vector<int8_t>& v) { return tensor_of(DType::kS8, std::move(dims), v); }

constexpr int32_t kU8 = static_cast<int32_t>(DType::kU8), kS8 = static_cast<int32_t>(DType::kS8),
                  kS16 = static_cast<int32_t>(DType::kS16);

}  // namespace

TEST_CASE("integers keep their steps on the way in and out, u8 128 lower") {
  const QuantParams q{0.5f, 3};
  check_equal<int8_t>({Op::kFromInteger, {u8({4}, {0, 127, 128, 255})}, like(DType::kS8, {4}, q)}, NoAttrs{}, {-128, -1, 0, 127});
  check_equal<int8_t>({Op::kFromInteger, {s8({3}, {-128, 0, 127})}, like(DType::kS8, {3}, q)}, NoAttrs{}, {-128, 0, 127});
  check_equal<uint8_t>({Op::kToInteger, {q8({4}, {-128, -1, 0, 127}, q)}, like(DType::kU8, {4})}, CastAttrs{kU8},
                       {0, 127, 128, 255});
  check_equal<int8_t>({Op::kToInteger, {q8({3}, {-128, 0, 127}, q).as_constant()}, like(DType::kS8, {3})}, CastAttrs{kS8},
                      {-128, 0, 127});
  check_refused(OpCase{Op::kFromInteger, {f32({1}, {1})}, like(DType::kS8, {1}, q)}, NoAttrs{}, Code::kUnsupported);
  check_refused(OpCase{Op::kFromInteger, {u8({2}, {1, 2})}, like(DType::kS8, {1}, q)}, NoAttrs{}, Code::kInvalidArgument);
}

TEST_CASE("quantizing rounds half to even, saturates, and takes parameters per tensor, axis and block") {
  check_equal<uint8_t>(
      {Op::kQuantizeLinear, {f32({6}, {0, 2, 3, 1000, -254, -1000}), f32({}, {2}), u8({}, {128})}, like(DType::kU8, {6})},
      QuantizeLinearAttrs{0, 0, kU8}, {128, 129, 130, 255, 1, 0});
  check_equal<uint8_t>({Op::kQuantizeLinear, {f32({3}, {1, 3, 5}), f32({}, {2})}, like(DType::kU8, {3})},
                       QuantizeLinearAttrs{0, 0, kU8}, {0, 2, 2});
  check_equal<int8_t>(
      {Op::kQuantizeLinear, {f32({2, 2}, {1, 10, -1, -10}), f32({2}, {1, 5}), s8({2}, {0, 1})}, like(DType::kS8, {2, 2})},
      QuantizeLinearAttrs{1, 0, kS8}, {1, 3, -1, -1});
  check_equal<int16_t>(
      {Op::kQuantizeLinear, {f32({1, 5}, {1, 2, 3, 4, 40000}), f32({1, 3}, {1, 0.5f, 1})}, like(DType::kS16, {1, 5})},
      QuantizeLinearAttrs{1, 2, kS16}, {1, 2, 6, 8, 32767});
  check_equal<float>({Op::kDequantizeLinear,
                      {s8({2, 3}, {1, 2, 3, -128, 0, 127}), f32({2}, {2, 0.5f}), s8({2}, {1, -2})},
                      like(DType::kF32, {2, 3})},
                     DequantizeLinearAttrs{0, 0}, {0, 2, 4, -63, 1, 64.5f});
  check_equal<float>(
      {Op::kDequantizeLinear, {s32({2, 2}, {2147483647, 1, 3, 4}), f32({2, 1}, {1, 2})}, like(DType::kF32, {2, 2})},
      DequantizeLinearAttrs{1, 2}, {2147483648.0f, 1, 6, 8});
  const OpCase fits{Op::kQuantizeLinear, {f32({2, 3}, std::vector<float>(6)), f32({2}, {1, 1})}, like(DType::kU8, {2, 3})};
  check_refused(fits, QuantizeLinearAttrs{1, 0, kU8}, Code::kInvalidArgument);
  check_refused(fits, QuantizeLinearAttrs{2, 0, kU8}, Code::kInvalidArgument);
  check_refused(fits, QuantizeLinearAttrs{0, 2, kU8}, Code::kInvalidArgument);
  check_refused(OpCase{Op::kQuantizeLinear, {f32({1}, {1}), f32({}, {1}), s8({}, {1})}, like(DType::kU8, {1})},
                QuantizeLinearAttrs{0, 0, kU8}, Code::kUnsupported);
}

// sum (a - za)(b - zb) in 64 bits.
std::vector<int32_t> products(const std::vector<uint8_t>& a, int za, const std::vector<int8_t>& b, const std::vector<int8_t>& zb,
                              int m, int k, int n) {
  std::vector<int32_t> y;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int l = 0; l < k; ++l)
        sum += (int64_t{a[static_cast<size_t>(i * k + l)]} - za) *
               (b[static_cast<size_t>(l * n + j)] - zb[zb.size() == 1 ? 0 : static_cast<size_t>(j)]);
      y.push_back(static_cast<int32_t>(sum));
    }
  return y;
}

TEST_CASE("products of integers are exact, with zero points per tensor and per column") {
  const int m = 5, k = 7, n = 3;
  std::mt19937 rng(3);
  std::vector<uint8_t> a(m * k);
  std::vector<int8_t> b(k * n);
  kernels::fill_ints(rng, a.data(), a.size(), 0, 255);
  kernels::fill_ints(rng, b.data(), b.size(), -128, 127);
  const TestTensor out = like(DType::kS32, {m, n});
  check_equal<int32_t>({Op::kMatMulInteger, {u8({m, k}, a), s8({k, n}, b), u8({}, {12}), s8({n}, {1, -2, 3})}, out}, NoAttrs{},
                       products(a, 12, b, {1, -2, 3}, m, k, n));
  check_equal<int32_t>({Op::kMatMulInteger, {u8({m, k}, a), s8({k, n}, b)}, out}, NoAttrs{}, products(a, 0, b, {0}, m, k, n));
  // One matrix on the right serves both on the left.
  std::vector<uint8_t> two = a;
  two.insert(two.end(), a.begin(), a.end());
  std::vector<int32_t> twice = products(a, 0, b, {0}, m, k, n);
  twice.insert(twice.end(), twice.begin(), twice.begin() + m * n);
  check_equal<int32_t>({Op::kMatMulInteger, {u8({2, m, k}, two), s8({1, k, n}, b)}, like(DType::kS32, {2, m, n})}, NoAttrs{},
                       twice);
  check_refused(OpCase{Op::kMatMulInteger, {u8({m, k}, a), s8({n, k}, b)}, out}, NoAttrs{}, Code::kInvalidArgument);
  check_refused(OpCase{Op::kMatMulInteger, {u8({m, k}, a), s8({k, n}, b), s8({}, {1})}, out}, NoAttrs{}, Code::kUnsupported);
}

TEST_CASE("a convolution of integers leaves padding out, in groups and with steps") {
  // 2 groups of one channel, kernel 2x2, over 3x3 with a pad on the left and top.
  std::vector<uint8_t> x(18);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(7 * i + 3);
  const std::vector<int8_t> w = {1, -2, 3, 4, 5, 6, -7, 8};
  Conv2dAttrs attrs;
  attrs.groups = 2;
  attrs.pad[0] = attrs.pad[1] = 1;
  attrs.stride[0] = 2;
  std::vector<int32_t> expected;
  for (int oh = 0; oh < 2; ++oh)
    for (int ow = 0; ow < 3; ++ow)
      for (int c = 0; c < 2; ++c) {
        int32_t sum = 0;
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 2; ++j) {
            const int h = oh * 2 + i - 1, v = ow + j - 1;
            if (h < 0 || v < 0 || h > 2 || v > 2) continue;
            sum += (x[static_cast<size_t>((h * 3 + v) * 2 + c)] - 10) *
                   (w[static_cast<size_t>((c * 2 + i) * 2 + j)] - (c == 0 ? 1 : -1));
          }
        expected.push_back(sum);
      }
  const OpCase c{Op::kConvInteger,
                 {u8({1, 3, 3, 2}, x), s8({2, 2, 2, 1}, w), u8({}, {10}), s8({2}, {1, -1})},
                 like(DType::kS32, {1, 2, 3, 2})};
  check_equal<int32_t>(c, attrs, expected);
  attrs.stride[0] = 0;
  check_refused(c, attrs, Code::kInvalidArgument);
  attrs.stride[0] = 1;
  check_refused(c, attrs, Code::kInvalidArgument);
}
