// Every operator with wrong bytes (mutation.h).
#include "tests/runtime/exec/mutation.h"

namespace lathe::test {

TEST_CASE("changed bytes of any operator end in an error or in a run within bounds" * doctest::skip(kSmallMachine)) {
  MESSAGE("seed " << kMutationSeed);
  const QuantParams q{0.1f, 3, -128, 127}, probability{1.0f / 256, -128, -128, 127};
  const TestTensor x = random_f32({2, 5, 6, 7}, 1), xq = random_q8({2, 5, 6, 7}, 2, q), vector = random_f32({7}, 3);
  const TestTensor y = like(DType::kF32, {2, 5, 6, 7}), yq = like(DType::kS8, {2, 5, 6, 7}, q);
  const TestTensor lut = tensor_of(DType::kS8, {256}, std::vector<int8_t>(256)).as_constant();
  const TestTensor exps = tensor_of(DType::kU16, {256}, std::vector<uint16_t>(256, 65535)).as_constant();
  const TestTensor indices = s64({3}, {0, -1, 1});
  Mutated count;
  Pool2dAttrs pool;
  pool.kernel[0] = pool.kernel[1] = 3;
  pool.pad[0] = pool.pad[1] = pool.pad[2] = pool.pad[3] = 1;
  AxisAttrs last;
  last.axis = 3;
  ReduceAttrs spatial;
  spatial.axes.count = 2;
  spatial.axes.values[0] = 1, spatial.axes.values[1] = 2;
  PermAttrs perm;
  perm.perm.count = 4;
  for (int i = 0; i < 4; ++i) perm.perm.values[i] = (i + 1) % 4;
  SliceAttrs slice;
  slice.axes.count = slice.begins.count = slice.ends.count = slice.steps.count = 1;
  slice.axes.values[0] = 2, slice.begins.values[0] = 1, slice.ends.values[0] = 5, slice.steps.values[0] = 2;
  PadAttrs pad;
  pad.before.count = pad.after.count = 4;
  pad.before.values[1] = 2, pad.after.values[2] = -1;
  BatchNormAttrs norm;
  norm.axis = 3;
  CastAttrs cast;
  cast.to = static_cast<int32_t>(DType::kS64);
  MatMulAttrs heads;
  heads.a_perm.count = heads.b_perm.count = 4;
  for (int i = 0; i < 4; ++i) heads.a_perm.values[i] = heads.b_perm.values[i] = i;
  heads.a_perm.values[1] = 2, heads.a_perm.values[2] = 1;
  heads.b_perm.values[1] = 2, heads.b_perm.values[2] = 3, heads.b_perm.values[3] = 1;
  const QuantParams symmetric{0.1f, 0, -128, 127};
  for (const bool quantized : {false, true}) {
    const TestTensor &a = quantized ? xq : x, &r = quantized ? yq : y;
    const DType t = a.dtype;
    const std::optional<QuantParams> g = a.quant;
    mutate_op({Op::kAdd, {a, quantized ? random_q8({7}, 5, q).as_constant() : vector}, r}, BinaryAttrs{}, &count);
    mutate_op({Op::kMul, {a, a}, r}, BinaryAttrs{}, &count);
    mutate_op({Op::kClamp, {a}, r}, ClampAttrs{}, &count);
    mutate_op({Op::kLeakyRelu, {a}, r}, LeakyReluAttrs{}, &count);
    mutate_op({Op::kMaxPool2d, {a}, r}, pool, &count);
    mutate_op({Op::kAvgPool2d, {a}, r}, pool, &count);
    mutate_op({Op::kMean, {a}, like(t, {2, 7}, g)}, spatial, &count);
    mutate_op({Op::kMatMul, {a, quantized ? random_q8({2, 5, 6, 7}, 6, symmetric) : a}, like(t, {2, 6, 5, 5}, g)}, heads, &count);
    mutate_op({Op::kWhere, {like(DType::kBool, {6, 1}), a, a}, r}, NoAttrs{}, &count);
    mutate_op({Op::kReduceMax, {a}, like(t, {2, 7}, g)}, spatial, &count);
    mutate_op({Op::kArgMax, {a}, like(DType::kS64, {2, 5, 7})}, ArgAttrs{2, 0, 0}, &count);
    mutate_op({Op::kTrilu, {a}, r}, TriluAttrs{}, &count);
    mutate_op({Op::kReshape, {a}, like(t, {10, 42}, g)}, NoAttrs{}, &count);
    mutate_op({Op::kTranspose, {a}, like(t, {5, 6, 7, 2}, g)}, perm, &count);
    mutate_op({Op::kSlice, {a}, like(t, {2, 5, 2, 7}, g)}, slice, &count);
    mutate_op({Op::kPad, {a}, like(t, {2, 7, 5, 7}, g)}, pad, &count);
    mutate_op({Op::kConcat, {a, a, a.as_constant()}, like(t, {2, 5, 6, 21}, g)}, last, &count);
    mutate_op({Op::kGather, {a, indices}, like(t, {2, 5, 6, 3}, g)}, last, &count);
    mutate_op({Op::kGather, {a.as_constant(), indices.as_constant()}, like(t, {2, 5, 6, 3}, g)}, last, &count);
  }
  mutate_op({Op::kSigmoid, {x}, y}, NoAttrs{}, &count);
  mutate_op({Op::kTanh, {xq, lut}, yq}, NoAttrs{}, &count);
  mutate_op({Op::kSoftmax, {x}, y}, AxisAttrs{1}, &count);
  mutate_op({Op::kSoftmax, {xq, exps}, like(DType::kS8, {2, 5, 6, 7}, probability)}, last, &count);
  mutate_op({Op::kBatchNorm, {x, vector, vector, vector, vector}, y}, norm, &count);
  mutate_op({Op::kLayerNorm, {x, vector, vector}, y}, LayerNormAttrs{3, 1e-5f}, &count);
  mutate_op({Op::kLayerNorm, {xq, vector.as_constant(), vector.as_constant()}, yq}, LayerNormAttrs{3, 1e-5f}, &count);
  mutate_op({Op::kGelu, {x}, y}, GeluAttrs{}, &count);
  mutate_op({Op::kShape, {x}, like(DType::kS64, {4})}, NoAttrs{}, &count);
  mutate_op({Op::kCast, {x}, like(DType::kS64, {2, 5, 6, 7})}, cast, &count);
  mutate_op({Op::kQuantize, {x}, yq}, NoAttrs{}, &count);
  mutate_op({Op::kDequantize, {xq.as_constant()}, y}, NoAttrs{}, &count);
  mutate_op({Op::kRegrid, {xq}, yq}, NoAttrs{}, &count);
  mutate_op({Op::kDiv, {s64({3}, {1, 2, 3}), s64({1}, {0})}, like(DType::kS64, {3})}, BinaryAttrs{}, &count);
  mutate_op({Op::kLog, {x}, y}, NoAttrs{}, &count);
  mutate_op({Op::kElu, {xq, lut}, yq}, EluAttrs{}, &count);
  mutate_op({Op::kMax, {x, vector}, y}, NoAttrs{}, &count);
  mutate_op({Op::kMod, {s64({3}, {1, 2, 3}), s64({1}, {0})}, like(DType::kS64, {3})}, ModAttrs{}, &count);
  mutate_op({Op::kPow, {s64({3}, {1, 2, 3}), s64({1}, {-7})}, like(DType::kS64, {3})}, NoAttrs{}, &count);
  mutate_op({Op::kLess, {x, x}, like(DType::kBool, {2, 5, 6, 7})}, NoAttrs{}, &count);
  mutate_op({Op::kReduceSum, {x}, like(DType::kF32, {2, 7})}, spatial, &count);
  mutate_op({Op::kCumSum, {x}, y}, CumulateAttrs{2, 1, 1}, &count);
  mutate_op({Op::kDet, {random_f32({4, 3, 3}, 1)}, like(DType::kF32, {4})}, NoAttrs{}, &count);
  mutate_op({Op::kBitCast, {x}, like(DType::kS32, {2, 5, 6, 7})}, CastAttrs{static_cast<int32_t>(DType::kS32)}, &count);
  OpCase top_k{Op::kTopK, {x}, like(DType::kF32, {2, 5, 3, 7})};
  top_k.more_outputs = {like(DType::kS64, {2, 5, 3, 7})};
  mutate_op(top_k, TopKAttrs{2, 3, 1}, &count);
  const TestTensor bytes = tensor_of(DType::kU8, {2, 5, 6, 7}, std::vector<uint8_t>(420, 7)),
                   bytes_out = like(DType::kU8, {2, 5, 6, 7});
  mutate_op({Op::kFromInteger, {bytes}, yq}, NoAttrs{}, &count);
  mutate_op({Op::kToInteger, {xq}, bytes_out}, CastAttrs{static_cast<int32_t>(DType::kU8)}, &count);
  mutate_op({Op::kQuantizeLinear, {x, vector}, bytes_out}, QuantizeLinearAttrs{3}, &count);
  mutate_op({Op::kQuantizeLinear, {x, random_f32({2, 5, 2, 7}, 8)}, bytes_out}, QuantizeLinearAttrs{2, 3}, &count);
  mutate_op({Op::kDequantizeLinear, {bytes, vector}, y}, DequantizeLinearAttrs{3, 0}, &count);
  const TestTensor zero = tensor_of(DType::kU8, {}, std::vector<uint8_t>{3});
  mutate_op({Op::kMatMulInteger,
             {bytes, tensor_of(DType::kU8, {5, 7, 4}, std::vector<uint8_t>(140, 9)), zero},
             like(DType::kS32, {2, 5, 6, 4})},
            NoAttrs{}, &count);
  Conv2dAttrs windows;
  windows.pad[0] = windows.pad[1] = 1;
  mutate_op({Op::kConvInteger,
             {bytes, tensor_of(DType::kU8, {3, 2, 2, 7}, std::vector<uint8_t>(84, 9)), zero},
             like(DType::kS32, {2, 5, 6, 3})},
            windows, &count);
  const TestTensor dy = random_f32({2, 3, 6, 4}, 9);
  mutate_op({Op::kConv2dWeightGrad, {x, dy}, like(DType::kF32, {4, 3, 1, 7})}, Conv2dWeightGradAttrs{.kernel = {3, 1}}, &count);
  mutate_op({Op::kMaxPool2dGrad, {x, x}, y}, pool, &count);
  mutate_op({Op::kAvgPool2dGrad, {x, x}, y}, pool, &count);
  mutate_op({Op::kClampGrad, {x, x}, y}, ClampAttrs{}, &count);
  OpCase train{Op::kBatchNormTrain, {x, vector, vector}, y}, train_grad{Op::kBatchNormGrad, {x, x, vector, vector, vector, vector}, y};
  train.more_outputs = train_grad.more_outputs = {like(DType::kF32, {7}), like(DType::kF32, {7})};
  mutate_op(train, BatchNormTrainAttrs{.axis = norm.axis}, &count);
  mutate_op(train_grad, BatchNormTrainAttrs{.axis = norm.axis, .lo = 0}, &count);
  mutate_op({Op::kFakeQuant, {x, vector}, y}, FakeQuantAttrs{3, 0, -7, 7}, &count);
  OpCase grid_grad{Op::kFakeQuantGrad, {x, vector, x}, y};
  grid_grad.more_outputs = {like(DType::kF32, {7})};
  mutate_op(grid_grad, FakeQuantAttrs{3, 0, -7, 7}, &count);
  mutate_op({Op::kStepSize, {vector, vector}, like(DType::kF32, {7})}, ClampAttrs{0.5f, 2}, &count);
  MESSAGE(count.refused << " refused, " << count.ran << " ran");
  CHECK(count.refused > 1000);
  CHECK(count.ran > 1000);
}

}  // namespace lathe::test
