#!/usr/bin/env python3
"""Writes expected/tflite_ops.npz: small TFLite models of one operator each, inputs, and what LiteRT's reference kernels make of them.

    python3 tests/oracle/make_tflite_ops.py

Needs ai-edge-litert, flatbuffers and numpy. Arrays: `CASE:model` (bytes of the file), `CASE:in0`, ..., `CASE:out0`, ..., and for models
with state `CASE:again0`, ..., the outputs of a second run on the same inputs; `CASE:steps` where quantized results may be further away than one. uint8 values are stored as the file has them.
"""
import pathlib

import numpy as np

from tflite_cases import indices, states, wide
from tflite_model import CASES, RNG, T, case, f32, integers, ints, options, s8, scalar, u8


def elementwise():
    q, r = (0.02, 5), (0.03, -9)
    wide = f32(3, 40, lo=-4, hi=4)
    for code in ("LOGISTIC", "TANH", "EXP", "HARD_SWISH", "RELU", "RELU6", "RELU_N1_TO_1", "NEG", "SQUARE"):
        case(code.lower(), code, [T(wide)], [T(shape=[3, 40])])
    for code in ("SQRT", "RSQRT", "LOG"):
        case(code.lower(), code, [T(f32(3, 40, lo=0.01, hi=9))], [T(shape=[3, 40])])
    for approximate in (False, True):
        case(f"gelu_{int(approximate)}", "GELU", [T(wide)], [T(shape=[3, 40])], options("GeluOptions", approximate=approximate))
    for code in ("FLOOR", "CEIL", "ROUND", "SIN", "COS", "SIGN"):
        case(code.lower(), code, [T(wide)], [T(shape=[3, 40])])
    case("maximum_computed", "MAXIMUM", [T(f32(3, 5)), T(f32(3, 5))], [T(shape=[3, 5])], options("MaximumMinimumOptions"))
    case("minimum_s8", "MINIMUM", [T(s8(3, 50), quant=(0.02, 5)), T(s8(3, 50), quant=(0.02, 5))],
         [T(shape=[3, 50], dtype=np.int8, quant=(0.02, 5))], options("MaximumMinimumOptions"))
    case("pow_computed", "POW", [T(f32(2, 5, lo=0.1, hi=3)), T(f32(2, 5))], [T(shape=[2, 5])], options("PowOptions"))
    case("log_softmax", "LOG_SOFTMAX", [T(f32(3, 10, lo=-9, hi=9))], [T(shape=[3, 10])], options("LogSoftmaxOptions"))
    case("elu", "ELU", [T(wide)], [T(shape=[3, 40])])
    case("abs", "ABS", [T(wide)], [T(shape=[3, 40])])
    leaky = options("LeakyReluOptions", alpha=0.3)
    case("leaky_relu", "LEAKY_RELU", [T(wide)], [T(shape=[3, 40])], leaky)
    case("prelu", "PRELU", [T(f32(2, 3, 3, 4)), T(const=f32(1, 1, 4))], [T(shape=[2, 3, 3, 4])])
    for code, name in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
        positive = f32(1, 4, lo=0.5, hi=2)
        case(code.lower(), code, [T(f32(2, 3, 4)), T(positive)], [T(shape=[2, 3, 4])], options(name))
        case(code.lower() + "_relu6", code, [T(f32(3, 4, lo=-9, hi=9)), T(const=f32(3, 4, lo=0.5, hi=2))], [T(shape=[3, 4])],
             options(name, fusedActivationFunction=3))
        if code != "DIV":
            case(code.lower() + "_s8", code, [T(s8(2, 3, 5), quant=q), T(s8(2, 3, 5), quant=r)],
                 [T(shape=[2, 3, 5], dtype=np.int8, quant=(0.04, 3))], options(name, fusedActivationFunction=1))
            case(code.lower() + "_s8_constant", code, [T(s8(2, 3, 5), quant=q), T(const=s8(5), quant=r)],
                 [T(shape=[2, 3, 5], dtype=np.int8, quant=(0.04, 3))], options(name))
    case("add_u8", "ADD", [T(u8(2, 9), quant=(0.02, 130)), T(u8(2, 9), quant=(0.03, 100))],
         [T(shape=[2, 9], dtype=np.uint8, quant=(0.04, 120))], options("AddOptions"))
    case("maximum", "MAXIMUM", [T(wide), T(const=np.array(0.25, np.float32))], [T(shape=[3, 40])], options("MaximumMinimumOptions"))
    case("minimum", "MINIMUM", [T(wide), T(const=np.array(0.25, np.float32))], [T(shape=[3, 40])], options("MaximumMinimumOptions"))
    case("squared_difference", "SQUARED_DIFFERENCE", [T(f32(2, 5)), T(f32(2, 5))], [T(shape=[2, 5])])
    case("pow_3", "POW", [T(f32(2, 5)), T(const=np.array(3, np.float32))], [T(shape=[2, 5])], options("PowOptions"))
    x8 = T(s8(4, 64), quant=(0.05, 11))
    case("logistic_s8", "LOGISTIC", [x8], [T(shape=[4, 64], dtype=np.int8, quant=(1 / 256, -128))])
    case("tanh_s8", "TANH", [x8], [T(shape=[4, 64], dtype=np.int8, quant=(1 / 128, 0))])
    case("hard_swish_s8", "HARD_SWISH", [x8], [T(shape=[4, 64], dtype=np.int8, quant=(0.03, -90))])
    case("relu_s8", "RELU", [x8], [T(shape=[4, 64], dtype=np.int8, quant=(0.03, -128))])
    case("relu6_s8", "RELU6", [x8], [T(shape=[4, 64], dtype=np.int8, quant=(6 / 255, -128))])
    case("leaky_relu_s8", "LEAKY_RELU", [x8], [T(shape=[4, 64], dtype=np.int8, quant=(0.06, 20))], leaky)
    case("softmax", "SOFTMAX", [T(f32(3, 10, lo=-4, hi=4))], [T(shape=[3, 10])], options("SoftmaxOptions", beta=1.0))
    case("softmax_beta", "SOFTMAX", [T(f32(3, 10, lo=-4, hi=4))], [T(shape=[3, 10])], options("SoftmaxOptions", beta=0.5))
    case("softmax_s8", "SOFTMAX", [x8], [T(shape=[4, 64], dtype=np.int8, quant=(1 / 256, -128))], options("SoftmaxOptions", beta=1.0))
    case("softmax_u8", "SOFTMAX", [T(u8(2, 20), quant=(0.1, 120))], [T(shape=[2, 20], dtype=np.uint8, quant=(1 / 256, 0))],
         options("SoftmaxOptions", beta=1.0))
    case("l2_normalization", "L2_NORMALIZATION", [T(f32(3, 7))], [T(shape=[3, 7])], options("L2NormOptions"))


def borders():
    case("quantize", "QUANTIZE", [T(f32(2, 50, lo=-4, hi=4))], [T(shape=[2, 50], dtype=np.int8, quant=(0.03, -11))])
    case("requantize", "QUANTIZE", [T(s8(2, 50), quant=(0.05, 7))], [T(shape=[2, 50], dtype=np.int8, quant=(0.03, -11))])
    case("requantize_u8", "QUANTIZE", [T(u8(2, 50), quant=(0.05, 135))], [T(shape=[2, 50], dtype=np.int8, quant=(0.05, 7))])
    case("dequantize", "DEQUANTIZE", [T(s8(2, 50), quant=(0.05, 7))], [T(shape=[2, 50])])
    case("cast", "CAST", [T(integers(np.int32, 2, 5, lo=-99, hi=99))], [T(shape=[2, 5])], options("CastOptions", inDataType=2))


def moves():
    x, q = f32(2, 6, 4, 3), (0.05, 7)
    case("reshape", "RESHAPE", [T(x), ints(3, -1, 2)], [T(shape=[3, 24, 2])], options("ReshapeOptions", newShape=[3, -1, 2]))
    case("squeeze", "SQUEEZE", [T(f32(1, 5, 1))], [T(shape=[5, 1])], options("SqueezeOptions", squeezeDims=[0]))
    case("expand_dims", "EXPAND_DIMS", [T(f32(3, 5)), scalar(-1)], [T(shape=[3, 5, 1])])
    case("transpose", "TRANSPOSE", [T(x), ints(0, 3, 1, 2)], [T(shape=[2, 3, 6, 4])])
    case("transpose_s8", "TRANSPOSE", [T(s8(2, 3, 4), quant=q), ints(2, 0, 1)], [T(shape=[4, 2, 3], dtype=np.int8, quant=q)])
    case("concat", "CONCATENATION", [T(f32(2, 3)), T(f32(2, 4))], [T(shape=[2, 7])], options("ConcatenationOptions", axis=-1))
    case("concat_many", "CONCATENATION", [T(f32(2, 1 + i % 3)) for i in range(70)], [T(shape=[2, sum(1 + i % 3 for i in range(70))])],
         options("ConcatenationOptions", axis=1))
    case("concat_s8", "CONCATENATION", [T(s8(2, 3), quant=q), T(s8(2, 4), quant=q)],
         [T(shape=[2, 7], dtype=np.int8, quant=q)], options("ConcatenationOptions", axis=1))
    case("split", "SPLIT", [scalar(1), T(x)], [T(shape=[2, 2, 4, 3]) for _ in range(3)], options("SplitOptions", numSplits=3))
    case("split_v", "SPLIT_V", [T(x), ints(1, 4, 1), scalar(1)], [T(shape=[2, n, 4, 3]) for n in (1, 4, 1)],
         options("SplitVOptions", numSplits=3))
    case("slice", "SLICE", [T(x), ints(0, 2, 1, 0), ints(2, 3, -1, 2)], [T(shape=[2, 3, 3, 2])])
    for name, begin, end, step, masks, shape in (
            ("plain", (0, 1, 0, 0), (2, 5, 4, 3), (1, 2, 1, 1), {}, [2, 2, 4, 3]),
            ("masks", (1, 1, 1, 1), (1, 3, 2, 2), (1, 1, 1, 1), dict(beginMask=9, endMask=3), [2, 5, 1, 2]),
            ("shrink", (0, -2, 0, 0), (2, 0, 4, 3), (1, 1, 1, 1), dict(shrinkAxisMask=2), [2, 4, 3]),
            ("last", (0, -1, 0, 0), (2, 0, 4, 3), (1, 1, 1, 1), dict(shrinkAxisMask=2), [2, 4, 3]),
            ("reverse", (0, 5, 0, 0), (2, 0, 4, 3), (1, -2, 1, 1), dict(endMask=2), [2, 3, 4, 3]),
            ("ellipsis", (1, 0, 1), (2, 0, 3), (1, 1, 1), dict(ellipsisMask=2), [1, 6, 4, 2]),
            ("new_axis", (0, 0, 1), (0, 1, 4), (1, 1, 1), dict(newAxisMask=1), [1, 1, 3, 4, 3])):
        case("strided_slice_" + name, "STRIDED_SLICE", [T(x), ints(*begin), ints(*end), ints(*step)], [T(shape=shape)],
             options("StridedSliceOptions", **masks))
    case("gather", "GATHER", [T(x), ints(3, 0, 5, 3)], [T(shape=[2, 4, 4, 3])], options("GatherOptions", axis=1))
    case("pack", "PACK", [T(f32(3, 4)), T(f32(3, 4))], [T(shape=[3, 2, 4])], options("PackOptions", valuesCount=2, axis=1))
    case("unpack", "UNPACK", [T(f32(3, 2, 4))], [T(shape=[3, 4]), T(shape=[3, 4])], options("UnpackOptions", num=2, axis=1))
    pads = T(const=np.array([[0, 0], [1, 2], [0, 1], [2, 0]], np.int32))
    case("pad", "PAD", [T(x), pads], [T(shape=[2, 9, 5, 5])])
    case("pad_s8", "PAD", [T(s8(2, 6, 4, 3), quant=q), pads], [T(shape=[2, 9, 5, 5], dtype=np.int8, quant=q)])
    case("padv2", "PADV2", [T(x), pads, T(const=np.array(0.75, np.float32))], [T(shape=[2, 9, 5, 5])])
    case("mean", "MEAN", [T(x), ints(1, 2)], [T(shape=[2, 3])], options("ReducerOptions", keepDims=False))
    case("mean_keep", "MEAN", [T(x), ints(-1)], [T(shape=[2, 6, 4, 1])], options("ReducerOptions", keepDims=True))
    for code in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        case(code.lower(), code, [T(x), ints(1, 3)], [T(shape=[2, 4])], options("ReducerOptions", keepDims=False))
    case("cumsum", "CUMSUM", [T(x), scalar(2)], [T(shape=[2, 6, 4, 3])], options("CumsumOptions", exclusive=True))
    case("mean_s8", "MEAN", [T(s8(2, 6, 4, 3), quant=q), ints(1, 2)], [T(shape=[2, 3], dtype=np.int8, quant=(0.02, 1))],
         options("ReducerOptions", keepDims=False))
    for align, half in ((False, False), (True, False), (False, True)):
        for size in ((3, 9), (12, 4)):
            tag = f"{int(align)}{int(half)}_{size[0]}"
            case("resize_bilinear_" + tag, "RESIZE_BILINEAR", [T(x), ints(*size)], [T(shape=[2, *size, 3])],
                 options("ResizeBilinearOptions", alignCorners=align, halfPixelCenters=half))
            case("resize_nearest_" + tag, "RESIZE_NEAREST_NEIGHBOR", [T(s8(2, 6, 4, 3), quant=q), ints(*size)],
                 [T(shape=[2, *size, 3], dtype=np.int8, quant=q)],
                 options("ResizeNearestNeighborOptions", alignCorners=align, halfPixelCenters=half))
    case("mirror_pad", "MIRROR_PAD", [T(x), T(const=np.array([[0, 1], [2, 1], [0, 0], [1, 2]], np.int32))],
         [T(shape=[2 + 1, 9, 4, 6])], options("MirrorPadOptions", mode=0))
    case("tile", "TILE", [T(f32(2, 3)), ints(2, 3)], [T(shape=[4, 9])], options("TileOptions"))
    case("reverse", "REVERSE_V2", [T(x), ints(2)], [T(shape=[2, 6, 4, 3])], options("ReverseV2Options"))
    case("gather_nd", "GATHER_ND", [T(x), T(const=np.array([[0, 3], [1, 5], [1, 0]], np.int32))], [T(shape=[3, 4, 3])],
         options("GatherNdOptions"))
    case("broadcast_to", "BROADCAST_TO", [T(f32(3, 1)), ints(2, 3, 4)], [T(shape=[2, 3, 4])], options("BroadcastToOptions"))
    case("space_to_batch", "SPACE_TO_BATCH_ND", [T(x), ints(2, 3), T(const=np.array([[1, 1], [1, 1]], np.int32))],
         [T(shape=[12, 4, 2, 3])])
    case("batch_to_space", "BATCH_TO_SPACE_ND", [T(f32(12, 4, 2, 3)), ints(2, 3), T(const=np.array([[1, 1], [2, 0]], np.int32))],
         [T(shape=[2, 6, 4, 3])])
    case("space_to_depth", "SPACE_TO_DEPTH", [T(x)], [T(shape=[2, 3, 2, 12])], options("SpaceToDepthOptions", blockSize=2))
    case("depth_to_space", "DEPTH_TO_SPACE", [T(f32(2, 3, 2, 12))], [T(shape=[2, 6, 4, 3])], options("DepthToSpaceOptions", blockSize=2))


def layers():
    x8, y8 = (0.02, 5), (0.05, -9)
    channel = lambda n: (RNG.uniform(0.002, 0.01, n), np.zeros(n, np.int64))
    for padding in (0, 1):
        for stride, dilation in ((1, 1), (2, 1), (1, 2)):
            h, w = ((-(-7 // stride), -(-6 // stride)) if padding == 0 else
                    ((7 - 2 * dilation - 1) // stride + 1, (6 - 2 * dilation - 1) // stride + 1))
            tag = f"_{'same' if padding == 0 else 'valid'}_s{stride}_d{dilation}"
            common = dict(padding=padding, strideW=stride, strideH=stride, dilationWFactor=dilation, dilationHFactor=dilation)
            case("conv" + tag, "CONV_2D", [T(f32(1, 7, 6, 3)), T(const=f32(4, 3, 3, 3)), T(const=f32(4))], [T(shape=[1, h, w, 4])],
                 options("Conv2DOptions", fusedActivationFunction=1, **common))
            case("conv_s8" + tag, "CONV_2D",
                 [T(s8(1, 7, 6, 3), quant=x8), T(const=s8(4, 3, 3, 3, lo=-127), quant=channel(4)),
                  T(const=integers(np.int32, 4, lo=-3000, hi=3000))],
                 [T(shape=[1, h, w, 4], dtype=np.int8, quant=y8)], options("Conv2DOptions", **common))
            case("conv_u8" + tag, "CONV_2D",
                 [T(u8(1, 7, 6, 3), quant=(0.02, 131)), T(const=u8(4, 3, 3, 3), quant=(0.01, 151)),
                  T(const=integers(np.int32, 4, lo=-3000, hi=3000))],
                 [T(shape=[1, h, w, 4], dtype=np.uint8, quant=(0.06, 119))], options("Conv2DOptions", fusedActivationFunction=3, **common))
            depthwise = options("DepthwiseConv2DOptions", depthMultiplier=2, fusedActivationFunction=3, **common)
            case("depthwise" + tag, "DEPTHWISE_CONV_2D", [T(f32(1, 7, 6, 3)), T(const=f32(1, 3, 3, 6)), T(const=f32(6))],
                 [T(shape=[1, h, w, 6])], depthwise)
            case("depthwise_s8" + tag, "DEPTHWISE_CONV_2D",
                 [T(s8(1, 7, 6, 3), quant=x8), T(const=s8(1, 3, 3, 6, lo=-127), quant=channel(6), axis=3),
                  T(const=integers(np.int32, 6, lo=-3000, hi=3000))],
                 [T(shape=[1, h, w, 6], dtype=np.int8, quant=y8)], depthwise)
            if dilation == 1:
                case("depthwise_u8" + tag, "DEPTHWISE_CONV_2D",
                     [T(u8(1, 7, 6, 3), quant=(0.02, 131)), T(const=u8(1, 3, 3, 6), quant=(0.01, 100)),
                      T(const=integers(np.int32, 6, lo=-3000, hi=3000))],
                     [T(shape=[1, h, w, 6], dtype=np.uint8, quant=(0.03, 119))], depthwise)
        pooled = ([1, 4, 3, 3] if padding == 0 else [1, 3, 2, 3])
        pool = options("Pool2DOptions", padding=padding, strideW=2, strideH=2, filterWidth=3, filterHeight=3)
        for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            tag = code.lower()[:3] + "_pool" + ("_same" if padding == 0 else "_valid")
            case(tag, code, [T(f32(1, 7, 6, 3))], [T(shape=pooled)], pool)
            case(tag + "_s8", code, [T(s8(1, 7, 6, 3), quant=x8)], [T(shape=pooled, dtype=np.int8, quant=x8)], pool)
        out = [1, 8, 6, 4] if padding == 0 else [1, 9, 7, 4]
        transposed = options("TransposeConvOptions", padding=padding, strideW=2, strideH=2)
        tag = "_same" if padding == 0 else "_valid"
        case("transpose_conv" + tag, "TRANSPOSE_CONV", [ints(*out), T(const=f32(4, 3, 3, 3)), T(f32(1, 4, 3, 3)), T(const=f32(4))],
             [T(shape=out)], transposed)
        case("transpose_conv_s8" + tag, "TRANSPOSE_CONV",
             [ints(*out), T(const=s8(4, 3, 3, 3, lo=-127), quant=channel(4)), T(s8(1, 4, 3, 3), quant=x8),
              T(const=integers(np.int32, 4, lo=-3000, hi=3000))],
             [T(shape=out, dtype=np.int8, quant=y8)], transposed)
    relu = options("FullyConnectedOptions", fusedActivationFunction=1)
    case("fully_connected", "FULLY_CONNECTED", [T(f32(2, 3, 4)), T(const=f32(5, 12)), T(const=f32(5))], [T(shape=[2, 5])], relu)
    case("fully_connected_keep", "FULLY_CONNECTED", [T(f32(2, 3, 4)), T(const=f32(5, 4)), None], [T(shape=[2, 3, 5])],
         options("FullyConnectedOptions", keepNumDims=True))
    case("fully_connected_computed", "FULLY_CONNECTED", [T(f32(3, 4)), T(f32(5, 4)), None], [T(shape=[3, 5])], relu)
    case("fully_connected_s8", "FULLY_CONNECTED",
         [T(s8(2, 12), quant=x8), T(const=s8(5, 12, lo=-127), quant=(0.01, 0)), T(const=integers(np.int32, 5, lo=-3000, hi=3000))],
         [T(shape=[2, 5], dtype=np.int8, quant=y8)], relu)
    case("fully_connected_u8", "FULLY_CONNECTED",
         [T(u8(2, 12), quant=(0.02, 131)), T(const=u8(5, 12), quant=(0.01, 40)), T(const=integers(np.int32, 5, lo=-3000, hi=3000))],
         [T(shape=[2, 5], dtype=np.uint8, quant=(0.05, 119))], relu)
    case("fully_connected_dynamic", "FULLY_CONNECTED", [T(f32(3, 12)), T(const=s8(5, 12, lo=-127), quant=(0.01, 0)), T(const=f32(5))],
         [T(shape=[3, 5])], relu)
    for kernel, stride in ((1, 1), (2, 2), (3, 2)):
        case(f"conv_dynamic_{kernel}_{stride}", "CONV_2D",
             [T(f32(1, 7, 6, 3)), T(const=s8(4, kernel, kernel, 3, lo=-127), quant=(0.01, 0)), T(const=f32(4))],
             [T(shape=[1, -(-7 // stride), -(-6 // stride), 4])], options("Conv2DOptions", padding=0, strideW=stride, strideH=stride))
    for adjoint_x, adjoint_y in ((False, False), (True, False), (False, True)):
        a = f32(2, 4, 3) if adjoint_x else f32(2, 3, 4)
        b = f32(2, 5, 4) if adjoint_y else f32(2, 4, 5)
        case(f"batch_matmul_{int(adjoint_x)}{int(adjoint_y)}", "BATCH_MATMUL", [T(a), T(b)], [T(shape=[2, 3, 5])],
             options("BatchMatMulOptions", adjX=adjoint_x, adjY=adjoint_y))
    for time_major in (False, True):
        gates = lambda rows, cols: [T(const=f32(rows, cols)) for _ in range(4)]
        case(f"lstm_{int(time_major)}", "UNIDIRECTIONAL_SEQUENCE_LSTM",
             [T(f32(3, 2, 5) if time_major else f32(2, 3, 5))] + gates(4, 5) + gates(4, 4) + [None] * 3 +
             [T(const=f32(4)) for _ in range(4)] + [None] * 2 + [T(shape=[2, 4], variable=True), T(shape=[2, 4], variable=True)] + [None] * 4,
             [T(shape=[3, 2, 4] if time_major else [2, 3, 4])],
             options("UnidirectionalSequenceLSTMOptions", fusedActivationFunction=4, cellClip=0.4, timeMajor=time_major))


def main():
    for make in (elementwise, borders, moves, layers, indices, states, wide):
        make()
    arrays = {}
    for name, (content, fed, results, steps) in CASES.items():
        arrays[name + ":model"] = np.frombuffer(content, np.uint8)
        arrays.update({f"{name}:in{i}": a for i, a in enumerate(fed)})
        if steps != 1:
            arrays[name + ":steps"] = np.array([steps], np.int32)
        for tag, outputs in zip(("out", "again"), results):
            arrays.update({f"{name}:{tag}{i}": a for i, a in enumerate(outputs)})
    path = pathlib.Path(__file__).parent / "expected" / "tflite_ops.npz"
    np.savez_compressed(path, **arrays)
    print(f"{path.name}: {len(CASES)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
