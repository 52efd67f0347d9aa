// Operators that read, write and size by data: what the conformance cases leave out. Indices that are outside, several writers of
// one place, tasks, types, and shapes that do not fit.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/runtime/exec/op_run.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const QuantParams kGrid{0.5f, 3, -128, 127};

TestTensor u8(std::vector<int> dims, const std::vector<uint8_t>& v, DType t = DType::kU8) { return tensor_of(t, std::move(dims), v); }

}  // namespace

TEST_CASE("GatherElements takes each element from its own line, and nothing from outside") {
  const TestTensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  OpCase c{Op::kGatherElements, {x, s64({2, 2}, {2, -3, 5, -1})}, like(DType::kF32, {2, 2})};
  for (const OpResult& r : run_everywhere(c, AxisAttrs{1})) {
    const std::vector<float> y = r.as<float>();
    CHECK(y[0] == 3);
    CHECK(y[1] == 1);
    CHECK(std::isnan(y[2]));
    CHECK(y[3] == 6);
  }
  check_equal<int8_t>({Op::kGatherElements, {q8({3}, {7, 8, 9}, kGrid), s32({3}, {2, 9, 0})}, like(DType::kS8, {3}, kGrid)},
                      AxisAttrs{0}, {9, 3, 7});
  check_equal<int64_t>({Op::kGatherElements, {s64({3, 2}, {1, 2, 3, 4, 5, 6}), s64({1, 2}, {2, 0})}, like(DType::kS64, {1, 2})},
                       AxisAttrs{0}, {5, 2});
  c.inputs[1] = s64({2, 2}, {2, -3, 5, -1}).as_constant();
  check_refused(c, AxisAttrs{1}, Code::kInvalidArgument);
  c.inputs[1] = s64({3, 2}, {0, 0, 0, 0, 0, 0});
  c.output.dims = {3, 2};
  check_refused(c, AxisAttrs{1}, Code::kInvalidArgument);  // more lines than there are
}

TEST_CASE("GatherNd takes slices by tuples of indices, batch by batch") {
  const TestTensor x = f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  check_equal<float>({Op::kGatherNd, {x, s64({2, 2}, {0, 1, -1, 0})}, like(DType::kF32, {2, 2})}, GatherNdAttrs{0}, {2, 3, 4, 5});
  check_equal<float>({Op::kGatherNd, {x, s64({2, 1}, {1, 0})}, like(DType::kF32, {2, 2})}, GatherNdAttrs{1}, {2, 3, 4, 5});
  const OpCase outside{Op::kGatherNd, {x, s64({2, 2}, {0, 2, 0, -3})}, like(DType::kF32, {2, 2})};
  for (const OpResult& r : run_everywhere(outside, GatherNdAttrs{0}))
    for (const float v : r.as<float>()) CHECK(std::isnan(v));
  check_refused(OpCase{Op::kGatherNd, {x, s64({2, 4}, std::vector<int64_t>(8))}, like(DType::kF32, {2})}, GatherNdAttrs{0},
                Code::kInvalidArgument);
  check_refused(OpCase{Op::kGatherNd, {x, s64({3, 1}, {0, 0, 0})}, like(DType::kF32, {3, 2})}, GatherNdAttrs{1},
                Code::kInvalidArgument);
}

TEST_CASE("ScatterElements reduces in order and writes nothing outside") {
  const TestTensor x = f32({4}, {1, 2, 3, 4}), at = s64({4}, {1, 1, -1, 4}), u = f32({4}, {5, 7, -9, 100});
  const auto run = [&](ScatterReduction r, const std::vector<float>& expected) {
    check_equal<float>({Op::kScatterElements, {x, at, u}, like(DType::kF32, {4})}, ScatterAttrs{0, static_cast<int32_t>(r)}, expected);
  };
  run(ScatterReduction::kNone, {1, 7, 3, -9});
  run(ScatterReduction::kAdd, {1, 14, 3, -5});
  run(ScatterReduction::kMul, {1, 70, 3, -36});
  run(ScatterReduction::kMin, {1, 2, 3, -9});
  run(ScatterReduction::kMax, {1, 7, 3, 4});
  check_equal<int8_t>({Op::kScatterElements,
                       {tensor_of<int8_t>(DType::kS8, {2}, {100, 0}), s64({1}, {0}), tensor_of<int8_t>(DType::kS8, {1}, {100})},
                       like(DType::kS8, {2})},
                      ScatterAttrs{0, 1}, {-56, 0});  // integers wrap around
  OpCase c{Op::kScatterElements, {x, at, f32({3}, {1, 2, 3})}, like(DType::kF32, {4})};
  check_refused(c, ScatterAttrs{}, Code::kInvalidArgument);
  c.inputs[2] = u;
  check_refused(c, ScatterAttrs{0, 9}, Code::kInvalidArgument);
  check_refused(c, ScatterAttrs{1, 0}, Code::kInvalidArgument);
}

TEST_CASE("ScatterNd writes slices and leaves out tuples that are outside") {
  const TestTensor x = s32({3, 2}, {1, 2, 3, 4, 5, 6});
  check_equal<int32_t>({Op::kScatterNd, {x, s64({3, 1}, {2, 0, 3}), s32({3, 2}, {7, 8, 9, 10, 11, 12})}, like(DType::kS32, {3, 2})},
                       ScatterAttrs{0, 1}, {10, 12, 3, 4, 12, 14});
  check_equal<int32_t>({Op::kScatterNd, {x, s64({2, 2}, {0, 1, -4, 0}), s32({2}, {20, 30})}, like(DType::kS32, {3, 2})},
                       ScatterAttrs{}, {1, 20, 3, 4, 5, 6});
  check_refused(OpCase{Op::kScatterNd, {x, s64({1, 3}, {0, 0, 0}), s32({1}, {1})}, like(DType::kS32, {3, 2})}, ScatterAttrs{},
                Code::kInvalidArgument);
}

TEST_CASE("TensorScatter writes from each sample's place on") {
  const TestTensor x = f32({2, 4}, {0, 0, 0, 0, 1, 1, 1, 1}), u = f32({2, 2}, {5, 6, 7, 8});
  check_equal<float>({Op::kTensorScatter, {x, u, s64({2}, {3, 1})}, like(DType::kF32, {2, 4})}, TensorScatterAttrs{1, 1},
                     {6, 0, 0, 5, 1, 7, 8, 1});
  check_equal<float>({Op::kTensorScatter, {x, u, s64({2}, {3, -1})}, like(DType::kF32, {2, 4})}, TensorScatterAttrs{1, 0},
                     {0, 0, 0, 5, 1, 1, 1, 1});
  check_refused(OpCase{Op::kTensorScatter, {x, f32({2, 5}, std::vector<float>(10)), s64({2}, {0, 0})}, like(DType::kF32, {2, 4})},
                TensorScatterAttrs{1, 0}, Code::kInvalidArgument);
}

TEST_CASE("OneHot takes indices of any type") {
  check_equal<float>({Op::kOneHot, {s64({3}, {1, -1, 3}), f32({2}, {2, 5})}, like(DType::kF32, {3, 3})}, OneHotAttrs{1, 3},
                     {2, 5, 2, 2, 2, 5, 2, 2, 2});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  check_equal<int32_t>({Op::kOneHot, {f32({4}, {1.75f, -2, 1e30f, nan}), s32({2}, {0, 1})}, like(DType::kS32, {2, 4})},
                       OneHotAttrs{0, 2}, {0, 1, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("ReverseSequence turns the first elements of each sample") {
  const std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  check_equal<float>({Op::kReverseSequence, {f32({3, 3}, x), s64({3}, {2, 3, 99})}, like(DType::kF32, {3, 3})},
                     ReverseSequenceAttrs{0, 1}, {1, 0, 2, 5, 4, 3, 8, 7, 6});
  check_equal<float>({Op::kReverseSequence, {f32({3, 3}, x), s64({3}, {2, -5, 1})}, like(DType::kF32, {3, 3})},
                     ReverseSequenceAttrs{1, 0}, {3, 1, 2, 0, 4, 5, 6, 7, 8});
}

TEST_CASE("NonZero and Compress give places and parts, and how many") {
  const OpCase non_zero{Op::kNonZero, {f32({2, 2}, {0, -1, 0.5f, 0})}, like(DType::kS64, {2, 4}), {like(DType::kS64, {1})}};
  for (const OpResult& r : run_everywhere(non_zero, NoAttrs{})) {
    CHECK(OpResult::as<int64_t>(r.parts[0]) == std::vector<int64_t>{0, 1, 0, 0, 1, 0, 0, 0});
    CHECK(OpResult::as<int64_t>(r.parts[1]) == std::vector<int64_t>{2});
  }
  const OpCase compress{Op::kCompress,
                        {f32({2, 3}, {1, 2, 3, 4, 5, 6}), u8({2}, {0, 1}, DType::kBool)},
                        like(DType::kF32, {2, 3}),
                        {like(DType::kS64, {1})}};
  for (const OpResult& r : run_everywhere(compress, AxisAttrs{1})) {
    CHECK(OpResult::as<float>(r.parts[0]) == std::vector<float>{2, 0, 0, 5, 0, 0});
    CHECK(OpResult::as<int64_t>(r.parts[1]) == std::vector<int64_t>{1});
  }
}

TEST_CASE("Unique sorts or keeps the order, and takes all that is not a number as one") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const OpCase c{Op::kUnique,
                 {f32({6}, {3, nan, 1, 3, nan, 2})},
                 like(DType::kF32, {6}),
                 {like(DType::kS64, {6}), like(DType::kS64, {6}), like(DType::kS64, {6}), like(DType::kS64, {1})}};
  const auto check = [&](int32_t sorted, const std::vector<float>& values, const std::vector<std::vector<int64_t>>& more) {
    for (const OpResult& r : run_everywhere(c, UniqueAttrs{0, sorted})) {
      const std::vector<float> y = OpResult::as<float>(r.parts[0]);
      for (size_t i = 0; i < values.size(); ++i) CHECK((y[i] == values[i] || (std::isnan(y[i]) && std::isnan(values[i]))));
      for (size_t k = 0; k < more.size(); ++k) CHECK(OpResult::as<int64_t>(r.parts[k + 1]) == more[k]);
    }
  };
  check(1, {1, 2, 3, nan}, {{2, 5, 0, 1, 0, 0}, {2, 3, 0, 2, 3, 1}, {1, 1, 2, 2, 0, 0}, {4}});
  check(0, {3, nan, 1, 2}, {{0, 1, 2, 5, 0, 0}, {0, 1, 2, 0, 1, 3}, {2, 2, 1, 1, 0, 0}, {4}});
}

TEST_CASE("ranges count in their own type") {
  check_equal<int16_t>({Op::kRange,
                        {tensor_of<int16_t>(DType::kS16, {}, {32766}), tensor_of<int16_t>(DType::kS16, {}, {0}),
                         tensor_of<int16_t>(DType::kS16, {}, {1})},
                        like(DType::kS16, {3})},
                       NoAttrs{}, {32766, 32767, -32768});
  const auto count = [](TestTensor a, TestTensor b, TestTensor d, int64_t n) {
    check_equal<int64_t>({Op::kRangeCount, {std::move(a), std::move(b), std::move(d)}, like(DType::kS64, {1})}, NoAttrs{}, {n});
  };
  count(s64({}, {3}), s64({}, {10}), s64({}, {4}), 2);
  count(s64({}, {10}), s64({}, {3}), s64({}, {-7}), 1);
  count(s64({}, {10}), s64({}, {3}), s64({}, {1}), 0);
  count(s64({}, {10}), s64({}, {30}), s64({}, {0}), 0);
  count(s64({}, {INT64_MIN}), s64({}, {INT64_MAX}), s64({}, {1}), INT64_MAX);  // more than any tensor holds
  count(f32({}, {1}), f32({}, {5}), f32({}, {2}), 2);
  count(f32({}, {1}), f32({}, {5.5f}), f32({}, {2}), 3);
  count(f32({}, {0}), f32({}, {1}), f32({}, {0}), INT64_MAX);
}

TEST_CASE("a reshape's target is resolved when it is there") {
  const TestTensor x = random_f32({2, 3, 4}, 1);
  const auto resolve = [&](const std::vector<int64_t>& target, const std::vector<int64_t>& dims, int32_t keep_zeros = 0) {
    const int n = static_cast<int>(target.size());
    check_equal<int64_t>({Op::kTargetDims, {x, s64({n}, target)}, like(DType::kS64, {n})}, TargetDimsAttrs{keep_zeros}, dims);
  };
  resolve({4, 6}, {4, 6});
  resolve({0, -1}, {2, 12});
  resolve({-1, 0, 2}, {4, 3, 2});
  resolve({0, 5}, {0, 5}, 1);
  resolve({-1, -1}, {-1, -1});
  resolve({1, 1, 1, 0}, {1, 1, 1, -2});
  resolve({-1, 5}, {-1, 5});
  resolve({-1, INT64_MAX, INT64_MAX}, {-1, INT64_MAX, INT64_MAX});
}
