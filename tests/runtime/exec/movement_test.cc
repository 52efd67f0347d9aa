// Reshape, Transpose, Slice, Pad, Concat, Gather, Shape, Cast and Assign against plain loops.
#include <cmath>
#include <limits>

#include "tests/machine.h"
#include "tests/runtime/exec/op_run.h"

namespace lathe::test {
namespace {

// Coordinates of flat position `at` in dims.
std::vector<int> coordinates(const std::vector<int>& dims, size_t at) {
  std::vector<int> c(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    c[d] = static_cast<int>(at % static_cast<size_t>(dims[d]));
    at /= static_cast<size_t>(dims[d]);
  }
  return c;
}
size_t position(const std::vector<int>& dims, const std::vector<int>& c) {
  size_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) at = at * static_cast<size_t>(dims[d]) + static_cast<size_t>(c[d]);
  return at;
}

// Element `from` of x as bytes of element `to` of y.
void move(const TestTensor& x, size_t from, std::vector<uint8_t>* y, size_t to) {
  const size_t bytes = dtype_bytes(x.dtype);
  std::memcpy(y->data() + to * bytes, x.bytes.data() + from * bytes, bytes);
}

// Random bits of any dtype; quantized s8 if q is given.
TestTensor random_bits(DType t, std::vector<int> dims, uint32_t seed, std::optional<QuantParams> q = {}) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> bytes(product(dims) * dtype_bytes(t));
  kernels::fill_ints(rng, bytes.data(), bytes.size(), 0, 255);
  return {t, std::move(dims), std::move(bytes), q, false};
}

const QuantParams kGrid{0.04f, 21, -128, 127};
// Every element size, and the quantized one that may lie in u8.
const struct {
  DType dtype;
  std::optional<QuantParams> quant;
} kTypes[] = {{DType::kS8, kGrid}, {DType::kU8, {}}, {DType::kF16, {}}, {DType::kF32, {}}, {DType::kS64, {}}};

Ints ints(const std::vector<int>& v) {
  Ints r;
  r.count = static_cast<int32_t>(v.size());
  std::copy(v.begin(), v.end(), r.values);
  return r;
}

}  // namespace

TEST_CASE("transposes of any rank and type put every element in its place") {
  const struct {
    std::vector<int> x, perm;
  } cases[] = {{{2, 3, 17, 19}, {0, 2, 3, 1}},
               {{2, 17, 19, 3}, {0, 3, 1, 2}},
               {{5, 4}, {1, 0}},
               {{3, 4, 5}, {2, 1, 0}},
               {{3, 4, 5, 2}, {1, 0, 2, 3}},
               {{2, 3, 4, 2}, {2, 0, 1, 3}},
               {{7}, {0}},
               {{}, {}},
               {{1, 64, 20, 20}, {0, 2, 3, 1}},
               {{2, 2, 3, 2, 3, 2, 2, 3}, {7, 0, 5, 2, 4, 1, 6, 3}},
               {{1, 3, 160, 130}, {0, 2, 3, 1}},
               {{0, 4}, {1, 0}},
               {{300, 200}, {1, 0}}};
  for (const auto& c : cases) {
    for (const auto& type : kTypes) {
      const TestTensor x = random_bits(type.dtype, c.x, 71, type.quant);
      std::vector<int> dims;
      for (const int axis : c.perm) dims.push_back(c.x[static_cast<size_t>(axis)]);
      std::vector<uint8_t> expected(x.bytes.size());
      for (size_t i = 0; i < x.elems(); ++i) {
        const std::vector<int> to = coordinates(dims, i);
        std::vector<int> from(to.size());
        for (size_t d = 0; d < to.size(); ++d) from[static_cast<size_t>(c.perm[d])] = to[d];
        move(x, position(c.x, from), &expected, i);
      }
      PermAttrs attrs;
      attrs.perm = ints(c.perm);
      check_equal({Op::kTranspose, {x}, like(type.dtype, dims, type.quant)}, attrs, expected);
    }
  }
}

TEST_CASE("permutations that are none are refused") {
  const TestTensor x = random_f32({2, 3}, 1);
  PermAttrs attrs;
  for (const std::vector<int>& perm :
       {std::vector<int>{0, 0}, std::vector<int>{0, 2}, std::vector<int>{-1, 0}, std::vector<int>{0}, std::vector<int>{0, 1}}) {
    attrs.perm = ints(perm);
    check_refused({Op::kTranspose, {x}, like(DType::kF32, {3, 2})}, attrs, Code::kInvalidArgument);
  }
}

TEST_CASE("slices follow ONNX: negative ends, ends past the end, backward steps") {
  const struct {
    std::vector<int> x, axes, begins, ends, steps, y, first;  // `first`: the element that goes first, by hand
  } cases[] = {
      {{4, 10}, {1}, {2}, {7}, {1}, {4, 5}, {0, 2}},
      {{4, 10}, {1}, {-3}, {INT32_MAX}, {1}, {4, 3}, {0, 7}},
      {{4, 10}, {1}, {-1}, {INT32_MIN}, {-3}, {4, 4}, {0, 9}},
      {{4, 10}, {0, 1}, {3, 1}, {-5, 9}, {-1, 2}, {4, 4}, {3, 1}},
      {{4, 10}, {1}, {7}, {2}, {1}, {4, 0}, {0, 0}},
      {{2, 6, 5, 8}, {2, 3}, {1, 0}, {4, 8}, {1, 1}, {2, 6, 3, 8}, {0, 0, 1, 0}},
      {{2, 6, 5, 8}, {1}, {0}, {6}, {2}, {2, 3, 5, 8}, {0, 0, 0, 0}},
      {{4, 10}, {1}, {20}, {0}, {-1}, {4, 9}, {0, 9}},
      {{9}, {0}, {0}, {9}, {INT32_MAX}, {1}, {0}},
      {{9}, {0}, {8}, {INT32_MIN}, {INT32_MIN}, {1}, {8}},
      {{3, 200, 150}, {2}, {1}, {150}, {2}, {3, 200, 75}, {0, 0, 1}},
  };
  for (const auto& c : cases) {
    for (const auto& type : kTypes) {
      const TestTensor x = random_bits(type.dtype, c.x, 72, type.quant);
      std::vector<uint8_t> expected(product(c.y) * dtype_bytes(type.dtype));
      for (size_t i = 0; i < product(c.y); ++i) {
        std::vector<int> at = coordinates(c.y, i);
        for (size_t k = 0; k < c.axes.size(); ++k)
          at[static_cast<size_t>(c.axes[k])] *= c.y[static_cast<size_t>(c.axes[k])] > 1 ? c.steps[k] : 0;
        for (size_t d = 0; d < at.size(); ++d) at[d] += c.first[d];
        move(x, position(c.x, at), &expected, i);
      }
      const SliceAttrs attrs{ints(c.axes), ints(c.begins), ints(c.ends), ints(c.steps)};
      check_equal({Op::kSlice, {x}, like(type.dtype, c.y, type.quant)}, attrs, expected);
    }
  }
}

TEST_CASE("slices that contradict their shapes are refused") {
  const TestTensor x = random_f32({4, 10}, 1);
  const auto refused = [&](const SliceAttrs& a, const std::vector<int>& y) {
    check_refused({Op::kSlice, {x}, like(DType::kF32, y)}, a, Code::kInvalidArgument);
  };
  refused({ints({1}), ints({2}), ints({7}), ints({1})}, {4, 6});
  refused({ints({1}), ints({2}), ints({7}), ints({0})}, {4, 5});
  refused({ints({2}), ints({2}), ints({7}), ints({1})}, {4, 5});
  refused({ints({1, 1}), ints({0, 2}), ints({10, 7}), ints({1, 1})}, {4, 5});
  refused({ints({1}), ints({2}), ints({}), ints({1})}, {4, 5});
  refused({ints({1}), ints({2}), ints({7}), ints({1})}, {20});
}

TEST_CASE("padding surrounds, negative padding crops, and the value is the output's own") {
  const struct {
    std::vector<int> x, before, after, y;
  } cases[] = {{{3, 4}, {1, 2}, {0, 3}, {4, 9}},
               {{3, 4}, {-1, 2}, {0, -1}, {2, 5}},
               {{3, 4}, {-2, 0}, {-1, 0}, {0, 4}},
               {{3}, {-5}, {4}, {2}},
               {{3}, {2}, {-4}, {1}},
               {{2, 3, 5, 4}, {0, 1, 1, 0}, {0, 1, 2, 0}, {2, 5, 8, 4}},
               {{1, 90, 90, 5}, {0, 1, 1, 0}, {0, 1, 1, 0}, {1, 92, 92, 5}}};
  for (const auto& c : cases) {
    for (const auto& type : kTypes) {
      PadAttrs attrs;
      attrs.before = ints(c.before);
      attrs.after = ints(c.after);
      attrs.value = type.dtype == DType::kF16 ? 0.0f : 2.0f;
      const TestTensor x = random_bits(type.dtype, c.x, 73, type.quant);
      uint64_t value = 0;
      if (type.quant) value = static_cast<uint8_t>(expected_round(2.0f / kGrid.scale, kGrid));
      else if (type.dtype == DType::kF32) value = 0x40000000u;
      else if (type.dtype != DType::kF16) value = 2;
      const size_t bytes = dtype_bytes(type.dtype);
      std::vector<uint8_t> expected(product(c.y) * bytes);
      for (size_t i = 0; i < product(c.y); ++i) {
        std::vector<int> at = coordinates(c.y, i);
        bool inside = true;
        for (size_t d = 0; d < at.size(); ++d) {
          at[d] -= c.before[d];
          inside = inside && at[d] >= 0 && at[d] < c.x[d] && at[d] < c.x[d] + std::min(0, c.after[d]);
        }
        if (inside) move(x, position(c.x, at), &expected, i);
        else std::memcpy(expected.data() + i * bytes, &value, bytes);
      }
      check_equal({Op::kPad, {x}, like(type.dtype, c.y, type.quant)}, attrs, expected);
    }
  }
  PadAttrs attrs;
  attrs.before = ints({1});
  attrs.after = ints({1});
  attrs.value = 0.5f;
  check_refused({Op::kPad, {s64({2}, {1, 2})}, like(DType::kS64, {4})}, attrs, Code::kUnsupported);
  check_refused({Op::kPad, {random_f32({2}, 1)}, like(DType::kF32, {3})}, attrs, Code::kInvalidArgument);
}

TEST_CASE("concat puts inputs side by side and regrids quantized ones that need it") {
  const QuantParams other{0.09f, -40, -128, 127};
  for (const std::vector<int>& lead : {std::vector<int>{}, std::vector<int>{3}, std::vector<int>{120, 130}}) {
    if (kSmallMachine && lead.size() == 2) continue;
    for (const auto& type : kTypes) {
      for (const std::vector<int>& tail : {std::vector<int>{}, std::vector<int>{4}}) {
        std::vector<TestTensor> inputs;
        std::vector<std::vector<uint8_t>> values;
        int total = 0;
        for (const int extent : {2, 1, 5}) {
          std::vector<int> dims = lead;
          dims.push_back(extent);
          dims.insert(dims.end(), tail.begin(), tail.end());
          TestTensor x = random_bits(type.dtype, dims, static_cast<uint32_t>(80 + extent), type.quant);
          std::vector<uint8_t> v = x.bytes;
          x.constant = extent == 1;
          if (type.quant && extent == 5) {
            x.quant = other;
            const float m = static_cast<float>(static_cast<double>(other.scale) / kGrid.scale);
            for (uint8_t& b : v)
              b = static_cast<uint8_t>(expected_round(static_cast<float>(static_cast<int8_t>(b) - other.zero_point) * m, kGrid));
          }
          values.push_back(v);
          inputs.push_back(x);
          total += extent;
        }
        std::vector<int> dims = lead;
        dims.push_back(total);
        dims.insert(dims.end(), tail.begin(), tail.end());
        std::vector<uint8_t> expected;
        for (size_t row = 0; row < product(lead); ++row) {
          for (const auto& v : values) {
            const size_t bytes = v.size() / product(lead);
            expected.insert(expected.end(), v.begin() + static_cast<ptrdiff_t>(row * bytes),
                            v.begin() + static_cast<ptrdiff_t>((row + 1) * bytes));
          }
        }
        AxisAttrs attrs;
        attrs.axis = static_cast<int32_t>(lead.size());
        check_equal({Op::kConcat, inputs, like(type.dtype, dims, type.quant)}, attrs, expected);
      }
    }
  }
  const TestTensor x = random_f32({2, 3}, 1);
  AxisAttrs attrs;
  attrs.axis = 1;
  // A grid of 32 bits is not shifted where 8-bit values are kept as u8, and its ends cannot be.
  const QuantParams wide{1.0f, 0, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  TestTensor sums = s32({2, 1}, {5, -6});
  sums.quant = wide;
  check_equal({Op::kConcat, {sums, sums}, like(DType::kS32, {2, 2}, wide)}, attrs, s32({2, 2}, {5, 5, -6, -6}).bytes);
  check_refused({Op::kConcat, {x, x}, like(DType::kF32, {2, 7})}, attrs, Code::kInvalidArgument);
  check_refused({Op::kConcat, {x, random_f32({3, 3}, 1)}, like(DType::kF32, {2, 6})}, attrs, Code::kInvalidArgument);
  check_refused({Op::kConcat, {x, s32({2, 3}, {1, 2, 3, 4, 5, 6})}, like(DType::kF32, {2, 6})}, attrs, Code::kUnsupported);
  check_refused({Op::kConcat, std::vector<TestTensor>(33, x), like(DType::kF32, {2, 99})}, attrs, Code::kUnsupported);
  attrs.axis = 2;
  check_refused({Op::kConcat, {x, x}, like(DType::kF32, {2, 6})}, attrs, Code::kInvalidArgument);
}

TEST_CASE("gather takes rows along an axis by positive and negative index") {
  const std::vector<int> dims = {3, 5, 4};
  for (int axis = 0; axis < 3; ++axis) {
    for (const auto& type : kTypes) {
      for (const bool constant : {false, true}) {
        TestTensor x = random_bits(type.dtype, dims, 91, type.quant);
        x.constant = constant;
        const std::vector<int64_t> picks = {2, -1, 0, -3, 1, 1};
        const std::vector<int32_t> narrow(picks.begin(), picks.end());
        std::vector<int> y(dims.begin(), dims.begin() + axis);
        y.insert(y.end(), {2, 3});
        y.insert(y.end(), dims.begin() + axis + 1, dims.end());
        std::vector<uint8_t> expected(product(y) * dtype_bytes(type.dtype));
        for (size_t i = 0; i < product(y); ++i) {
          const std::vector<int> c = coordinates(y, i);
          const auto a = static_cast<size_t>(axis);
          std::vector<int> from(c.begin(), c.begin() + axis);
          const int64_t pick = picks[static_cast<size_t>(c[a] * 3 + c[a + 1])];
          from.push_back(static_cast<int>(pick < 0 ? pick + dims[a] : pick));
          from.insert(from.end(), c.begin() + axis + 2, c.end());
          move(x, position(dims, from), &expected, i);
        }
        AxisAttrs attrs;
        attrs.axis = axis;
        check_equal({Op::kGather, {x, s64({2, 3}, picks)}, like(type.dtype, y, type.quant)}, attrs, expected);
        check_equal({Op::kGather, {x, s32({2, 3}, narrow).as_constant()}, like(type.dtype, y, type.quant)}, attrs, expected);
      }
    }
  }
}

TEST_CASE("an index out of range reads nothing: refused when constant, else NaN, zero point or 0") {
  AxisAttrs attrs;
  const std::vector<int64_t> picks = {3, -4, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), 1};
  const TestTensor x = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  check_refused({Op::kGather, {x, s64({5}, picks).as_constant()}, like(DType::kF32, {5, 2})}, attrs, Code::kInvalidArgument);
  for (const OpResult& r : run_everywhere({Op::kGather, {x, s64({5}, picks)}, like(DType::kF32, {5, 2})}, attrs)) {
    const std::vector<float> y = r.as<float>();
    for (size_t i = 0; i < 8; ++i) CHECK(std::isnan(y[i]));
    CHECK(y[8] == 3);
    CHECK(y[9] == 4);
  }
  const TestTensor q = q8({3}, {1, 2, 3}, kGrid);
  check_equal({Op::kGather, {q, s64({5}, picks)}, like(DType::kS8, {5}, kGrid)}, attrs, std::vector<int8_t>{21, 21, 21, 21, 2});
  check_equal({Op::kGather, {s64({3}, {7, 8, 9}), s64({5}, picks)}, like(DType::kS64, {5})}, attrs,
              std::vector<int64_t>{0, 0, 0, 0, 8});
  const TestTensor empty = f32({0, 2}, {});
  for (const OpResult& r : run_everywhere({Op::kGather, {empty, s64({1}, {0})}, like(DType::kF32, {1, 2})}, attrs))
    CHECK(std::isnan(r.as<float>()[1]));
}

TEST_CASE("reshape keeps the bytes, shape writes the dims") {
  for (const auto& type : kTypes) {
    const TestTensor x = random_bits(type.dtype, {4, 6, 3}, 92, type.quant);
    check_equal({Op::kReshape, {x}, like(type.dtype, {8, 9}, type.quant)}, NoAttrs{}, x.bytes);
    check_refused({Op::kReshape, {x}, like(type.dtype, {8, 8}, type.quant)}, NoAttrs{}, Code::kInvalidArgument);
  }
  check_refused({Op::kReshape, {random_q8({4}, 1, kGrid)}, like(DType::kS8, {4}, QuantParams{})}, NoAttrs{}, Code::kUnsupported);
  check_equal({Op::kShape, {random_f32({4, 0, 3}, 1)}, like(DType::kS64, {3})}, NoAttrs{}, std::vector<int64_t>{4, 0, 3});
  check_refused({Op::kShape, {random_f32({4, 3}, 1)}, like(DType::kS64, {3})}, NoAttrs{}, Code::kInvalidArgument);
}

TEST_CASE("casts truncate toward zero, saturate from reals, keep low bits of integers") {
  const auto cast = [](DType to) {
    CastAttrs a;
    a.to = static_cast<int32_t>(to);
    return a;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const TestTensor x = f32({8}, {1.9f, -1.9f, 300.0f, -300.0f, 3e9f, -inf, nan, 1e30f});
  check_equal({Op::kCast, {x}, like(DType::kS32, {8})}, cast(DType::kS32),
              std::vector<int32_t>{1, -1, 300, -300, INT32_MAX, INT32_MIN, 0, INT32_MAX});
  check_equal({Op::kCast, {x}, like(DType::kU8, {8})}, cast(DType::kU8), std::vector<uint8_t>{1, 0, 255, 0, 255, 0, 0, 255});
  check_equal({Op::kCast, {x}, like(DType::kS64, {8})}, cast(DType::kS64),
              std::vector<int64_t>{1, -1, 300, -300, 3000000000, INT64_MIN, 0, INT64_MAX});
  check_equal({Op::kCast, {x}, like(DType::kBool, {8})}, cast(DType::kBool), std::vector<uint8_t>{1, 1, 1, 1, 1, 1, 1, 1});
  const TestTensor n = s64({5}, {0, -1, 257, (1LL << 32) + 5, 16777217});
  check_equal({Op::kCast, {n}, like(DType::kS32, {5})}, cast(DType::kS32), std::vector<int32_t>{0, -1, 257, 5, 16777217});
  check_equal({Op::kCast, {n}, like(DType::kU8, {5})}, cast(DType::kU8), std::vector<uint8_t>{0, 255, 1, 5, 1});
  check_equal({Op::kCast, {n}, like(DType::kBool, {5})}, cast(DType::kBool), std::vector<uint8_t>{0, 1, 1, 1, 1});
  check_equal({Op::kCast, {n}, like(DType::kF32, {5})}, cast(DType::kF32),
              std::vector<float>{0, -1, 257, 4294967296.0f, 16777216.0f});
  const TestTensor b = tensor_of(DType::kBool, {3}, std::vector<uint8_t>{0, 1, 7});
  check_equal({Op::kCast, {b}, like(DType::kF32, {3})}, cast(DType::kF32), std::vector<float>{0, 1, 1});
  const TestTensor big = random_f32({50001}, 5);
  std::vector<double> doubles(big.data<float>(), big.data<float>() + big.elems());
  check_equal({Op::kCast, {big}, like(DType::kF64, {50001})}, cast(DType::kF64), doubles);
  const std::vector<uint16_t> halves = {0x3f9a, 0xbf9a, 0x5cb0, 0xdcb0, 0x7c00, 0xfc00, 0x7e00, 0x7c00};
  check_equal({Op::kCast, {x}, like(DType::kF16, {8})}, cast(DType::kF16), halves);
  const TestTensor h = tensor_of(DType::kF16, {4}, std::vector<uint16_t>{0x3c00, 0x0001, 0xfbff, 0x7c00});
  check_equal({Op::kCast, {h}, like(DType::kF32, {4})}, cast(DType::kF32), std::vector<float>{1.0f, 0x1p-24f, -65504.0f, inf});
  check_refused({Op::kCast, {random_q8({8}, 1, kGrid)}, like(DType::kF32, {8})}, cast(DType::kF32), Code::kUnsupported);
  check_refused({Op::kCast, {x}, like(DType::kS32, {8})}, cast(DType::kS64), Code::kInvalidArgument);
}

TEST_CASE("assign writes the variable that the next run reads") {
  for (const BindOptions& o : all_options()) {
    CAPTURE(describe(o));
    ProgramBuilder b;
    const std::vector<int8_t> start = {1, 2, 3, 4};
    const uint32_t v = b.variable(DType::kS8, {4}, start.data(), start.size(), kGrid);
    const uint32_t x = b.input(DType::kS8, {4}, kGrid), y = b.output(DType::kS8, {4}, kGrid);
    b.step(Op::kReshape, NoAttrs{}, {v}, {y});
    b.step(Op::kAssign, NoAttrs{}, {v, x}, {});
    const BuiltProgram built = b.build();
    Program program;
    REQUIRE(built.open(&program).ok());
    CoreRun run;
    Shape four;
    four.rank = 1;
    four.dims[0] = 4;
    REQUIRE(run.bind(program, {four}, o).ok());
    const std::vector<int8_t> first = {-128, 127, 0, -1}, second = {9, 9, 9, 9};
    std::vector<int8_t> out(4);
    run.run({first.data()}, {out.data()});
    CHECK(out == start);
    run.run({second.data()}, {out.data()});
    CHECK(out == first);
  }
}

}  // namespace lathe::test
