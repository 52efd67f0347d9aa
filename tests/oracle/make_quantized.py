#!/usr/bin/env python3
"""Quantized operators, and those of ONNX Runtime's optimizer, with what ONNX Runtime makes of them.

Writes expected/quantized.npz with arrays model_<i> (the ONNX file's bytes), x_<i> (its one float input), y_<i> (its float output)
and step_<i> (what one step of the output's grid is worth; 0: the result is a float). Needs onnx, onnxruntime and numpy. The cases' names stand in
tests/graph/import/onnx_quantized_test.cc too.
"""

from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"


class Model:
    """Nodes and constants of one case. Tensors on a grid are named by `name`, `name_s`, `name_z`."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.step = [], [], 0.0

    def const(self, name, values, dtype):
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, op, inputs, output, domain="", **attributes):
        outputs = output if isinstance(output, list) else [output]
        self.nodes.append(helper.make_node(op, inputs, outputs, f"n{len(self.nodes)}_{op}", domain=domain, **attributes))
        return outputs[0]

    def grid(self, name, scale, zero, dtype=np.uint8):
        return [self.const(name + "_s", scale, np.float32), self.const(name + "_z", zero, dtype)]

    def quantized(self, name, source="x", scale=0.02, zero=120, dtype=np.uint8):
        """`source` on a grid: the three operands of a QLinear operator."""
        grid = self.grid(name, scale, zero, dtype)
        return [self.node("QuantizeLinear", [source, *grid], name)] + grid

    def weight(self, name, shape, dtype=np.int8, scale=0.01, zero=0):
        info = np.iinfo(dtype)
        self.const(name, self.rng.integers(info.min, info.max + 1, shape), dtype)
        return [name] + self.grid(name, scale, zero, dtype)

    def floats(self, name, shape, spread=0.5):
        return self.const(name, self.rng.normal(0, spread, shape), np.float32)

    def finish(self, op, inputs, scale=0.05, zero=110, dtype=np.uint8, domain=MS, before=True, **attributes):
        """The operator whose result is on a grid, and y from it. The result's grid stands before or behind the operands."""
        grid = self.grid("q", scale, zero, dtype)
        self.node(op, inputs + grid if before else grid + inputs, "q", domain, **attributes)
        self.node("DequantizeLinear", ["q", *grid], "y")
        self.step = scale


IMAGE, MATRIX, ROWS = [2, 6, 7, 5], [5, 12], [2, 4, 12]


def qlinear_conv(m, dtype=np.int8, zero=0, channels=None, act=np.uint8, act_zero=120):
    x = m.quantized("a", zero=act_zero, dtype=act)
    scale = 0.01 if channels is None else np.linspace(0.004, 0.02, channels)
    w = m.weight("w", [8, 3, 3, 2], dtype, scale, zero if channels is None else np.full(channels, zero))
    bias = m.const("b", m.rng.integers(-4000, 4000, 8), np.int32)
    grid = m.grid("q", 0.05, 110 if act == np.uint8 else -5, act)
    m.node("QLinearConv", x + w + grid + [bias], "q", group=2, pads=[1, 0, 1, 1], strides=[1, 2])
    m.node("DequantizeLinear", ["q", *grid], "y")
    m.step = 0.05


def qdq_conv(m):
    """Floats between the borders: weights per channel, a float bias, a Relu."""
    m.node("DequantizeLinear", m.quantized("a"), "af")
    w = m.weight("w", [4, 6, 3, 3], scale=np.linspace(0.004, 0.02, 4), zero=np.zeros(4))
    m.node("DequantizeLinear", w, "wf", axis=0)
    m.node("Conv", ["af", "wf", m.floats("b", [4])], "c")
    m.node("Relu", ["c"], "r")
    m.node("DequantizeLinear", m.quantized("q", "r", 0.05, 0), "y")
    m.step = 0.05


def moved(m):
    """Integers that are moved between the borders."""
    m.quantized("a")
    m.node("Transpose", ["a"], "t", perm=[0, 2, 3, 1])
    m.node("Reshape", ["t", m.const("shape", [2, 35, 6], np.int64)], "r")
    m.node("DequantizeLinear", ["r", "a_s", "a_z"], "y")
    m.step = 0.02


def pooled(m):
    m.node("DequantizeLinear", m.quantized("a"), "af")
    m.node("MaxPool", ["af"], "p", kernel_shape=[2, 2])
    m.node("DequantizeLinear", m.quantized("q", "p"), "y")
    m.step = 0.02


def qlinear_matmul(m):
    m.finish("QLinearMatMul", m.quantized("a") + m.weight("w", [12, 7], np.uint8, 0.01, 128), domain="")


def qlinear_matmul_activations(m):
    a = m.quantized("a")
    m.node("Transpose", ["a"], "t", perm=[1, 0])
    m.finish("QLinearMatMul", a + ["t", "a_s", "a_z"], domain="")


def binary(op):
    def make(m):
        m.finish(op, m.quantized("a") + m.quantized("b", scale=0.03, zero=90))
    return make


def qlinear_concat(m):
    m.finish("QLinearConcat", m.quantized("a") + m.quantized("b", scale=0.03, zero=90), before=False, axis=1)


def unary(op, scale=0.05, zero=110, dtype=np.uint8, **attributes):
    def make(m):
        m.finish(op, m.quantized("a", zero=120 if dtype == np.uint8 else -3, dtype=dtype), scale, zero, dtype, **attributes)
    return make


def qgemm(m, floats=False):
    a, w = m.quantized("a"), m.weight("w", [7, 12], scale=0.01)
    c = m.const("c", m.rng.integers(-3000, 3000, 7), np.int32)
    if floats:
        m.node("QGemm", a + w + [c], "y", MS, transB=1)
    else:
        m.finish("QGemm", a + w + [c], transB=1)


def dynamic_matmul(m):
    w = m.weight("w", [12, 7])
    m.node("DynamicQuantizeMatMul", ["x", w[0], w[1], w[2], m.floats("b", [7])], "y", MS)


def integer_to_float(m):
    a, w = m.quantized("a"), m.weight("w", [12, 7], np.uint8, 0.01, 117)
    m.node("MatMulIntegerToFloat", [a[0], w[0], a[1], w[1], a[2], w[2], m.floats("b", [7])], "y", MS)


def dynamic_chain(m):
    """What quantize_dynamic writes for a MatMul."""
    m.node("DynamicQuantizeLinear", ["x"], ["a", "a_s", "a_z"])
    w = m.weight("w", [12, 7])
    m.node("MatMulInteger", ["a", w[0], "a_z", w[2]], "sum")
    m.node("Cast", ["sum"], "real", to=TensorProto.FLOAT)
    m.node("Mul", ["a_s", w[1]], "scale")
    m.node("Mul", ["real", "scale"], "product")
    m.node("Add", ["product", m.floats("b", [7])], "y")


def conv_integer(m):
    m.node("DynamicQuantizeLinear", ["x"], ["a", "a_s", "a_z"])
    w = m.weight("w", [4, 6, 3, 3], np.uint8, 0.01, 99)
    m.node("ConvInteger", ["a", w[0], "a_z", w[2]], "sum", pads=[1, 1, 1, 1], strides=[2, 1])
    m.node("Cast", ["sum"], "real", to=TensorProto.FLOAT)
    m.node("Mul", ["a_s", w[1]], "scale")
    m.node("Mul", ["real", "scale"], "y")


def fused_conv(m, activation="Relu", params=(), addend=True):
    inputs = ["x", m.floats("w", [6, 6, 3, 3], 0.1), m.floats("b", [6])] + (["x"] if addend else [])
    extra = {"activation_params": list(params)} if params else {}
    m.node("FusedConv", inputs, "y", MS, pads=[1, 1, 1, 1], activation=activation, **extra)


def simple(op, *shapes, domain=MS, **attributes):
    def make(m):
        m.node(op, ["x"] + [m.floats(f"w{i}", s) for i, s in enumerate(shapes)], "y", domain, **attributes)
    return make


CASES = [
    ("QLinearConv per channel", IMAGE, lambda m: qlinear_conv(m, channels=8)),
    ("QLinearConv s8", IMAGE, lambda m: qlinear_conv(m, act=np.int8, act_zero=-7)),
    ("QLinearConv u8 weights", IMAGE, lambda m: qlinear_conv(m, np.uint8, 128)),
    ("QLinearConv weights with a zero point", IMAGE, lambda m: qlinear_conv(m, np.uint8, 99)),
    ("QDQ Conv", IMAGE, qdq_conv),
    ("moved integers", IMAGE, moved),
    ("QDQ MaxPool", IMAGE, pooled),
    ("QLinearMatMul", ROWS, qlinear_matmul),
    ("QLinearMatMul of activations", MATRIX, qlinear_matmul_activations),
    ("QLinearAdd", IMAGE, binary("QLinearAdd")),
    ("QLinearMul", IMAGE, binary("QLinearMul")),
    ("QLinearConcat", IMAGE, qlinear_concat),
    ("QLinearSigmoid", IMAGE, unary("QLinearSigmoid", 0.004, 3)),
    ("QLinearSigmoid s8", IMAGE, unary("QLinearSigmoid", 0.005, -100, np.int8)),
    ("QLinearLeakyRelu", IMAGE, unary("QLinearLeakyRelu", alpha=0.2)),
    ("QLinearGlobalAveragePool", IMAGE, unary("QLinearGlobalAveragePool", 0.01, 128, channels_last=0)),
    ("QLinearAveragePool", IMAGE, unary("QLinearAveragePool", kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], channels_last=0)),
    ("QLinearSoftmax", MATRIX, unary("QLinearSoftmax", 1 / 256, 0, axis=-1, opset=13)),
    ("QLinearSoftmax on another grid", MATRIX, unary("QLinearSoftmax", 0.003, 2, axis=-1, opset=13)),
    ("QGemm", MATRIX, qgemm),
    ("QGemm to float", MATRIX, lambda m: qgemm(m, True)),
    ("DynamicQuantizeMatMul", ROWS, dynamic_matmul),
    ("MatMulIntegerToFloat", ROWS, integer_to_float),
    ("dynamic chain", ROWS, dynamic_chain),
    ("ConvInteger", IMAGE, conv_integer),
    ("FusedConv", IMAGE, fused_conv),
    ("FusedConv HardSigmoid", IMAGE, lambda m: fused_conv(m, "HardSigmoid", (0.3, 0.4), False)),
    ("Gelu", ROWS, simple("Gelu")),
    ("BiasGelu", ROWS, simple("BiasGelu", [12])),
    ("FastGelu", ROWS, simple("FastGelu", [12])),
    ("QuickGelu", ROWS, simple("QuickGelu", alpha=1.5)),
    ("SkipLayerNormalization", ROWS, simple("SkipLayerNormalization", ROWS, [12], [12], [12], epsilon=1e-5)),
    ("SkipSimplifiedLayerNormalization", ROWS, simple("SkipSimplifiedLayerNormalization", ROWS, [12], epsilon=1e-5)),
    ("SimplifiedLayerNormalization", ROWS, simple("SimplifiedLayerNormalization", [12], domain="", epsilon=1e-5)),
    ("FusedMatMul", ROWS, simple("FusedMatMul", [7, 12], transB=1, alpha=0.25)),
]


def main():
    arrays = {}
    for i, (name, shape, make) in enumerate(CASES):
        m = Model(100 + i)
        make(m)
        graph = helper.make_graph(m.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], m.weights)
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid(MS, 1)]
        data = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        x = m.rng.normal(0, 1, shape).astype(np.float32)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        y = session.run(None, {"x": x})[0]
        arrays |= {f"model_{i}": np.frombuffer(data, np.uint8), f"x_{i}": x, f"y_{i}": y, f"step_{i}": np.array(m.step, np.float32)}
        print(f"{i:2} {name}: {y.shape}, {np.unique(y).size} values")
    np.savez_compressed(Path(__file__).parent / "expected" / "quantized.npz", **arrays)


if __name__ == "__main__":
    main()
