// Operators on every element type: comparisons, extremes, bits, remainders, powers, choices, reductions, searches, running sums,
// conversions. Expected values come from 64-bit integers and doubles.
#include <cmath>
#include <limits>

#include "lathe/float16.h"
#include "runtime/element_types.h"
#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

template <class T> constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kS8;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, int16_t>) return DType::kS16;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::kU16;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kS32;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::kU32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kS64;
  return DType::kU64;
}

template <class F> void for_each_integer(const F& f) {
  f(int8_t{}), f(uint8_t{}), f(int16_t{}), f(uint16_t{}), f(int32_t{}), f(uint32_t{}), f(int64_t{}), f(uint64_t{});
}

// Values near 0, and the ends of the type.
template <class T> std::vector<T> values_of(size_t n, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<T> v(n);
  for (T& x : v) {
    const int32_t small = static_cast<int32_t>(rng() % 13) - (std::is_signed_v<T> ? 6 : 0);
    x = static_cast<T>(small);
    if constexpr (!std::is_same_v<T, float>) {
      if (rng() % 16 == 0) x = std::numeric_limits<T>::max();
      if (rng() % 16 == 0) x = std::numeric_limits<T>::min();
    } else {
      x *= 0.75f;
    }
  }
  return v;
}
template <class T> TestTensor random_of(std::vector<int> dims, uint32_t seed) {
  const size_t n = product(dims);
  return tensor_of(dtype_of<T>(), std::move(dims), values_of<T>(n, seed));
}
TestTensor random_bool(std::vector<int> dims, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(product(dims));
  for (uint8_t& x : v) x = static_cast<uint8_t>(rng() % 3);  // 2 is true as well
  return tensor_of(DType::kBool, std::move(dims), v);
}

struct Shapes {
  std::vector<int> a, b, y;
};
const Shapes kShapes[] = {{{3, 5}, {3, 5}, {3, 5}}, {{2, 1, 4, 1}, {1, 3, 1, 5}, {2, 3, 4, 5}},
                          {{}, {2, 9}, {2, 9}},     {{4, 1}, {33}, {4, 33}},
                          {{0, 3}, {1, 3}, {0, 3}}, {{300, 65}, {2, 300, 1}, {2, 300, 65}}};

// y[i] = f(a, b) in T; R is T or uint8_t for bools.
template <class R, class T, class A, class F> void check_pairs(Op op, const A& attrs, DType result, const F& f) {
  for (const Shapes& s : kShapes) {
    const TestTensor a = random_of<T>(s.a, 1), b = random_of<T>(s.b, 2);
    std::vector<R> expected(product(s.y));
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = f(a.data<T>()[broadcast_at(s.a, s.y, i)], b.data<T>()[broadcast_at(s.b, s.y, i)]);
    CAPTURE(op_name(op));
    check_equal({op, {a, b}, like(result, s.y)}, attrs, expected);
  }
}

// Sums and products modulo 2^64, cut to T: what two's complement gives for every width.
template <class T> T wrapped(uint64_t v) { return static_cast<T>(v); }
template <class T> uint64_t wide(T v) { return static_cast<uint64_t>(v); }

// Toward zero; 0 for a divisor of 0.
template <class T> T quotient(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return wrapped<T>(0 - wide(a));
  }
  return static_cast<T>(a / b);
}
template <class T> T truncated_mod(T a, T b) { return b == 0 ? T{0} : wrapped<T>(wide(a) - wide(quotient(a, b)) * wide(b)); }
template <class T> T floor_mod(T a, T b) {
  const T r = truncated_mod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
}

template <class T> uint64_t integer_power(T a, T b) {
  if (b < 0) return a == 1 ? 1 : (a == static_cast<T>(-1) ? (b % 2 == 0 ? 1 : ~uint64_t{0}) : 0);
  uint64_t all = 1;
  uint64_t square = static_cast<uint64_t>(a);
  for (uint64_t e = static_cast<uint64_t>(b); e != 0; e /= 2, square *= square)
    if (e % 2 == 1) all *= square;
  return all;
}

}  // namespace

TEST_CASE("arithmetic of integers of every width wraps, and division never traps") {
  for_each_integer([](auto zero) {
    using T = decltype(zero);
    const BinaryAttrs none;
    const DType t = dtype_of<T>();
    check_pairs<T, T>(Op::kAdd, none, t, [](T a, T b) { return wrapped<T>(wide(a) + wide(b)); });
    check_pairs<T, T>(Op::kSub, none, t, [](T a, T b) { return wrapped<T>(wide(a) - wide(b)); });
    check_pairs<T, T>(Op::kMul, none, t, [](T a, T b) { return wrapped<T>(wide(a) * wide(b)); });
    check_pairs<T, T>(Op::kDiv, none, t, [](T a, T b) { return quotient(a, b); });
  });
}

TEST_CASE("remainders have the sign that is asked for, and powers of integers wrap") {
  for_each_integer([](auto zero) {
    using T = decltype(zero);
    const DType t = dtype_of<T>();
    check_pairs<T, T>(Op::kMod, ModAttrs{0}, t, [](T a, T b) { return floor_mod(a, b); });
    check_pairs<T, T>(Op::kMod, ModAttrs{1}, t, [](T a, T b) { return truncated_mod(a, b); });
    check_pairs<T, T>(Op::kPow, NoAttrs{}, t, [](T a, T b) { return wrapped<T>(integer_power(a, b)); });
  });
  const TestTensor a = f32({4}, {-4.3f, 7.2f, 5.0f, -5.0f}), b = f32({4}, {2.1f, -3.4f, 0.0f, kInfinity});
  for (const OpResult& r : run_everywhere({Op::kMod, {a, b}, like(DType::kF32, {4})}, ModAttrs{1})) {
    const std::vector<float> y = r.as<float>();
    CHECK(y[0] == std::fmod(-4.3f, 2.1f));
    CHECK(y[1] == std::fmod(7.2f, -3.4f));
    CHECK(std::isnan(y[2]));
    CHECK(y[3] == -5.0f);
  }
  check_equal<float>({Op::kMod, {f32({2}, {-4.5f, 4.5f}), f32({2}, {2, -2})}, like(DType::kF32, {2})}, ModAttrs{0},
                     {1.5f, -1.5f});
}

TEST_CASE("comparisons and extremes of every type broadcast") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    const DType t = dtype_of<T>();
    check_pairs<uint8_t, T>(Op::kEqual, NoAttrs{}, DType::kBool, [](T a, T b) { return a == b; });
    check_pairs<uint8_t, T>(Op::kLess, NoAttrs{}, DType::kBool, [](T a, T b) { return a < b; });
    check_pairs<uint8_t, T>(Op::kLessEqual, NoAttrs{}, DType::kBool, [](T a, T b) { return a <= b; });
    check_pairs<T, T>(Op::kMax, NoAttrs{}, t, [](T a, T b) { return std::max(a, b); });
    check_pairs<T, T>(Op::kMin, NoAttrs{}, t, [](T a, T b) { return std::min(a, b); });
  };
  for_each_integer(check);
  check(0.0f);
}

TEST_CASE("NaN is equal to nothing, below nothing, and the result of every extreme") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TestTensor a = f32({3}, {nan, 1, nan}), b = f32({3}, {1, nan, nan});
  for (const Op op : {Op::kEqual, Op::kLess, Op::kLessEqual})
    check_equal<uint8_t>({op, {a, b}, like(DType::kBool, {3})}, NoAttrs{}, {0, 0, 0});
  for (const Op op : {Op::kMax, Op::kMin}) {
    for (const OpResult& r : run_everywhere({op, {a, b}, like(DType::kF32, {3})}, NoAttrs{}))
      for (const float v : r.as<float>()) CHECK(std::isnan(v));
  }
}

TEST_CASE("bits of integers and bools") {
  for_each_integer([](auto zero) {
    using T = decltype(zero);
    const DType t = dtype_of<T>();
    check_pairs<T, T>(Op::kBitAnd, NoAttrs{}, t, [](T a, T b) { return static_cast<T>(a & b); });
    check_pairs<T, T>(Op::kBitOr, NoAttrs{}, t, [](T a, T b) { return static_cast<T>(a | b); });
    check_pairs<T, T>(Op::kBitXor, NoAttrs{}, t, [](T a, T b) { return static_cast<T>(a ^ b); });
    using U = std::make_unsigned_t<T>;
    const auto in_range = [](T b) { return b >= 0 && static_cast<uint64_t>(b) < sizeof(T) * 8; };
    check_pairs<T, T>(Op::kBitShift, BitShiftAttrs{1}, t, [&](T a, T b) {
      return in_range(b) ? static_cast<T>(static_cast<U>(static_cast<uint64_t>(static_cast<U>(a)) << b)) : T{0};
    });
    check_pairs<T, T>(Op::kBitShift, BitShiftAttrs{0}, t, [&](T a, T b) {
      return in_range(b) ? static_cast<T>(static_cast<uint64_t>(static_cast<U>(a)) >> b) : T{0};
    });
  });
  const TestTensor a = tensor_of<uint8_t>(DType::kBool, {4}, {0, 0, 2, 1}),
                   b = tensor_of<uint8_t>(DType::kBool, {4}, {0, 1, 0, 4});
  const auto check = [&](Op op, std::vector<uint8_t> expected) {
    check_equal({op, {a, b}, like(DType::kBool, {4})}, NoAttrs{}, expected);
  };
  check(Op::kBitAnd, {0, 0, 0, 1});
  check(Op::kBitOr, {0, 1, 1, 1});
  check(Op::kBitXor, {0, 1, 1, 0});
  check(Op::kEqual, {1, 0, 0, 1});
  check(Op::kMax, {0, 1, 1, 1});
}

TEST_CASE("powers of floats follow IEEE 754 at the edges") {
  const std::vector<float> x = {2, -2, -2, 0, 0, -8, 1, 4, -1}, y = {10, 3, 0.5f, 0, -1, 2, kInfinity, -0.5f, -kInfinity};
  for (const OpResult& r : run_everywhere({Op::kPow, {f32({9}, x), f32({9}, y)}, like(DType::kF32, {9})}, NoAttrs{})) {
    const std::vector<float> got = r.as<float>();
    const std::vector<float> expected = {1024, -8, 0, 1, kInfinity, 64, 1, 0.5f, 1};
    for (size_t i = 0; i < expected.size(); ++i) CHECK((i == 2 ? std::isnan(got[i]) : got[i] == expected[i]));
  }
}

TEST_CASE("where takes from either operand, all three broadcast, elements of every size") {
  const std::vector<int> c_dims = {2, 1, 33}, a_dims = {3, 1}, b_dims = {2, 3, 33}, y = {2, 3, 33};
  const TestTensor condition = random_bool(c_dims, 3);
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    const TestTensor a = random_of<T>(a_dims, 4), b = random_of<T>(b_dims, 5);
    std::vector<T> expected(product(y));
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] =
          condition.data<uint8_t>()[broadcast_at(c_dims, y, i)] != 0 ? a.data<T>()[broadcast_at(a_dims, y, i)] : b.data<T>()[i];
    check_equal({Op::kWhere, {condition, a, b}, like(dtype_of<T>(), y)}, NoAttrs{}, expected);
  };
  check(uint8_t{}), check(int16_t{}), check(float{}), check(int64_t{});
  const QuantParams q{0.5f, 3, -128, 127};
  const TestTensor a = random_q8({33}, 6, q), b = random_q8({33}, 7, q), one = random_bool({33}, 8);
  std::vector<int8_t> expected(33);
  for (size_t i = 0; i < 33; ++i) expected[i] = one.data<uint8_t>()[i] != 0 ? a.data<int8_t>()[i] : b.data<int8_t>()[i];
  check_equal({Op::kWhere, {one, a, b}, like(DType::kS8, {33}, q)}, NoAttrs{}, expected);
  check_refused({Op::kWhere, {one, a, b}, like(DType::kS8, {33}, QuantParams{0.5f, 4, -128, 127})}, NoAttrs{},
                Code::kUnsupported);
  check_refused({Op::kWhere, {a, a, a}, like(DType::kS8, {33}, q)}, NoAttrs{}, Code::kUnsupported);
}

namespace {

// Flat positions of the elements that are reduced to each result, in order.
std::vector<std::vector<size_t>> reduced_groups(const std::vector<int>& dims, const Ints& axes) {
  std::vector<std::vector<size_t>> groups(1);
  size_t results = 1;
  const auto is_reduced = [&](size_t i) {
    return std::find(axes.values, axes.values + axes.count, static_cast<int32_t>(i)) != axes.values + axes.count;
  };
  for (size_t i = 0; i < dims.size(); ++i) results *= is_reduced(i) ? 1 : static_cast<size_t>(dims[i]);
  groups.resize(results);
  for (size_t flat = 0; flat < product(dims); ++flat) {
    size_t rest = flat, at = 0, stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
      const size_t coordinate = rest % static_cast<size_t>(dims[i]);
      rest /= static_cast<size_t>(dims[i]);
      if (is_reduced(i)) continue;
      at += coordinate * stride;
      stride *= static_cast<size_t>(dims[i]);
    }
    groups[at].push_back(flat);
  }
  return groups;
}

struct Reduced {
  std::vector<int> dims;
  Ints axes;
  std::vector<int> result;
};
const Reduced kReduced[] = {{{3, 4, 5}, {1, {1}}, {3, 1, 5}},
                            {{3, 4, 5}, {2, {0, 2}}, {1, 4, 1}},
                            {{7}, {1, {0}}, {1}},
                            {{2, 3, 2, 3, 2}, {3, {0, 2, 4}}, {1, 3, 1, 3, 1}},
                            {{3, 4}, {0, {}}, {3, 4}},
                            {{300, 70}, {1, {1}}, {300, 1}},
                            {{70, 3000}, {1, {0}}, {1, 3000}}};

template <class T, class F> void check_reduction(Op op, T start, const F& f) {
  for (const Reduced& c : kReduced) {
    const TestTensor x = random_of<T>(c.dims, 9);
    std::vector<T> expected;
    for (const auto& group : reduced_groups(c.dims, c.axes)) {
      T all = start;
      for (const size_t i : group) all = f(all, x.data<T>()[i]);
      expected.push_back(all);
    }
    CAPTURE(op_name(op));
    check_equal({op, {x}, like(dtype_of<T>(), c.result)}, ReduceAttrs{c.axes, 1}, expected);
  }
}

}  // namespace

TEST_CASE("reductions of every integer type over any axes") {
  for_each_integer([](auto zero) {
    using T = decltype(zero);
    check_reduction<T>(Op::kReduceSum, 0, [](T a, T b) { return wrapped<T>(wide(a) + wide(b)); });
    check_reduction<T>(Op::kReduceProd, 1, [](T a, T b) { return wrapped<T>(wide(a) * wide(b)); });
    check_reduction<T>(Op::kReduceMax, std::numeric_limits<T>::min(), [](T a, T b) { return std::max(a, b); });
    check_reduction<T>(Op::kReduceMin, std::numeric_limits<T>::max(), [](T a, T b) { return std::min(a, b); });
  });
}

TEST_CASE("float reductions, and those of nothing") {
  check_reduction<float>(Op::kReduceSum, 0.0f, [](float a, float b) { return a + b; });  // multiples of 3/4: exact
  check_reduction<float>(Op::kReduceMax, -kInfinity, [](float a, float b) { return std::max(a, b); });
  check_reduction<float>(Op::kReduceMin, kInfinity, [](float a, float b) { return std::min(a, b); });
  check_equal<float>({Op::kReduceProd, {f32({2, 3}, {1, 2, 3, -1, 0.5f, 4})}, like(DType::kF32, {2})}, ReduceAttrs{{1, {1}}, 0},
                     {6, -2});
  const auto empty = [](Op op, float expected) {
    check_equal<float>({op, {f32({2, 0, 2}, {})}, like(DType::kF32, {2, 1, 2})}, ReduceAttrs{{1, {1}}, 1},
                       std::vector<float>(4, expected));
  };
  empty(Op::kReduceSum, 0), empty(Op::kReduceProd, 1), empty(Op::kReduceMax, -kInfinity), empty(Op::kReduceMin, kInfinity);
  check_equal<int8_t>({Op::kReduceMax, {tensor_of<int8_t>(DType::kS8, {0, 1}, {})}, like(DType::kS8, {1})},
                      ReduceAttrs{{1, {0}}, 0}, {-128});
  check_equal<float>({Op::kReduceSum, {f32({2, 0}, {})}, like(DType::kF32, {1, 0})}, ReduceAttrs{{1, {0}}, 1}, {});
  // A sum of many is as good as that of double.
  const TestTensor many = random_f32({200000}, 10, 0, 1);
  double sum = 0;
  for (size_t i = 0; i < many.elems(); ++i) sum += static_cast<double>(many.data<float>()[i]);
  check_close({Op::kReduceSum, {many}, like(DType::kF32, {1})}, ReduceAttrs{{1, {0}}, 1}, {sum}, 1e-7);
}

TEST_CASE("extremes of quantized values and bools") {
  const QuantParams q{0.5f, 3, -128, 127};
  const TestTensor x = q8({2, 3}, {-128, 5, 127, -7, -8, -9}, q);
  check_equal<int8_t>({Op::kReduceMax, {x}, like(DType::kS8, {2, 1}, q)}, ReduceAttrs{{1, {1}}, 1}, {127, -7});
  check_equal<int8_t>({Op::kReduceMin, {x}, like(DType::kS8, {2, 1}, q)}, ReduceAttrs{{1, {1}}, 1}, {-128, -9});
  check_equal<int64_t>({Op::kArgMax, {x}, like(DType::kS64, {2, 1})}, ArgAttrs{1, 1, 0}, {2, 0});
  check_equal<int64_t>({Op::kArgMin, {x}, like(DType::kS64, {2, 1})}, ArgAttrs{1, 1, 0}, {0, 2});
  const TestTensor flags = tensor_of<uint8_t>(DType::kBool, {2, 2}, {0, 3, 0, 0});
  check_equal<uint8_t>({Op::kReduceMax, {flags}, like(DType::kBool, {2})}, ReduceAttrs{{1, {1}}, 0}, {1, 0});
  check_equal<uint8_t>({Op::kReduceMin, {flags}, like(DType::kBool, {2})}, ReduceAttrs{{1, {0}}, 0}, {0, 0});
  check_refused({Op::kReduceMax, {x}, like(DType::kS8, {2, 1}, QuantParams{0.25f, 3, -128, 127})}, ReduceAttrs{{1, {1}}, 1},
                Code::kUnsupported);
  check_refused({Op::kReduceSum, {x}, like(DType::kS8, {2, 1}, q)}, ReduceAttrs{{1, {1}}, 1}, Code::kUnsupported);
  check_refused({Op::kReduceSum, {f32({2}, {1, 2})}, like(DType::kF32, {1})}, ReduceAttrs{{1, {1}}, 1}, Code::kInvalidArgument);
  check_refused({Op::kReduceSum, {f32({2}, {1, 2})}, like(DType::kF32, {2})}, ReduceAttrs{{1, {0}}, 1}, Code::kInvalidArgument);
}

TEST_CASE("positions of extremes: the first or the last of equal ones, NaN before all") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const TestTensor x = f32({2, 4}, {1, 3, 3, 0, 0, nan, 7, nan});
  check_equal<int64_t>({Op::kArgMax, {x}, like(DType::kS64, {2})}, ArgAttrs{1, 0, 0}, {1, 1});
  check_equal<int64_t>({Op::kArgMax, {x}, like(DType::kS64, {2, 1})}, ArgAttrs{1, 1, 1}, {2, 3});
  check_equal<int64_t>({Op::kArgMin, {x}, like(DType::kS64, {2})}, ArgAttrs{1, 0, 1}, {3, 3});
  check_equal<int64_t>({Op::kArgMax, {s64({2, 3}, {1, 5, INT64_MIN, 2, 5, INT64_MAX})}, like(DType::kS64, {3})},
                       ArgAttrs{0, 0, 0}, {1, 0, 1});
  check_refused({Op::kArgMax, {x}, like(DType::kS64, {2})}, ArgAttrs{2, 0, 0}, Code::kInvalidArgument);
  check_refused({Op::kArgMax, {x}, like(DType::kS64, {3})}, ArgAttrs{1, 0, 0}, Code::kInvalidArgument);
  check_refused({Op::kArgMax, {x}, like(DType::kS32, {2})}, ArgAttrs{1, 0, 0}, Code::kUnsupported);
}

TEST_CASE("top-k is sorted, earlier ones first among equals, along any axis") {
  for (const bool largest : {true, false}) {
    for (const int k : {0, 1, 3, 40, 97}) {
      const std::vector<int> dims = {5, 97, 3}, y = {5, k, 3};
      const TestTensor x = random_of<int16_t>(dims, 11);  // many equal values
      std::vector<uint8_t> expected(static_cast<size_t>(5 * k * 3) * (sizeof(int16_t) + sizeof(int64_t)));
      auto* values = reinterpret_cast<int16_t*>(expected.data());
      auto* indices = expected.data() + static_cast<size_t>(5 * k * 3) * sizeof(int16_t);
      for (int line = 0; line < 15; ++line) {
        const auto at = [&](int64_t i) { return static_cast<size_t>((line / 3 * 97 + static_cast<int>(i)) * 3 + line % 3); };
        std::vector<int64_t> order(97);
        for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          const int16_t va = x.data<int16_t>()[at(a)], vb = x.data<int16_t>()[at(b)];
          return largest ? va > vb : va < vb;
        });
        for (int j = 0; j < k; ++j) {
          const auto to = static_cast<size_t>((line / 3 * k + j) * 3 + line % 3);
          values[to] = x.data<int16_t>()[at(order[static_cast<size_t>(j)])];
          std::memcpy(indices + to * sizeof(int64_t), &order[static_cast<size_t>(j)], sizeof(int64_t));
        }
      }
      OpCase c{Op::kTopK, {x}, like(DType::kS16, y)};
      c.more_outputs = {like(DType::kS64, y)};
      check_equal(c, TopKAttrs{1, k, largest ? 1 : 0}, expected);
    }
  }
  OpCase c{Op::kTopK, {f32({3}, {1, 2, 3})}, like(DType::kF32, {4})};
  c.more_outputs = {like(DType::kS64, {4})};
  check_refused(c, TopKAttrs{0, 4, 1}, Code::kInvalidArgument);
}

TEST_CASE("running sums and products from either end") {
  const TestTensor x = s32({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto check = [&](Op op, CumulateAttrs attrs, std::vector<int32_t> expected) {
    check_equal({op, {x}, like(DType::kS32, {2, 3})}, attrs, expected);
  };
  check(Op::kCumSum, {1, 0, 0}, {1, 3, 6, 4, 9, 15});
  check(Op::kCumSum, {0, 0, 0}, {1, 2, 3, 5, 7, 9});
  check(Op::kCumSum, {1, 1, 0}, {0, 1, 3, 0, 4, 9});
  check(Op::kCumSum, {1, 0, 1}, {6, 5, 3, 15, 11, 6});
  check(Op::kCumSum, {1, 1, 1}, {5, 3, 0, 11, 6, 0});
  check(Op::kCumProd, {1, 0, 0}, {1, 2, 6, 4, 20, 120});
  check(Op::kCumProd, {1, 1, 1}, {6, 3, 1, 30, 6, 1});
  check_equal<float>({Op::kCumSum, {f32({3}, {0.5f, 0.25f, -1})}, like(DType::kF32, {3})}, CumulateAttrs{0, 0, 0},
                     {0.5f, 0.75f, -0.25f});
  check_refused({Op::kCumSum, {x}, like(DType::kS32, {2, 3})}, CumulateAttrs{2, 0, 0}, Code::kInvalidArgument);
  check_refused({Op::kCumSum, {x}, like(DType::kS32, {3, 2})}, CumulateAttrs{1, 0, 0}, Code::kInvalidArgument);
}

TEST_CASE("triangles of matrices and their determinants") {
  const TestTensor x = s64({1, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const auto check = [&](TriluAttrs attrs, std::vector<int64_t> expected) {
    check_equal({Op::kTrilu, {x}, like(DType::kS64, {1, 3, 4})}, attrs, expected);
  };
  check({1, 0}, {1, 2, 3, 4, 0, 6, 7, 8, 0, 0, 11, 12});
  check({0, 0}, {1, 0, 0, 0, 5, 6, 0, 0, 9, 10, 11, 0});
  check({1, 2}, {0, 0, 3, 4, 0, 0, 0, 8, 0, 0, 0, 0});
  check({0, -1}, {0, 0, 0, 0, 5, 0, 0, 0, 9, 10, 0, 0});
  check({1, INT32_MIN}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const QuantParams q{0.5f, 3, -128, 127};
  check_equal<int8_t>({Op::kTrilu, {q8({2, 2}, {9, 8, 7, 6}, q)}, like(DType::kS8, {2, 2}, q)}, TriluAttrs{1, 0}, {9, 8, 3, 6});
  check_refused({Op::kTrilu, {s64({2}, {1, 2})}, like(DType::kS64, {2})}, TriluAttrs{}, Code::kInvalidArgument);

  const TestTensor m = f32({2, 3, 3}, {0, 2, 1, 1, 1, 1, 4, 0, 3, 1, 2, 3, 2, 4, 6, 1, 1, 1});
  check_close({Op::kDet, {m}, like(DType::kF32, {2})}, NoAttrs{}, {-2, 0}, 1e-6);
  check_refused({Op::kDet, {f32({2, 3}, {1, 2, 3, 4, 5, 6})}, like(DType::kF32, {})}, NoAttrs{}, Code::kInvalidArgument);
}

TEST_CASE("casts between 16-bit floats, 64-bit integers and the rest") {
  const auto cast = [](DType to) { return CastAttrs{static_cast<int32_t>(to)}; };
  const std::vector<float> floats = {1.0f, -2.5f, 3.1415927f, 70000.0f, kInfinity, 1e-6f};
  std::vector<uint16_t> halves, bfloats;
  std::vector<float> from_bfloats;
  for (const float v : floats) {
    halves.push_back(float_to_half(v));
    // Rounded by hand: the 8 bits of precision of a bfloat16, half to even.
    const double ulp = std::isinf(v) ? 0 : std::ldexp(1.0, std::ilogb(v) - 7);
    from_bfloats.push_back(std::isinf(v) ? v : static_cast<float>(std::nearbyint(static_cast<double>(v) / ulp) * ulp));
    bfloats.push_back(static_cast<uint16_t>(__builtin_bit_cast(uint32_t, from_bfloats.back()) >> 16));
  }
  const TestTensor x = f32({6}, floats), h = tensor_of(DType::kF16, {6}, halves), b = tensor_of(DType::kBF16, {6}, bfloats);
  check_equal({Op::kCast, {x}, like(DType::kF16, {6})}, cast(DType::kF16), halves);
  check_equal({Op::kCast, {x}, like(DType::kBF16, {6})}, cast(DType::kBF16), bfloats);
  check_equal({Op::kCast, {b}, like(DType::kF32, {6})}, cast(DType::kF32), from_bfloats);
  check_equal<int32_t>({Op::kCast, {h}, like(DType::kS32, {6})}, cast(DType::kS32), {1, -2, 3, INT32_MAX, INT32_MAX, 0});
  const std::vector<uint64_t> wide = {0, 5, UINT64_MAX, uint64_t{1} << 63};
  const TestTensor w = tensor_of(DType::kU64, {4}, wide);
  check_equal<float>({Op::kCast, {w}, like(DType::kF32, {4})}, cast(DType::kF32), {0.0f, 5.0f, 0x1p64f, 0x1p63f});
  check_equal<uint32_t>({Op::kCast, {w}, like(DType::kU32, {4})}, cast(DType::kU32), {0, 5, UINT32_MAX, 0});
  check_equal<uint64_t>({Op::kCast, {f32({4}, {-1, 2.9f, 0x1p64f, 0x1p63f})}, like(DType::kU64, {4})}, cast(DType::kU64),
                        {0, 2, UINT64_MAX, uint64_t{1} << 63});
  check_equal<uint32_t>({Op::kCast, {s64({2}, {-1, 7})}, like(DType::kU32, {2})}, cast(DType::kU32), {UINT32_MAX, 7});
}

TEST_CASE("a bit cast keeps the bytes") {
  const auto cast = [](DType to) { return CastAttrs{static_cast<int32_t>(to)}; };
  const TestTensor x = f32({2}, {1.0f, -0.0f});
  check_equal<uint32_t>({Op::kBitCast, {x}, like(DType::kU32, {2})}, cast(DType::kU32), {0x3f800000u, 0x80000000u});
  check_equal<float>({Op::kBitCast, {s32({1}, {0x40490fdb})}, like(DType::kF32, {1})}, cast(DType::kF32), {3.14159274f});
  check_refused({Op::kBitCast, {x}, like(DType::kS64, {1})}, cast(DType::kS64), Code::kInvalidArgument);
  check_refused({Op::kBitCast, {x}, like(DType::kS32, {2})}, cast(DType::kU32), Code::kUnsupported);
}

TEST_CASE("shapes and types that do not fit are refused") {
  const TestTensor a = f32({2, 3}, {1, 2, 3, 4, 5, 6}), ints = s32({2, 3}, {1, 2, 3, 4, 5, 6});
  check_refused({Op::kMax, {a, f32({2}, {1, 2})}, like(DType::kF32, {2, 3})}, NoAttrs{}, Code::kInvalidArgument);
  check_refused({Op::kMax, {a, a}, like(DType::kF32, {4, 2, 3})}, NoAttrs{}, Code::kInvalidArgument);
  check_refused({Op::kMax, {a, ints}, like(DType::kF32, {2, 3})}, NoAttrs{}, Code::kUnsupported);
  check_refused({Op::kEqual, {a, a}, like(DType::kF32, {2, 3})}, NoAttrs{}, Code::kUnsupported);
  check_refused({Op::kBitAnd, {a, a}, like(DType::kF32, {2, 3})}, NoAttrs{}, Code::kUnsupported);
  check_refused({Op::kMod, {ints, ints}, like(DType::kS32, {2, 3})}, ModAttrs{2}, Code::kInvalidArgument);
  check_refused({Op::kLog, {a}, like(DType::kF32, {3, 3})}, NoAttrs{}, Code::kInvalidArgument);
  check_refused({Op::kLog, {ints}, like(DType::kF32, {2, 3})}, NoAttrs{}, Code::kUnsupported);
}

}  // namespace lathe::test
