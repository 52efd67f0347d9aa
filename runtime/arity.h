// How many operands a step of each op has in a program (after lowering: runtime/exec/exec.h lists them), and the newest version
// of its record that this build reads. -Wswitch makes an op that is missing here an error.
#pragma once
#include <stdint.h>

#include "runtime/op.h"

namespace lathe {

struct Arity {
  uint16_t min_in;
  uint16_t max_in;
  uint16_t required;  // the first inputs that may not be kNoTensor
  uint16_t out;
  uint16_t version = 1;
};

inline constexpr uint16_t kAnyCount = 0xffff;

constexpr Arity op_arity(Op op) {
  switch (op) {
    case Op::kConv2d:
    case Op::kConvTranspose2d:
    case Op::kFullyConnected: return {2, 6, 2, 1};
    case Op::kDynamicFullyConnected: return {5, 7, 5, 1};
    case Op::kBatchNorm: return {5, 5, 5, 1};
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kDiv:
    case Op::kMax:
    case Op::kMin:
    case Op::kPow:
    case Op::kMod:
    case Op::kEqual:
    case Op::kLess:
    case Op::kLessEqual:
    case Op::kBitAnd:
    case Op::kBitOr:
    case Op::kBitXor:
    case Op::kBitShift:
    case Op::kGather:
    case Op::kMatMul: return {2, 2, 2, 1};
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kExp:
    case Op::kSqrt:
    case Op::kHardSwish:
    case Op::kGelu:
    case Op::kSilu:
    case Op::kErf:
    case Op::kAbs:
    case Op::kSign:
    case Op::kFloor:
    case Op::kCeil:
    case Op::kRound:
    case Op::kLog:
    case Op::kSin:
    case Op::kCos:
    case Op::kTan:
    case Op::kAsin:
    case Op::kAcos:
    case Op::kAtan:
    case Op::kSinh:
    case Op::kCosh:
    case Op::kAsinh:
    case Op::kAcosh:
    case Op::kAtanh:
    case Op::kElu:
    case Op::kSoftplus:
    case Op::kMish:
    case Op::kHardSigmoid:
    case Op::kSoftmax: return {1, 2, 2, 1};  // s8: x and its table
    case Op::kLayerNorm: return {2, 3, 2, 1};
    case Op::kWhere: return {3, 3, 3, 1};
    case Op::kConcat: return {1, kAnyCount, kAnyCount, 1};
    case Op::kMaxPool2d:
    case Op::kAvgPool2d:
    case Op::kMean:
    case Op::kReduceSum:
    case Op::kReduceProd:
    case Op::kReduceMax:
    case Op::kReduceMin:
    case Op::kArgMax:
    case Op::kArgMin:
    case Op::kCumSum:
    case Op::kCumProd:
    case Op::kTrilu:
    case Op::kDet:
    case Op::kBitCast:
    case Op::kClamp:
    case Op::kLeakyRelu:
    case Op::kReshape:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kPad:
    case Op::kShape:
    case Op::kCast:
    case Op::kQuantize:
    case Op::kDequantize:
    case Op::kRegrid: return {1, 1, 1, 1};
    case Op::kTopK: return {1, 1, 1, 2};
    case Op::kFromInteger:
    case Op::kToInteger: return {1, 1, 1, 1};
    case Op::kQuantizeLinear:
    case Op::kDequantizeLinear: return {2, 3, 2, 1};
    case Op::kDynamicQuantizeLinear: return {1, 1, 1, 3};
    case Op::kMatMulInteger:
    case Op::kConvInteger: return {2, 4, 2, 1};
    case Op::kLstm: return {2, 7, 2, 3};
    case Op::kGru:
    case Op::kRnn: return {2, 5, 2, 2};
    case Op::kMaskedSoftmax: return {1, 3, 1, 1};
    case Op::kLinearAttention: return {3, 6, 3, 2};
    case Op::kNonMaxSuppression: return {2, 5, 2, 2};
    case Op::kAssign: return {2, 2, 2, 0};  // variable, value
    case Op::kPack: return {1, 1, 1, 1};
    case Op::kConv2dWeightGrad:
    case Op::kMaxPool2dGrad:
    case Op::kAvgPool2dGrad:
    case Op::kClampGrad: return {2, 2, 2, 1};  // x (ClampGrad: y), dy
    case Op::kBatchNormTrain: return {3, 3, 3, 3};
    case Op::kBatchNormGrad: return {6, 6, 6, 3};
    case Op::kFakeQuant:
    case Op::kStepSize: return {2, 2, 2, 1};
    case Op::kFakeQuantGrad: return {3, 3, 3, 2};
    case Op::kExtents:
    case Op::kTrim:
    case Op::kExpand:
    case Op::kTile:
    case Op::kBorder:
    case Op::kCol2Im:
    case Op::kResizeNearest:
    case Op::kResize: return {1, 1, 1, 1};
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kOneHot:
    case Op::kReverseSequence:
    case Op::kTargetDims: return {2, 2, 2, 1};
    case Op::kRange:
    case Op::kRangeCount:
    case Op::kScatterElements:
    case Op::kScatterNd:
    case Op::kRoiAlign: return {3, 3, 3, 1};
    case Op::kTensorScatter: return {2, 3, 2, 1};
    case Op::kEinsum: return {1, 2, 1, 1};
    case Op::kNonZero:
    case Op::kArgMaxPool2d: return {1, 1, 1, 2};
    case Op::kCompress: return {2, 2, 2, 2};
    case Op::kUnique: return {1, 1, 1, 5};  // values, first places, groups, counts, their number
  }
  return {0, 0, 0, 0, 0};
}

}  // namespace lathe
