// Operators that move data and look at windows, with wrong bytes (mutation.h).
#include "tests/runtime/exec/mutation.h"

namespace lathe::test {
namespace {

TestTensor mask(int n) {
  std::vector<uint8_t> v;
  for (int i = 0; i < n; ++i) v.push_back(static_cast<uint8_t>(i % 3 == 0));
  return tensor_of(DType::kBool, {n}, v);
}

void mutate_sizes(Mutated* count) {
  const TestTensor x = random_f32({4, 6, 5}, 1), number = s64({}, {3});
  const TestTensor one = like(DType::kS64, {1});
  mutate_op({Op::kExtents, {s64({3}, {1, 2, 3})}, like(DType::kS64, {3})}, ExtentsAttrs{2}, count);
  mutate_op({Op::kTargetDims, {x, s64({2}, {0, -1})}, like(DType::kS64, {2})}, TargetDimsAttrs{0}, count);
  mutate_op({Op::kTrim, {x}, like(DType::kF32, {4, 3, 5})}, AxisAttrs{1}, count);
  mutate_op({Op::kRange, {number, number, number}, like(DType::kS64, {7})}, NoAttrs{}, count);
  mutate_op({Op::kRangeCount, {number, number, number}, one}, NoAttrs{}, count);
  mutate_op({Op::kNonZero, {x}, like(DType::kS64, {3, 120}), {one}}, NoAttrs{}, count);
  mutate_op({Op::kCompress, {x, mask(6)}, like(DType::kF32, {4, 6, 5}), {one}}, AxisAttrs{1}, count);
  const TestTensor six = like(DType::kS64, {6});
  mutate_op({Op::kUnique, {x}, like(DType::kF32, {4, 6, 5}), {six, six, six, one}}, UniqueAttrs{1, 0}, count);
  mutate_op({Op::kExpand, {random_f32({6, 1}, 2)}, like(DType::kF32, {4, 6, 5})}, NoAttrs{}, count);
  mutate_op({Op::kTile, {x}, like(DType::kF32, {8, 6, 15})}, TileAttrs{{3, {2, 1, 3}}}, count);
  mutate_op({Op::kBorder, {x}, like(DType::kF32, {4, 9, 7})}, BorderAttrs{{3, {0, 2, 1}}, {3, {0, 1, 1}}, 0}, count);
}

void mutate_indexing(Mutated* count) {
  const TestTensor x = random_f32({4, 6, 5}, 1), y = like(DType::kF32, {4, 6, 5});
  const TestTensor at = s64({2, 3, 5}, std::vector<int64_t>(30, -2)), tuples = s64({3, 2}, {0, 1, -1, 5, 9, 0});
  mutate_op({Op::kGatherElements, {x, at}, like(DType::kF32, {2, 3, 5})}, AxisAttrs{1}, count);
  mutate_op({Op::kGatherElements, {x, at.as_constant()}, like(DType::kF32, {2, 3, 5})}, AxisAttrs{0}, count);
  mutate_op({Op::kGatherNd, {x, tuples}, like(DType::kF32, {3, 5})}, GatherNdAttrs{0}, count);
  mutate_op({Op::kScatterElements, {x, at, random_f32({2, 3, 5}, 2)}, y}, ScatterAttrs{1, 1}, count);
  mutate_op({Op::kScatterNd, {x, tuples, random_f32({3, 5}, 2)}, y}, ScatterAttrs{0, 4}, count);
  mutate_op({Op::kTensorScatter, {x, random_f32({4, 2, 5}, 2), s64({4}, {0, 5, 9, -1})}, y}, TensorScatterAttrs{1, 1}, count);
  mutate_op({Op::kOneHot, {s64({2, 3}, {0, 1, 2, -1, 9, 3}), f32({2}, {0, 1})}, like(DType::kF32, {2, 4, 3})}, OneHotAttrs{1, 4},
            count);
  mutate_op({Op::kReverseSequence, {x, s64({6}, {0, 1, 2, 3, 4, 9})}, y}, ReverseSequenceAttrs{1, 0}, count);
}

void mutate_windows(Mutated* count) {
  const TestTensor x = random_f32({2, 3, 6, 7}, 1);
  ResizeAttrs resize;
  resize.axis = 2;
  resize.scale_up = 3;
  resize.scale_down = 2;
  mutate_op({Op::kResizeNearest, {x}, like(DType::kF32, {2, 3, 9, 7})}, resize, count);
  resize.mode = static_cast<int32_t>(ResizeMode::kCubic);
  resize.antialias = 1;
  mutate_op({Op::kResize, {x}, like(DType::kF32, {2, 3, 9, 7})}, resize, count);
  ArgMaxPoolAttrs pool;
  pool.kernel[0] = pool.kernel[1] = 3;
  pool.pad[0] = pool.pad[1] = pool.pad[2] = pool.pad[3] = 1;
  mutate_op({Op::kArgMaxPool2d, {x}, like(DType::kF32, {2, 3, 6, 7}), {like(DType::kS64, {2, 3, 6, 7})}}, pool, count);
  const Col2ImAttrs col2im{{2, {5, 5}}, {2, {2, 2}}, {2, {1, 1}}, {2, {1, 1}}, {2, {0, 0}}, {2, {0, 0}}};
  mutate_op({Op::kCol2Im, {random_f32({2, 12, 16}, 2)}, like(DType::kF32, {2, 3, 5, 5})}, col2im, count);
  RoiAlignAttrs roi;
  roi.height = roi.width = 2;
  roi.sampling = 2;
  mutate_op({Op::kRoiAlign, {x, random_f32({3, 4}, 3, 0, 6), s64({3}, {0, 1, 2})}, like(DType::kF32, {3, 3, 2, 2})}, roi, count);
  const EinsumAttrs product{{3, {0, 1, 2}}, {2, {2, 3}}, {3, {3, 0, 1}}};
  mutate_op({Op::kEinsum, {random_f32({4, 6, 5}, 4), random_f32({5, 3}, 5)}, like(DType::kF32, {3, 4, 6})}, product, count);
}

}  // namespace

TEST_CASE("changed bytes of operators that move data end in an error or in a run within bounds" * doctest::skip(kSmallMachine)) {
  MESSAGE("seed " << kMutationSeed);
  Mutated count;
  mutate_sizes(&count);
  mutate_indexing(&count);
  mutate_windows(&count);
  MESSAGE(count.refused << " refused, " << count.ran << " ran");
  CHECK(count.refused > 1000);
  CHECK(count.ran > 1000);
}

}  // namespace lathe::test
