"""Cases of make_tflite_ops.py: operators that find elements and make shapes, models with state, int16x8."""
import numpy as np

import tflite_model as m
from tflite_model import RESOURCE, T, case, ints, options, scalar

RNG = np.random.default_rng(7)


def f32(*shape, lo=-1.0, hi=1.0):
    return RNG.uniform(lo, hi, shape).astype(np.float32)


def integers(dtype, *shape, lo=None, hi=None):
    info = np.iinfo(dtype)
    return RNG.integers(info.min if lo is None else lo, (info.max if hi is None else hi) + 1, shape).astype(dtype)


def s8(*shape, **k):
    return integers(np.int8, *shape, **k)


def s16(*shape, **k):
    return integers(np.int16, *shape, **k)


def number(v, dtype=np.float32):
    return T(const=np.array(v, dtype))


def indices():
    x, q = f32(2, 3, 4), (0.05, 7)
    i32 = integers(np.int32, 2, 6, lo=-20, hi=20)
    divisor = integers(np.int32, 2, 6, lo=1, hi=5) * RNG.choice([-1, 1], (2, 6)).astype(np.int32)
    for kind, data, quant in (("", f32(3, 9), None), ("_s8", s8(3, 9), q), ("_s32", integers(np.int32, 3, 9, lo=-3, hi=3), None)):
        case("top_k" + kind, "TOPK_V2", [T(data, quant=quant), scalar(4)],
             [T(shape=[3, 4], dtype=data.dtype, quant=quant), T(shape=[3, 4], dtype=np.int32)], options("TopKV2Options"))
    for axis, shape in ((-1, [2, 3, 5]), (0, [5, 2, 3])):
        case(f"one_hot_{axis}", "ONE_HOT", [T(integers(np.int32, 2, 3, lo=-2, hi=6)), scalar(5), number(2.5), number(-1)],
             [T(shape=shape)], options("OneHotOptions", axis=axis))
    case("scatter_nd", "SCATTER_ND", [T(np.array([[1, 2], [0, 0], [1, 2]], np.int32)), T(f32(3, 4)), ints(2, 3, 4)], [T(shape=[2, 3, 4])],
         options("ScatterNdOptions"))
    case("gather_batch", "GATHER", [T(x), T(np.array([[2, 0], [1, 1]], np.int32))], [T(shape=[2, 2, 4])],
         options("GatherOptions", axis=1, batchDims=1))
    case("embedding_lookup", "EMBEDDING_LOOKUP", [T(np.array([3, 0, 3], np.int32)), T(const=f32(5, 4))], [T(shape=[3, 4])])
    case("where", "WHERE", [T(np.array([[True, False, True], [False, False, True]]))], [T(shape=[3, 2], dtype=np.int64)],
         options("WhereOptions"))
    case("reverse_sequence", "REVERSE_SEQUENCE", [T(x), T(np.array([2, 3], np.int32))], [T(shape=[2, 3, 4])],
         options("ReverseSequenceOptions", seqDim=1, batchDim=0))
    for start in (1, 9):
        case(f"dynamic_update_slice_{start}", "DYNAMIC_UPDATE_SLICE", [T(f32(2, 6, 3)), T(f32(2, 2, 3)), T(np.array([0, start, 0], np.int32))],
             [T(shape=[2, 6, 3])], options("DynamicUpdateSliceOptions"))
    case("select_rows", "SELECT", [T(np.array([True, False])), T(f32(2, 2)), T(f32(2, 2))], [T(shape=[2, 2])], options("SelectOptions"))
    case("rank", "RANK", [T(x)], [T(shape=[], dtype=np.int32)], options("RankOptions"))
    case("shape", "SHAPE", [T(x)], [T(shape=[3], dtype=np.int32)], options("ShapeOptions", outType=2))
    case("fill", "FILL", [ints(2, 3), T(np.array(1.5, np.float32))], [T(shape=[2, 3])], options("FillOptions"))
    case("zeros_like", "ZEROS_LIKE", [T(i32)], [T(shape=[2, 6], dtype=np.int32)], options("ZerosLikeOptions"))
    case("range", "RANGE", [scalar(7), scalar(-4), scalar(-3)], [T(shape=[4], dtype=np.int32)], options("RangeOptions"))
    case("range_f32", "RANGE", [number(1), number(2.2), number(0.5)], [T(shape=[3])], options("RangeOptions"))
    case("range_computed", "RANGE", [T(np.array(3, np.int32)), T(np.array(9, np.int32)), scalar(2)], [T(shape=[3], dtype=np.int32)],
         options("RangeOptions"))
    for code in ("REDUCE_ANY", "REDUCE_ALL"):
        case(code.lower(), code, [T(RNG.uniform(size=(3, 4)) < 0.5), ints(1)], [T(shape=[3], dtype=np.bool_)],
             options("ReducerOptions", keepDims=False))
    for code in ("FLOOR_DIV", "FLOOR_MOD"):
        o = options("FloorDivOptions" if code == "FLOOR_DIV" else "FloorModOptions")
        case(code.lower(), code, [T(i32), T(divisor)], [T(shape=[2, 6], dtype=np.int32)], o)
        case(code.lower() + "_f32", code, [T(f32(2, 6, lo=-9, hi=9)), T(divisor.astype(np.float32))], [T(shape=[2, 6])], o)
    case("neg_s32", "NEG", [T(i32)], [T(shape=[2, 6], dtype=np.int32)], options("NegOptions"))
    case("add_n", "ADD_N", [T(f32(2, 3)), T(f32(2, 3)), T(f32(2, 3))], [T(shape=[2, 3])], options("AddNOptions"))
    case("bitwise_xor", "BITWISE_XOR", [T(i32), T(divisor)], [T(shape=[2, 6], dtype=np.int32)], options("BitwiseXorOptions"))
    pads = T(const=np.array([[1, 2], [0, 3], [2, 0]], np.int32))
    case("mirror_pad_symmetric", "MIRROR_PAD", [T(x), pads], [T(shape=[5, 6, 6])], options("MirrorPadOptions", mode=1))
    case("mirror_pad_symmetric_s8", "MIRROR_PAD", [T(s8(2, 3, 4), quant=q), pads], [T(shape=[5, 6, 6], dtype=np.int8, quant=q)],
         options("MirrorPadOptions", mode=1))
    case("local_response_normalization", "LOCAL_RESPONSE_NORMALIZATION", [T(f32(2, 3, 2, 7))], [T(shape=[2, 3, 2, 7])],
         options("LocalResponseNormalizationOptions", radius=2, bias=1.5, alpha=0.3, beta=0.6), optimized=True)  # the reference misses an end
    case("l2_pool", "L2_POOL_2D", [T(f32(1, 7, 6, 3))], [T(shape=[1, 4, 3, 3])],
         options("Pool2DOptions", padding=0, strideW=2, strideH=2, filterWidth=3, filterHeight=3, fusedActivationFunction=3))


def lstm(name, code, opts, batch=2, steps=3, peepholes=False, projection=False, norm=False, coupled=False):
    """In 5, units 4, projected to 3."""
    def gates(rows, cols):
        return [None if coupled and g == 0 else T(const=f32(*([rows] + ([cols] if cols else [])))) for g in range(4)]
    outputs = 3 if projection else 4
    data = f32(steps, batch, 5) if opts.get("timeMajor") else f32(batch, steps, 5) if steps else f32(batch, 5)
    peephole = [T(const=f32(4)) if peepholes and not (coupled and g == 0) else None for g in range(3)]
    inputs = [T(data)] + gates(4, 5) + gates(4, outputs) + peephole + gates(4, 0)
    inputs += [T(const=f32(3, 4)), T(const=f32(3))] if projection else [None, None]
    inputs += [T(shape=[batch, outputs], variable=True), T(shape=[batch, 4], variable=True)]
    inputs += gates(4, 0) if norm else [None] * 4
    case(name, code, inputs, [T(shape=list(data.shape[:-1]) + [outputs])],
         options("UnidirectionalSequenceLSTMOptions" if steps else "LSTMOptions", fusedActivationFunction=4, **opts), runs=2)


def svdf():
    for name, rank, memory, activation in (("", 1, 3, 0), ("_rank2", 2, 4, 1)):
        state = T(shape=[2, 6 * memory], variable=True)
        o = options("SVDFOptions", rank=rank, fusedActivationFunction=activation)
        case("svdf" + name, "SVDF", [T(f32(2, 5)), T(const=f32(6, 5)), T(const=f32(6, memory)), T(const=f32(6 // rank)), state],
             [T(shape=[2, 6 // rank])], o, runs=2)
    case("svdf_hybrid", "SVDF", [T(f32(2, 5)), T(const=s8(6, 5, lo=-127), quant=(0.01, 0)), T(const=s8(6, 3, lo=-127), quant=(0.02, 0)), None,
                                 T(shape=[2, 18], variable=True)], [T(shape=[2, 6])],
         options("SVDFOptions", rank=1, fusedActivationFunction=0), runs=2)
    case("svdf_s8", "SVDF", [T(s8(2, 5), quant=(0.02, 3)), T(const=s8(6, 5, lo=-127), quant=(0.01, 0)),
                             T(const=s16(6, 3), quant=(0.00002, 0)), T(const=integers(np.int32, 3, lo=-9999, hi=9999), quant=(0.00002 * 0.0005, 0)),
                             T(shape=[2, 18], dtype=np.int16, quant=(0.0005, 0), variable=True)],
         [T(shape=[2, 3], dtype=np.int8, quant=(0.02, -128))], options("SVDFOptions", rank=2, fusedActivationFunction=1), runs=2)


def resource_variables():
    """y = 2 (v + x), then v = v + x: a reader before the write and one behind it."""
    model = m.Model()
    handle, old, new, doubled, read = (T(dtype=RESOURCE), T(shape=[2, 3]), T(shape=[2, 3]), T(shape=[2, 3]), T(shape=[2, 3]))
    x, o = f32(2, 3), options("VarHandleOptions", container="", sharedName="total")
    fed, add = T(x), options("AddOptions")
    model.add("CALL_ONCE", [], [], options("CallOnceOptions", initSubgraphIndex=1))
    model.add("VAR_HANDLE", [], [handle], o)
    model.add("READ_VARIABLE", [handle], [old], options("ReadVariableOptions"))
    model.add("ADD", [old, fed], [new], add)
    model.add("ASSIGN_VARIABLE", [handle, new], [], options("AssignVariableOptions"))
    model.add("READ_VARIABLE", [handle], [read], options("ReadVariableOptions"))
    model.add("ADD", [old, old], [doubled], add)
    model.subgraph()
    initial_handle = T(dtype=RESOURCE)
    model.add("VAR_HANDLE", [], [initial_handle], o, at=1)
    model.add("ASSIGN_VARIABLE", [initial_handle, T(const=f32(2, 3))], [], options("AssignVariableOptions"), at=1)
    m.run("variables", model.content([doubled, read]), [x], 2)


def states():
    sequence = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    lstm("lstm_again", sequence, dict(cellClip=10.0))
    lstm("lstm_peepholes", sequence, dict(timeMajor=True), peepholes=True)
    lstm("lstm_projection", sequence, dict(projClip=0.3), projection=True)
    lstm("lstm_norm", sequence, dict(), peepholes=True, projection=True, norm=True)
    lstm("lstm_coupled", sequence, dict(), peepholes=True, coupled=True)
    lstm("lstm_one_step", "LSTM", dict(cellClip=0.5), steps=0, peepholes=True)
    svdf()
    for activation in (0, 1, 4):
        weights = [T(const=f32(4, 5, lo=-0.4, hi=0.4)), T(const=f32(4, 4, lo=-0.4, hi=0.4)), T(const=f32(4)), T(shape=[2, 4], variable=True)]
        case(f"rnn_{activation}", "RNN", [T(f32(2, 5))] + weights, [T(shape=[2, 4])], options("RNNOptions", fusedActivationFunction=activation),
             runs=2)
    for time_major in (False, True):
        weights = [T(const=f32(4, 5)), T(const=f32(4, 4)), T(const=f32(4)), T(shape=[2, 4], variable=True)]
        shape = [3, 2] if time_major else [2, 3]
        case(f"sequence_rnn_{int(time_major)}", "UNIDIRECTIONAL_SEQUENCE_RNN", [T(f32(*shape, 5))] + weights, [T(shape=shape + [4])],
             options("SequenceRNNOptions", fusedActivationFunction=4, timeMajor=time_major), runs=2)
    resource_variables()


def wide():
    """16-bit activations, 8-bit weights, 64-bit biases."""
    qx, qy = (0.0003, 0), (0.0007, 0)
    x = T(s16(2, 6, 5, 4), quant=qx)

    def out(*shape, quant=qy):
        return T(shape=list(shape), dtype=np.int16, quant=quant)

    def weight(*shape, axis=0):
        return T(const=s8(*shape, lo=-127), quant=(RNG.uniform(0.002, 0.01, shape[axis]), np.zeros(shape[axis], np.int64)), axis=axis)

    def bias(n):
        return T(const=integers(np.int64, n, lo=-(1 << 20), hi=1 << 20))

    window = dict(padding=0, strideW=2, strideH=2)
    case("conv_s16", "CONV_2D", [x, weight(3, 3, 3, 4), bias(3)], [out(2, 3, 3, 3)], options("Conv2DOptions", fusedActivationFunction=1, **window))
    case("depthwise_s16", "DEPTHWISE_CONV_2D", [x, weight(1, 3, 3, 8, axis=3), bias(8)], [out(2, 3, 3, 8)],
         options("DepthwiseConv2DOptions", depthMultiplier=2, **window))
    case("fully_connected_s16", "FULLY_CONNECTED", [T(s16(3, 12), quant=qx), T(const=s8(5, 12, lo=-127), quant=(0.01, 0)), bias(5)], [out(3, 5)],
         options("FullyConnectedOptions"))
    case("transpose_conv_s16", "TRANSPOSE_CONV", [ints(2, 12, 10, 3), weight(3, 3, 3, 4), x, bias(3)], [out(2, 12, 10, 3)],
         options("TransposeConvOptions", **window))
    for code, name, more in (("ADD", "AddOptions", dict(potScaleInt16=False)), ("SUB", "SubOptions", dict(potScaleInt16=False)),
                             ("MUL", "MulOptions", {})):
        case(code.lower() + "_s16", code, [T(s16(3, 40), quant=qx), T(s16(3, 40), quant=(0.0002, 0))],
             [out(3, 40, quant=(0.02, 0) if code == "MUL" else qy)], options(name, **more))
    for code in ("MAXIMUM", "MINIMUM"):
        case(code.lower() + "_s16", code, [T(s16(3, 20), quant=qx), T(s16(3, 20), quant=qx)], [out(3, 20, quant=qx)],
             options("MaximumMinimumOptions"))
    pool = options("Pool2DOptions", padding=1, strideW=1, strideH=2, filterWidth=3, filterHeight=2)
    for code in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
        case(code.lower()[:3] + "_pool_s16", code, [x], [out(2, 3, 3, 4, quant=qx)], pool)
    case("mean_s16", "MEAN", [x, ints(1, 2)], [out(2, 4, quant=qx)], options("ReducerOptions", keepDims=False))
    case("relu_s16", "RELU", [T(s16(3, 20), quant=qx)], [out(3, 20)])
    case("leaky_relu_s16", "LEAKY_RELU", [T(s16(3, 20), quant=qx)], [out(3, 20, quant=qx)], options("LeakyReluOptions", alpha=0.2))
    case("concat_s16", "CONCATENATION", [T(s16(2, 3), quant=qx), T(s16(2, 4), quant=qx)], [out(2, 7, quant=qx)],
         options("ConcatenationOptions", axis=1))
    case("pad_s16", "PAD", [T(s16(2, 3), quant=qx), T(const=np.array([[0, 1], [2, 0]], np.int32))], [out(3, 5, quant=qx)])
    case("strided_slice_s16", "STRIDED_SLICE", [T(s16(2, 9), quant=qx), ints(0, 1), ints(2, 8), ints(1, 2)], [out(2, 4, quant=qx)],
         options("StridedSliceOptions"))
    case("transpose_s16", "TRANSPOSE", [T(s16(2, 9), quant=qx), ints(1, 0)], [out(9, 2, quant=qx)])
    case("quantize_s16", "QUANTIZE", [T(f32(3, 20, lo=-12, hi=12))], [out(3, 20, quant=qx)])
    case("requantize_s16", "QUANTIZE", [T(s16(3, 20), quant=qx)], [out(3, 20)])
    case("narrow_s16", "QUANTIZE", [T(s16(3, 20), quant=qx)], [T(shape=[3, 20], dtype=np.int8, quant=(0.08, -3))])
    case("widen_s8", "QUANTIZE", [T(s8(3, 20), quant=(0.05, 4))], [out(3, 20, quant=qx)])
    case("dequantize_s16", "DEQUANTIZE", [T(s16(3, 20), quant=qx)], [T(shape=[3, 20])])
    for code in ("LOGISTIC", "TANH"):
        case(code.lower() + "_s16", code, [T(s16(3, 40), quant=(8 / 32768, 0))], [out(3, 40, quant=(1 / 32768, 0))])
    case("softmax_s16", "SOFTMAX", [T(s16(3, 20), quant=(0.0002, 0))], [out(3, 20, quant=(1 / 32768, 0))], options("SoftmaxOptions", beta=1.0),
         steps=4)  # LiteRT interpolates in tables
