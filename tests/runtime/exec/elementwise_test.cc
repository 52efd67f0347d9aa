// Binary and one-input operators, quantize, dequantize, regrid: broadcasting, constants under u8 storage, integers of shape
// arithmetic.
#include <cmath>
#include <limits>

#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

struct Shapes {
  std::vector<int> a, b, y;
};
const Shapes kShapes[] = {
    {{3, 5}, {3, 5}, {3, 5}},
    {{2, 3, 4, 17}, {17}, {2, 3, 4, 17}},
    {{2, 3, 4, 5}, {3, 1, 1}, {2, 3, 4, 5}},
    {{2, 1, 4, 1}, {1, 3, 1, 5}, {2, 3, 4, 5}},
    {{}, {2, 9}, {2, 9}},
    {{1}, {1}, {1}},
    {{}, {}, {}},
    {{4, 1}, {1, 33}, {4, 33}},
    {{2, 1, 2, 1, 2, 1, 2, 3}, {1, 2, 1, 2, 1, 2, 1, 3}, {2, 2, 2, 2, 2, 2, 2, 3}},
    {{0, 3}, {1, 3}, {0, 3}},
    {{3, 300, 65}, {300, 65}, {3, 300, 65}},  // cut into tasks by rows
    {{60001}, {60001}, {60001}},              // and by elements
    {{60001}, {1}, {60001}},
};
const Op kBinary[] = {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv};

}  // namespace

TEST_CASE("float binary operators broadcast as NumPy does and clamp the result") {
  for (const Shapes& s : kShapes) {
    const TestTensor a = random_f32(s.a, 1), b = random_f32(s.b, 2, 0.5f, 3);
    for (const Op op : kBinary) {
      BinaryAttrs attrs;
      if (op == Op::kMul) attrs.lo = -0.5f, attrs.hi = 0.75f;
      std::vector<float> expected(product(s.y));
      for (size_t i = 0; i < expected.size(); ++i) {
        const float x = a.data<float>()[broadcast_at(s.a, s.y, i)], z = b.data<float>()[broadcast_at(s.b, s.y, i)];
        const float v = op == Op::kAdd ? x + z : (op == Op::kSub ? x - z : (op == Op::kMul ? x * z : x / z));
        expected[i] = std::fmin(std::fmax(v, attrs.lo), attrs.hi);
      }
      check_equal({op, {a, b}, like(DType::kF32, s.y)}, attrs, expected);
    }
  }
}

TEST_CASE("quantized add, sub and mul follow ARITHMETIC for constants and activations alike") {
  const QuantParams qa{0.02f, -7, -128, 127}, qb{0.031f, 55, -128, 127}, qy{0.05f, 3, -120, 127};
  for (const Shapes& s : kShapes) {
    for (const int constant : {0, 1, 2}) {
      TestTensor a = random_q8(s.a, 3, qa), b = random_q8(s.b, 4, qb);
      a.constant = constant == 1;
      b.constant = constant == 2;
      for (const Op op : {Op::kAdd, Op::kSub, Op::kMul}) {
        BinaryAttrs attrs;
        attrs.lo = -1.0f;
        QuantParams limits = qy;
        limits.qmin = expected_round(-1.0f / qy.scale, qy);
        std::vector<int8_t> expected(product(s.y));
        const float m_a = static_cast<float>(static_cast<double>(qa.scale) / qy.scale),
                    m_b = static_cast<float>(static_cast<double>(qb.scale) / qy.scale);
        const float m = static_cast<float>(static_cast<double>(qa.scale) * qb.scale / qy.scale);
        for (size_t i = 0; i < expected.size(); ++i) {
          const float x = static_cast<float>(a.data<int8_t>()[broadcast_at(s.a, s.y, i)] - qa.zero_point);
          const float z = static_cast<float>(b.data<int8_t>()[broadcast_at(s.b, s.y, i)] - qb.zero_point);
          const float xm = x * m_a, zm = z * m_b, xz = x * z;
          expected[i] = expected_round(op == Op::kAdd ? xm + zm : (op == Op::kSub ? xm - zm : xz * m), limits);
        }
        check_equal({op, {a, b}, like(DType::kS8, s.y, qy)}, attrs, expected);
      }
    }
  }
}

TEST_CASE("integer arithmetic wraps, divides toward zero and never traps") {
  const int64_t lowest = std::numeric_limits<int64_t>::min();
  const TestTensor a = s64({7}, {7, -7, lowest, lowest, 5, 0, 1LL << 40}), b = s64({7}, {2, 2, -1, 1, 0, 3, 1LL << 30});
  check_equal({Op::kDiv, {a, b}, like(DType::kS64, {7})}, BinaryAttrs{}, std::vector<int64_t>{3, -3, lowest, lowest, 0, 0, 1024});
  check_equal({Op::kMul, {a, b}, like(DType::kS64, {7})}, BinaryAttrs{}, std::vector<int64_t>{14, -14, lowest, lowest, 0, 0, 0});
  check_equal({Op::kAdd, {s32({2}, {INT32_MAX, 4}), s32({1}, {1})}, like(DType::kS32, {2})}, BinaryAttrs{},
              std::vector<int32_t>{INT32_MIN, 5});
  check_equal({Op::kSub, {s32({}, {3}), s32({2}, {5, -6})}, like(DType::kS32, {2})}, BinaryAttrs{}, std::vector<int32_t>{-2, 9});
}

TEST_CASE("operands that do not fit each other are refused, not read") {
  const TestTensor a = random_f32({2, 3}, 1), b = random_f32({2, 4}, 2);
  check_refused({Op::kAdd, {a, b}, like(DType::kF32, {2, 4})}, BinaryAttrs{}, Code::kInvalidArgument);
  check_refused({Op::kAdd, {a, a}, like(DType::kF32, {2, 4})}, BinaryAttrs{}, Code::kInvalidArgument);
  check_refused({Op::kAdd, {a, random_f32({3, 2, 3}, 3)}, like(DType::kF32, {2, 3})}, BinaryAttrs{}, Code::kInvalidArgument);
  check_refused({Op::kAdd, {a, s64({1}, {1})}, like(DType::kF32, {2, 3})}, BinaryAttrs{}, Code::kUnsupported);
  check_refused({Op::kDiv, {random_q8({4}, 1, {}), random_q8({4}, 2, {})}, like(DType::kS8, {4}, QuantParams{})}, BinaryAttrs{},
                Code::kUnsupported);
  BinaryAttrs limits;
  limits.lo = 2, limits.hi = 1;
  check_refused({Op::kAdd, {a, a}, like(DType::kF32, {2, 3})}, limits, Code::kInvalidArgument);
  limits.lo = 0, limits.hi = 1;
  check_refused({Op::kAdd, {s64({1}, {1}), s64({1}, {1})}, like(DType::kS64, {1})}, limits, Code::kUnsupported);
}

TEST_CASE("a multiplier that float32 cannot hold is refused") {
  const QuantParams tiny{1e-38f, 0, -128, 127}, huge{3e38f, 0, -128, 127};
  check_refused({Op::kAdd, {random_q8({4}, 1, tiny), random_q8({4}, 2, tiny)}, like(DType::kS8, {4}, huge)}, BinaryAttrs{},
                Code::kInvalidArgument);
  check_refused({Op::kMul, {random_q8({4}, 1, huge), random_q8({4}, 2, huge)}, like(DType::kS8, {4}, tiny)}, BinaryAttrs{},
                Code::kInvalidArgument);
}

TEST_CASE("one-input functions of floats agree with libm") {
  const struct {
    Op op;
    double (*f)(double);
  } functions[] = {{Op::kSigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
                   {Op::kTanh, [](double v) { return std::tanh(v); }},
                   {Op::kExp, [](double v) { return std::exp(v); }},
                   {Op::kSqrt, [](double v) { return std::sqrt(v); }},
                   {Op::kHardSwish, [](double v) { return v * std::fmin(std::fmax(v + 3, 0.0), 6.0) / 6; }},
                   {Op::kGelu, [](double v) { return v * std::erfc(-v / std::sqrt(2.0)) / 2; }},
                   {Op::kSilu, [](double v) { return v / (1 + std::exp(-v)); }},
                   {Op::kErf, [](double v) { return std::erf(v); }}};
  for (const auto& f : functions) {
    for (const std::vector<int>& dims : {std::vector<int>{3, 7}, std::vector<int>{5, 10007}}) {
      const TestTensor x = random_f32(dims, 9, f.op == Op::kSqrt ? 0 : -8, 8);
      std::vector<double> expected(x.elems());
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = f.f(x.data<float>()[i]);
      check_close({f.op, {x}, like(DType::kF32, dims)}, NoAttrs{}, expected, 1e-6);
    }
  }
}

TEST_CASE("one-input functions of quantized values read their table") {
  const QuantParams qx{0.05f, 5, -128, 127}, qy{1.0f / 256, -128, -128, 127};
  std::vector<int8_t> table(256);
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = static_cast<int8_t>(i * 37 + 11);
  for (const std::vector<int>& dims : {std::vector<int>{3, 7}, std::vector<int>{5, 10007}}) {
    const TestTensor x = random_q8(dims, 10, qx), t = tensor_of(DType::kS8, {256}, table).as_constant();
    std::vector<int8_t> expected(x.elems());
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = table[static_cast<size_t>(x.data<int8_t>()[i] + 128)];
    check_equal({Op::kTanh, {x, t}, like(DType::kS8, dims, qy)}, NoAttrs{}, expected);
  }
  const TestTensor x = random_q8({4}, 10, qx), small = tensor_of(DType::kS8, {255}, std::vector<int8_t>(255)).as_constant();
  check_refused({Op::kTanh, {x, small}, like(DType::kS8, {4}, qy)}, NoAttrs{}, Code::kCorrupt);
  check_refused({Op::kTanh, {x}, like(DType::kS8, {4}, qy)}, NoAttrs{}, Code::kCorrupt);
}

TEST_CASE("clamp and leaky relu, float and quantized") {
  const TestTensor x = random_f32({40001}, 11, -4, 4);
  std::vector<float> clamped(x.elems()), leaky(x.elems());
  for (size_t i = 0; i < clamped.size(); ++i) {
    const float v = x.data<float>()[i];
    clamped[i] = std::fmin(std::fmax(v, -1.0f), 2.0f);
    leaky[i] = v >= 0 ? v : 0.1f * v;
  }
  ClampAttrs clamp;
  clamp.lo = -1, clamp.hi = 2;
  LeakyReluAttrs relu;
  relu.alpha = 0.1f;
  check_equal({Op::kClamp, {x}, like(DType::kF32, {40001})}, clamp, clamped);
  check_equal({Op::kLeakyRelu, {x}, like(DType::kF32, {40001})}, relu, leaky);

  const QuantParams qx{0.04f, -3, -128, 127}, qy{0.03f, 9, -128, 127};
  for (const bool constant : {false, true}) {
    TestTensor q = random_q8({40001}, 12, qx);
    q.constant = constant;
    std::vector<int8_t> q_clamped(q.elems()), q_leaky(q.elems());
    QuantParams limits = qy;
    limits.qmin = expected_round(-1.0f / qy.scale, qy);
    limits.qmax = expected_round(2.0f / qy.scale, qy);
    const double m = static_cast<double>(qx.scale) / qy.scale;
    for (size_t i = 0; i < q_clamped.size(); ++i) {
      const float d = static_cast<float>(q.data<int8_t>()[i] - qx.zero_point);
      q_clamped[i] = expected_round(d * static_cast<float>(m), limits);
      q_leaky[i] = expected_round(d * static_cast<float>(d < 0 ? m * static_cast<double>(relu.alpha) : m), qy);
    }
    check_equal({Op::kClamp, {q}, like(DType::kS8, {40001}, qy)}, clamp, q_clamped);
    check_equal({Op::kLeakyRelu, {q}, like(DType::kS8, {40001}, qy)}, relu, q_leaky);
  }
}

TEST_CASE("quantize, dequantize and regrid") {
  const QuantParams qx{0.043f, 20, -128, 127}, qy{0.1f, -5, -128, 127};
  const TestTensor x = random_f32({7, 6001}, 13, -7, 7);
  std::vector<int8_t> quantized(x.elems());
  for (size_t i = 0; i < quantized.size(); ++i) quantized[i] = expected_round(x.data<float>()[i] / qx.scale, qx);
  check_equal({Op::kQuantize, {x}, like(DType::kS8, {7, 6001}, qx)}, NoAttrs{}, quantized);
  for (const bool constant : {false, true}) {
    TestTensor q = q8({7, 6001}, quantized, qx);
    q.constant = constant;
    std::vector<float> back(q.elems());
    std::vector<int8_t> moved(q.elems());
    const float m = static_cast<float>(static_cast<double>(qx.scale) / qy.scale);
    for (size_t i = 0; i < back.size(); ++i) {
      const float d = static_cast<float>(quantized[i] - qx.zero_point);
      back[i] = d * qx.scale;
      moved[i] = expected_round(d * m, qy);
    }
    check_equal({Op::kDequantize, {q}, like(DType::kF32, {7, 6001})}, NoAttrs{}, back);
    check_equal({Op::kRegrid, {q}, like(DType::kS8, {7, 6001}, qy)}, NoAttrs{}, moved);
  }
  check_refused({Op::kQuantize, {x}, like(DType::kS8, {7, 6000}, qx)}, NoAttrs{}, Code::kInvalidArgument);
  check_refused({Op::kQuantize, {x}, like(DType::kS8, {7, 6001})}, NoAttrs{}, Code::kUnsupported);
  check_refused({Op::kDequantize, {s32({1}, {1})}, like(DType::kF32, {1})}, NoAttrs{}, Code::kUnsupported);
}

}  // namespace lathe::test
