// Elementwise kernels: every list entry against the scalar one, and the scalar ones against formulas in wider arithmetic.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/eltwise/eltwise.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

const uint32_t kSizes[] = {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 131};
constexpr float kInf = std::numeric_limits<float>::infinity();

// R(v, z) of ARITHMETIC.md in double: exact here, because v is a float.
int expected_round(float v, int z, int lo, int hi) {
  if (!(v > static_cast<float>(lo - z))) return lo;
  if (v > static_cast<float>(hi - z)) return hi;
  return static_cast<int>(std::nearbyint(static_cast<double>(v))) + z;
}

int value_of(Storage s, uint8_t stored) { return s == Storage::kU8 ? stored : static_cast<int8_t>(stored); }
int lowest(Storage s) { return s == Storage::kU8 ? 0 : -128; }
int highest(Storage s) { return s == Storage::kU8 ? 255 : 127; }

// A buffer of exactly n bytes that starts off alignment, so that AddressSanitizer sees a read past either end.
template <class T> struct Exact {
  std::vector<T> v;
  explicit Exact(size_t n) : v(n + 1) {}
  T* data() { return v.data() + 1; }
};

}  // namespace

TEST_CASE("binary float kernels equal the scalar one bit for bit, whatever the broadcast") {
  std::mt19937 rng(1);
  for_each_kernel<BinaryF32Fn>(Family::kBinaryF32, [&](const Kernel& k, BinaryF32Fn fn, BinaryF32Fn reference) {
    CAPTURE(std::string(k.name));
    for (const uint32_t n : kSizes) {
      for (uint32_t form = 0; form < 36; ++form) {
        const BinaryOp op = static_cast<BinaryOp>(form % 4);
        const uint32_t a_step = form / 4 % 3 != 1, b_step = form / 4 % 3 != 2, rows = form / 12 + 1;
        const uint32_t a_row = form / 12 == 1 ? 0 : n + 2, b_row = form / 12 == 2 ? 0 : n;
        Exact<float> a(rows * (n + 2) + 1), b(rows * (n + 2) + 1);
        fill_floats(rng, a.data(), rows * (n + 2) + 1, -4, 4);
        fill_floats(rng, b.data(), rows * (n + 2) + 1, -4, 4);
        const float lo = form % 2 != 0 ? 0.0f : -kInf, hi = form % 2 != 0 ? 2.0f : kInf;
        Guarded<float> y(rows * (n + 1)), expected(rows * (n + 1));
        fn({a.data(), b.data(), y.data(), rows, n, a_row, b_row, n + 1, a_step, b_step, op, lo, hi});
        reference({a.data(), b.data(), expected.data(), rows, n, a_row, b_row, n + 1, a_step, b_step, op, lo, hi});
        REQUIRE(y.intact(rows, n, n + 1));
        for (uint32_t r = 0; r < rows; ++r) {
          REQUIRE(std::memcmp(y.data() + r * (n + 1), expected.data() + r * (n + 1), n * sizeof(float)) == 0);
          for (uint32_t i = 0; i < n; ++i) {
            const float av = a.data()[r * a_row + i * a_step], bv = b.data()[r * b_row + i * b_step];
            const float results[] = {av + bv, av - bv, av * bv, av / bv};
            REQUIRE(expected.data()[r * (n + 1) + i] == std::fmin(std::fmax(results[static_cast<int>(op)], lo), hi));
          }
        }
      }
    }
  });
}

TEST_CASE("a NaN operand gives NaN through a clamp, on every ISA") {
  for_each_kernel<BinaryF32Fn>(Family::kBinaryF32, [&](const Kernel& k, BinaryF32Fn fn, BinaryF32Fn) {
    std::vector<float> a(19, std::numeric_limits<float>::quiet_NaN()), b(19, 1.0f), y(19);
    fn({a.data(), b.data(), y.data(), 1, 19, 0, 0, 0, 1, 1, BinaryOp::kAdd, 0.0f, 6.0f});
    for (const float v : y) CHECK_MESSAGE(std::isnan(v), std::string(k.name));
  });
}

TEST_CASE("float functions work in place and touch nothing else") {
  std::mt19937 rng(2);
  for_each_kernel<UnaryF32Fn>(Family::kUnaryF32, [&](const Kernel& k, UnaryF32Fn fn, UnaryF32Fn reference) {
    for (const uint32_t n : kSizes) {
      for (uint32_t op = 0; op <= static_cast<uint32_t>(UnaryOp::kSilu); ++op) {
        CAPTURE(std::string(k.name));
        CAPTURE(n);
        CAPTURE(op);
        Exact<float> x(n);
        fill_floats(rng, x.data(), n, 0, 5);
        Guarded<float> y(n, 4);
        std::vector<float> expected(n);
        std::memcpy(y.data(), x.data(), n * sizeof(float));
        fn({y.data(), y.data(), n, static_cast<UnaryOp>(op), -1.0f, 2.5f});
        reference({x.data(), expected.data(), n, static_cast<UnaryOp>(op), -1.0f, 2.5f});
        REQUIRE(y.intact(1, n, n));
        for (uint32_t i = 0; i < n; ++i) REQUIRE(y.data()[i] == doctest::Approx(expected[i]).epsilon(1e-6));
      }
    }
  });
}

TEST_CASE("leaky relu, hard swish and clamp are their formulas") {
  std::vector<float> x, y;
  for (float v = -8; v <= 8; v += 0.37f) x.push_back(v);
  y.resize(x.size());
  const auto n = static_cast<uint32_t>(x.size());
  for_each_kernel<UnaryF32Fn>(Family::kUnaryF32, [&](const Kernel& k, UnaryF32Fn fn, UnaryF32Fn) {
    CAPTURE(std::string(k.name));
    fn({x.data(), y.data(), n, UnaryOp::kLeakyRelu, 0.1f, 0});
    for (uint32_t i = 0; i < n; ++i) REQUIRE(y[i] == (x[i] >= 0 ? x[i] : 0.1f * x[i]));
    fn({x.data(), y.data(), n, UnaryOp::kClamp, -1.5f, 3.25f});
    for (uint32_t i = 0; i < n; ++i) REQUIRE(y[i] == std::fmin(std::fmax(x[i], -1.5f), 3.25f));
    fn({x.data(), y.data(), n, UnaryOp::kHardSwish, 0, 0});
    for (uint32_t i = 0; i < n; ++i) {
      const double d = x[i];
      REQUIRE(y[i] == doctest::Approx(d * std::fmin(std::fmax(d + 3, 0.0), 6.0) / 6).epsilon(1e-6));
    }
  });
}

TEST_CASE("binary 8-bit kernels equal the formula for all pairs of values and for edge zero points") {
  for_each_kernel<BinaryS8Fn>(Family::kBinaryS8, [&](const Kernel& k, BinaryS8Fn fn, BinaryS8Fn) {
    CAPTURE(std::string(k.name));
    const int lo = lowest(k.storage), hi = highest(k.storage);
    std::vector<uint8_t> a(65536), b(65536), y(65536);
    for (uint32_t i = 0; i < 65536; ++i) a[i] = static_cast<uint8_t>(i), b[i] = static_cast<uint8_t>(i >> 8);
    const int zeros[][3] = {{lo, hi, lo}, {hi, lo, hi}, {lo + 128, lo + 131, lo + 77}};
    for (const auto& z : zeros) {
      for (const BinaryOp op : {BinaryOp::kAdd, BinaryOp::kSub, BinaryOp::kMul}) {
        const float m_a = op == BinaryOp::kMul ? 0.0121f : 0.5f, m_b = 0.7003f;
        fn({a.data(), b.data(), y.data(), 1, 65536, 0, 0, 0, 1, 1, op, {0, 0, z[0], z[1], m_a, m_b, z[2], lo + 3, hi - 5}});
        for (uint32_t i = 0; i < 65536; ++i) {
          const float p = static_cast<float>(value_of(k.storage, a[i]) - z[0]),
                      q = static_cast<float>(value_of(k.storage, b[i]) - z[1]);
          const float pm = p * m_a, qm = q * m_b, pq = p * q;
          const float v = op == BinaryOp::kAdd ? pm + qm : (op == BinaryOp::kSub ? pm - qm : pq * m_a);
          REQUIRE(value_of(k.storage, y[i]) == expected_round(v, z[2], lo + 3, hi - 5));
        }
      }
    }
  });
}

TEST_CASE("binary 8-bit kernels equal the scalar one at every edge, broadcast, flip and in place") {
  std::mt19937 rng(3);
  for_each_kernel<BinaryS8Fn>(Family::kBinaryS8, [&](const Kernel& k, BinaryS8Fn fn, BinaryS8Fn reference) {
    CAPTURE(std::string(k.name));
    for (const uint32_t n : kSizes) {
      for (uint32_t form = 0; form < 72; ++form) {
        const BinaryOp op = static_cast<BinaryOp>(form % 3);
        const uint32_t a_step = form / 3 % 3 != 1, b_step = form / 3 % 3 != 2, rows = form / 9 % 2 + 1;
        const uint32_t a_flip = form / 18 % 2 * 0x80, b_flip = form / 36 * 0x80, row = n + 1;
        Exact<uint8_t> a(rows * row), b(rows * row);
        fill_ints(rng, a.data(), rows * row, 0, 255);
        fill_ints(rng, b.data(), rows * row, 0, 255);
        const int lo = lowest(k.storage);
        const BinaryS8Constants c{a_flip, b_flip, lo + 40, lo + 200, 0.31f, 0.77f, lo + 100, lo, lo + 255};
        Guarded<uint8_t> y(rows * row, 1), expected(rows * row);
        fn({a.data(), b.data(), y.data(), rows, n, row, row, row, a_step, b_step, op, c});
        reference({a.data(), b.data(), expected.data(), rows, n, row, row, row, a_step, b_step, op, c});
        REQUIRE(y.intact(rows, n, row));
        for (uint32_t r = 0; r < rows; ++r) REQUIRE(std::memcmp(y.data() + r * row, expected.data() + r * row, n) == 0);
        if (a_step == 0) continue;
        fn({a.data(), b.data(), a.data(), rows, n, row, row, row, a_step, b_step, op, c});
        for (uint32_t r = 0; r < rows; ++r) REQUIRE(std::memcmp(a.data() + r * row, expected.data() + r * row, n) == 0);
      }
    }
  });
}

TEST_CASE("tables map every byte, at every length") {
  std::mt19937 rng(4);
  std::vector<int8_t> table(256);
  fill_ints(rng, table.data(), 256, -128, 127);
  for_each_kernel<Lut8Fn>(Family::kLut8, [&](const Kernel& k, Lut8Fn fn, Lut8Fn) {
    CAPTURE(std::string(k.name));
    const int shift = storage_shift(k.storage);
    std::vector<uint32_t> sizes(std::begin(kSizes), std::end(kSizes));
    sizes.push_back(256);
    for (const uint32_t n : sizes) {
      Exact<uint8_t> x(n);
      for (uint32_t i = 0; i < n; ++i) x.data()[i] = static_cast<uint8_t>(n == 256 ? i : rng());
      Guarded<uint8_t> y(n, 3);
      fn({x.data(), y.data(), n, table.data()});
      REQUIRE(y.intact(1, n, n));
      for (uint32_t i = 0; i < n; ++i) {
        const int q = value_of(k.storage, x.data()[i]) - shift;
        REQUIRE(value_of(k.storage, y.data()[i]) == table[static_cast<size_t>(q + 128)] + shift);
      }
    }
  });
}

TEST_CASE("regrid equals the formula for every byte and all zero points, with one multiplier per sign") {
  for_each_kernel<RegridS8Fn>(Family::kRegridS8, [&](const Kernel& k, RegridS8Fn fn, RegridS8Fn) {
    CAPTURE(std::string(k.name));
    const int lo = lowest(k.storage), hi = highest(k.storage);
    std::vector<uint8_t> x(256), y(256);
    for (uint32_t i = 0; i < 256; ++i) x[i] = static_cast<uint8_t>(i);
    for (int zero = lo; zero <= hi; ++zero) {
      for (const float m_neg : {0.5f, 0.013f, -0.25f, 90.0f}) {
        const int z_y = lo + (zero * 7 & 255);
        fn({x.data(), y.data(), 256, {0, zero, 0.5f, m_neg, z_y, lo, hi}});
        for (uint32_t i = 0; i < 256; ++i) {
          const float d = static_cast<float>(value_of(k.storage, x[i]) - zero);
          REQUIRE(value_of(k.storage, y[i]) == expected_round(d * (d < 0 ? m_neg : 0.5f), z_y, lo, hi));
        }
      }
    }
  });
}

TEST_CASE("regrid, quantize and dequantize touch n elements and nothing else") {
  std::mt19937 rng(5);
  for (const uint32_t n : kSizes) {
    CAPTURE(n);
    Exact<uint8_t> q(n);
    Exact<float> x(n);
    fill_ints(rng, q.data(), n, 0, 255);
    fill_floats(rng, x.data(), n, -3, 3);
    for_each_kernel<RegridS8Fn>(Family::kRegridS8, [&](const Kernel& k, RegridS8Fn fn, RegridS8Fn reference) {
      for (const uint32_t flip : {0u, 0x80u}) {
        Guarded<uint8_t> y(n, 5), expected(n);
        const RegridConstants c{flip, 17, 0.9f, 0.4f, lowest(k.storage) + 99, lowest(k.storage) + 1, highest(k.storage) - 2};
        fn({q.data(), y.data(), n, c});
        reference({q.data(), expected.data(), n, c});
        REQUIRE(y.intact(1, n, n));
        REQUIRE(std::memcmp(y.data(), expected.data(), n) == 0);
      }
    });
    for_each_kernel<QuantizeF32Fn>(Family::kQuantizeF32, [&](const Kernel& k, QuantizeF32Fn fn, QuantizeF32Fn reference) {
      Guarded<uint8_t> y(n, 5), expected(n);
      const QuantizeConstants c{0.021f, lowest(k.storage) + 130, lowest(k.storage), highest(k.storage)};
      fn({x.data(), y.data(), n, c});
      reference({x.data(), expected.data(), n, c});
      REQUIRE(y.intact(1, n, n));
      REQUIRE(std::memcmp(y.data(), expected.data(), n) == 0);
    });
    for_each_kernel<DequantizeF32Fn>(Family::kDequantizeF32, [&](const Kernel& k, DequantizeF32Fn fn, DequantizeF32Fn) {
      for (const uint32_t flip : {0u, 0x80u}) {
        Guarded<float> y(n);
        fn({q.data(), y.data(), n, {flip, 0.37f, lowest(k.storage) + 3}});
        REQUIRE(y.intact(1, n, n));
        for (uint32_t i = 0; i < n; ++i) {
          const int v = value_of(k.storage, static_cast<uint8_t>(q.data()[i] ^ flip)) - (lowest(k.storage) + 3);
          REQUIRE(y.data()[i] == static_cast<float>(v) * 0.37f);
        }
      }
    });
  }
}

TEST_CASE("quantize divides, rounds half to even, saturates and takes NaN to the lowest step") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // 0.1f / 0.1f is 1 exactly; 0.1f * (1 / 0.1f) is too, but 0.7f / 0.1f and 0.7f * 10 differ: a multiplying kernel fails here.
  std::vector<float> x = {0.05f, 0.15f, 0.25f, -0.05f, -0.15f, 1e30f, -1e30f, kInf,  -kInf,
                          nan,   0.0f,  0.7f,  0.35f,  0.45f,  0.55f, 0.65f,  12.75f};
  for (int i = -1300; i <= 1300; ++i) x.push_back(static_cast<float>(i) * 0.01f);
  for (const float scale : {0.1f, 0.3f, 0.007f, 1.0f}) {
    for_each_kernel<QuantizeF32Fn>(Family::kQuantizeF32, [&](const Kernel& k, QuantizeF32Fn fn, QuantizeF32Fn) {
      CAPTURE(std::string(k.name));
      const int lo = lowest(k.storage), hi = highest(k.storage), z = lo + 120;
      std::vector<uint8_t> y(x.size());
      fn({x.data(), y.data(), static_cast<uint32_t>(x.size()), {scale, z, lo, hi}});
      for (size_t i = 0; i < x.size(); ++i) REQUIRE(value_of(k.storage, y[i]) == expected_round(x[i] / scale, z, lo, hi));
    });
  }
}

}  // namespace lathe::kernels
