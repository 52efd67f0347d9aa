#!/usr/bin/env python3
"""Writes the ONNX models that peers.py times: models.py FOLDER [--single] [--nets NAME ...]

Layers of bench/kernels/shapes.inc as one-operator models with fused requantization, for ONNX Runtime: gemm_<type>_<MxNxK>.onnx and
conv_<type>_<h_w_c_oc_kernel_stride_pad_groups>.onnx with type u8, s8 or f32. Networks with random weights of a trained network's
spread: net_<name>_<mode>_b<batch>.onnx, mode fp32, qdq (u8 activations, s8 weights per channel) or dyn, and for Lathe
<name>.onnx (float, any batch) with a calibration set <name>.npy and <name>.toml. Same seed, same files.

Needs numpy and onnx.
"""
import argparse
import math
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as H
from onnx import numpy_helper

from shape_list import shapes


class Builder:
    """Nodes and initializers of one ONNX graph; names are made up."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def name(self, prefix):
        return f"{prefix}{len(self.nodes) + len(self.initializers)}"

    def constant(self, array):
        name = self.name("w")
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        names = [f"{self.name('t')}_{i}" for i in range(outputs)]
        self.nodes.append(H.make_node(op, inputs, names, name=self.name("n"), **attributes))
        return names[0] if outputs == 1 else names

    def save(self, path, x, y):
        """x and y: (name, element type, dims)."""
        graph = H.make_graph(self.nodes, path.stem, [H.make_tensor_value_info(*x)], [H.make_tensor_value_info(*y)], self.initializers)
        opsets = [H.make_opsetid("", 17), H.make_opsetid("com.microsoft", 1)]
        model = H.make_model(graph, opset_imports=opsets, producer_name="lathe-bench")
        model.ir_version = 8
        onnx.save(model, path)


# Layers ---------------------------------------------------------------------------------------------------------------------------

QUANTIZED = {"u8": (T.UINT8, np.uint8(128)), "s8": (T.INT8, np.int8(3))}


def weight_scales(b, n):
    return (b.rng.random(n) * 0.01 + 0.001).astype(np.float32)


def gemm(folder, m, n, k, kind):
    b = Builder(1)
    path = folder / f"gemm_{kind}_{m}x{n}x{k}.onnx"
    if kind == "f32":
        b.nodes.append(H.make_node("MatMul", ["x", b.constant(b.rng.standard_normal((k, n)).astype(np.float32))], ["y"]))
        return b.save(path, ("x", T.FLOAT, [m, k]), ("y", T.FLOAT, [m, n]))
    element, zero = QUANTIZED[kind]
    w = b.constant(b.rng.integers(-127, 128, (k, n)).astype(np.int8))
    inputs = ["x", b.constant(np.float32(0.02)), b.constant(zero), w, b.constant(weight_scales(b, n)), b.constant(np.zeros(n, np.int8))]
    inputs += [b.constant(np.float32(0.5)), b.constant(zero)]
    b.nodes.append(H.make_node("QLinearMatMul", inputs, ["y"]))
    return b.save(path, ("x", element, [m, k]), ("y", element, [m, n]))


def conv(folder, h, w, c, oc, kernel, stride, pad, groups, kind):
    b = Builder(1)
    path = folder / f"conv_{kind}_{h}_{w}_{c}_{oc}_{kernel}_{stride}_{pad}_{groups}.onnx"
    oh, ow = (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1
    shape = (oc, c // groups, kernel, kernel)
    attributes = dict(kernel_shape=[kernel, kernel], strides=[stride, stride], pads=[pad] * 4, group=groups)
    if kind == "f32":
        weights = [b.rng.standard_normal(shape) * 0.1, b.rng.standard_normal(oc)]
        b.nodes.append(H.make_node("Conv", ["x", *(b.constant(v.astype(np.float32)) for v in weights)], ["y"], **attributes))
        return b.save(path, ("x", T.FLOAT, [1, c, h, w]), ("y", T.FLOAT, [1, oc, oh, ow]))
    element, zero = QUANTIZED[kind]
    inputs = ["x", b.constant(np.float32(0.02)), b.constant(zero), b.constant(b.rng.integers(-127, 128, shape).astype(np.int8))]
    inputs += [b.constant(weight_scales(b, oc)), b.constant(np.zeros(oc, np.int8)), b.constant(np.float32(0.5)), b.constant(zero)]
    inputs += [b.constant(b.rng.integers(-999, 999, oc).astype(np.int32))]
    # ONNX Runtime's own channels-last form: the standard one is slower there.
    b.nodes.append(H.make_node("QLinearConv", inputs, ["y"], domain="com.microsoft", channels_last=1, **attributes))
    return b.save(path, ("x", element, [1, h, w, c]), ("y", element, [1, oh, ow, oc]))


def write_layers(folder):
    for kind in ("u8", "f32"):
        for shape in shapes("LATHE_BENCH_GEMM"):
            gemm(folder, *shape, kind)
        for shape in shapes("LATHE_BENCH_CONV"):
            conv(folder, *shape, kind)


# Networks -------------------------------------------------------------------------------------------------------------------------


class Tensor:
    """An image inside a network: its name, channels, height, width, and the scale of its 8-bit form."""

    def __init__(self, name, c, h, w, scale):
        self.name, self.c, self.h, self.w, self.scale = name, c, h, w, scale


class Network(Builder):
    """Layers in one of the modes: fp32, qdq (QuantizeLinear and DequantizeLinear around every operator) or dyn (MatMul only)."""

    def __init__(self, mode, width=1.0):
        super().__init__(1)
        self.mode, self.width = mode, width

    def channels(self, c):
        return c if self.width == 1.0 else math.floor(c * self.width + 0.5)

    def quantized(self, x, scale, relu):
        """x through 8 bit; after a ReLU the whole range stands for positive values."""
        if self.mode != "qdq":
            return x
        parameters = [self.constant(np.float32(scale)), self.constant(np.uint8(0 if relu else 128))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *parameters]), *parameters])

    def weights(self, shape, axis, fan, x_scale):
        """Weights and bias of a layer with `fan` inputs per output, channels along `axis`."""
        n = shape[axis]
        if self.mode != "qdq":
            w = self.rng.standard_normal(shape) * math.sqrt(2 / fan)
            return self.constant(w.astype(np.float32)), self.constant((self.rng.standard_normal(n) * 0.01).astype(np.float32))
        scales = ((self.rng.random(n) * 0.5 + 0.75) * math.sqrt(2 / fan) * 3 / 127).astype(np.float32)
        w = np.clip(np.round(self.rng.standard_normal(shape) * 127 / 3), -127, 127).astype(np.int8)
        bias = self.rng.integers(-50, 50, n).astype(np.int32)
        zeros = [self.constant(np.zeros(n, t)) for t in (np.int8, np.int32)]
        w = self.node("DequantizeLinear", [self.constant(w), self.constant(scales), zeros[0]], axis=axis)
        return w, self.node("DequantizeLinear", [self.constant(bias), self.constant(scales * np.float32(x_scale)), zeros[1]], axis=0)

    def input(self, c, h, w):
        return Tensor(self.quantized("x", 0.02, False), c, h, w, 0.02)

    def conv(self, x, oc, kernel, stride, pads, act, groups=1):
        """`act`: None, "relu" or "relu6"; with 8 bit the quantization's range does the clamping, as converters write it."""
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        pads = [pads] * 4 if isinstance(pads, int) else pads
        fan = x.c // groups * kernel[0] * kernel[1]
        w, b = self.weights((oc, x.c // groups, *kernel), 0, fan, x.scale)
        y = self.node("Conv", [x.name, w, b], kernel_shape=list(kernel), strides=[stride, stride], pads=pads, group=groups)
        if act and self.mode != "qdq":
            limits = [self.constant(np.float32(0)), self.constant(np.float32(6))] if act == "relu6" else []
            y = self.node("Clip" if limits else "Relu", [y, *limits])
        scale = 6 / 255 if act == "relu6" else 0.05
        oh, ow = (x.h + pads[0] + pads[2] - kernel[0]) // stride + 1, (x.w + pads[1] + pads[3] - kernel[1]) // stride + 1
        return Tensor(self.quantized(y, scale, act is not None), oc, oh, ow, scale)

    def add(self, a, b, relu):
        y = self.node("Add", [a.name, b.name])
        if relu and self.mode != "qdq":
            y = self.node("Relu", [y])
        return Tensor(self.quantized(y, 0.06, relu), a.c, a.h, a.w, 0.06)

    def max_pool(self, x):
        y = self.node("MaxPool", [x.name], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        return Tensor(self.quantized(y, x.scale, True), x.c, (x.h + 1) // 2, (x.w + 1) // 2, x.scale)

    def head(self, x, classes):
        y = self.quantized(self.node("GlobalAveragePool", [x.name]), 0.03, True)
        y = self.quantized(self.node("Flatten", [y], axis=1), 0.03, True)
        w, b = self.weights((classes, x.c), 0, x.c, 0.03)
        return self.quantized(self.node("Gemm", [y, w, b], transB=1), 0.1, False)


def mobilenet_v2(n):
    x = n.conv(n.input(3, 224, 224), n.channels(32), 3, 2, 1, "relu6")
    blocks = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for expand, c, repeat, first_stride in blocks:
        for i in range(repeat):
            stride = first_stride if i == 0 else 1
            y = x if expand == 1 else n.conv(x, x.c * expand, 1, 1, 0, "relu6")
            y = n.conv(y, y.c, 3, stride, 1, "relu6", groups=y.c)
            y = n.conv(y, n.channels(c), 1, 1, 0, None)
            x = n.add(x, y, False) if stride == 1 and x.c == y.c else y
    return n.head(n.conv(x, n.channels(1280), 1, 1, 0, "relu6"), 1000)


def resnet50(n):
    x = n.max_pool(n.conv(n.input(3, 224, 224), n.channels(64), 7, 2, 3, "relu"))
    for stage, (c, repeat) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        c = n.channels(c)
        for i in range(repeat):
            stride = 2 if i == 0 and stage > 0 else 1
            y = n.conv(n.conv(n.conv(x, c, 1, 1, 0, "relu"), c, 3, stride, 1, "relu"), c * 4, 1, 1, 0, None)
            x = n.add(y, n.conv(x, c * 4, 1, stride, 0, None) if i == 0 else x, True)
    return n.head(x, 1000)


def resnet8(n):
    x = n.conv(n.input(3, 32, 32), n.channels(16), 3, 1, 1, "relu")
    for i, (c, stride) in enumerate([(16, 1), (32, 2), (64, 2)]):
        c = n.channels(c)
        y = n.conv(n.conv(x, c, 3, stride, 1, "relu"), c, 3, 1, 1, None)
        x = n.add(y, x if i == 0 else n.conv(x, c, 1, stride, 0, None), True)
    return n.head(x, 10)


def dscnn(n):
    x = n.conv(n.input(1, 49, 10), 64, (10, 4), 2, [4, 1, 5, 1], "relu")
    for _ in range(4):
        x = n.conv(n.conv(x, 64, 3, 1, 1, "relu", groups=64), 64, 1, 1, 0, "relu")
    return n.head(x, 12)


def mobilenet_v1_025(n):
    x = n.conv(n.input(3, 96, 96), 8, 3, 2, 1, "relu6")
    for oc, stride in [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2)] + [(128, 1)] * 5 + [(256, 2), (256, 1)]:
        x = n.conv(n.conv(x, x.c, 3, stride, 1, "relu6", groups=x.c), oc, 1, 1, 0, "relu6")
    return n.head(x, 2)


LAYERS, WIDTH, INNER, HEADS, SEQUENCE = 6, 384, 1536, 12, 128


def linear(n, x, k, oc):
    if n.mode == "dyn":
        scales = ((n.rng.random(oc) * 0.5 + 0.75) * math.sqrt(1 / k) * 3 / 127).astype(np.float32)
        w = np.clip(np.round(n.rng.standard_normal((k, oc)) * 42), -127, 127).astype(np.int8)
        q, scale, zero = n.node("DynamicQuantizeLinear", [x], outputs=3)
        y = n.node("Cast", [n.node("MatMulInteger", [q, n.constant(w), zero, n.constant(np.zeros(oc, np.int8))])], to=T.FLOAT)
        y = n.node("Mul", [y, n.node("Mul", [scale, n.constant(scales)])])
        return n.node("Add", [y, n.constant((n.rng.standard_normal(oc) * 0.01).astype(np.float32))])
    w, b = n.weights((k, oc), 1, k * 2, 0.03)
    y = n.quantized(n.node("MatMul", [x, w]), 0.03, False)
    return n.node("Add", [y, b])


def layer_norm(n, x):
    parameters = [n.constant(np.ones(WIDTH, np.float32)), n.constant(np.zeros(WIDTH, np.float32))]
    return n.node("LayerNormalization", [x, *parameters], axis=-1, epsilon=1e-12)


def attention(n, x):
    split, merge = n.constant(np.array([0, 0, HEADS, WIDTH // HEADS], np.int64)), n.constant(np.array([0, 0, WIDTH], np.int64))
    quantized = n.quantized(x, 0.03, False)
    heads = [n.node("Reshape", [linear(n, quantized, WIDTH, WIDTH), split]) for _ in range(3)]
    perms = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    q, k, v = (n.quantized(n.node("Transpose", [t], perm=p), 0.03, False) for t, p in zip(heads, perms))
    scores = n.quantized(n.node("MatMul", [q, k]), 0.1, False)
    scores = n.node("Div", [scores, n.constant(np.float32(math.sqrt(WIDTH // HEADS)))])
    scores = n.quantized(n.node("Softmax", [scores], axis=-1), 1 / 255, True)
    y = n.node("Reshape", [n.node("Transpose", [n.node("MatMul", [scores, v])], perm=[0, 2, 1, 3]), merge])
    return linear(n, n.quantized(y, 0.03, False), WIDTH, WIDTH)


def gelu(n, x):
    erf = n.node("Erf", [n.node("Div", [x, n.constant(np.float32(math.sqrt(2)))])])
    y = n.node("Mul", [x, n.node("Add", [erf, n.constant(np.float32(1))])])
    return n.node("Mul", [y, n.constant(np.float32(0.5))])


def minilm(n):
    x = "x"
    for _ in range(LAYERS):
        x = layer_norm(n, n.node("Add", [attention(n, x), x]))
        h = gelu(n, linear(n, n.quantized(x, 0.03, False), WIDTH, INNER))
        x = layer_norm(n, n.node("Add", [linear(n, n.quantized(h, 0.03, False), INNER, WIDTH), x]))
    return x


# Name: builder, width, dims of the input and of the output without the batch, modes for ONNX Runtime.
NETWORKS = {
    "mobilenetv2": (mobilenet_v2, 1.0, [3, 224, 224], [1000], ("fp32", "qdq")),
    "resnet50": (resnet50, 1.0, [3, 224, 224], [1000], ("fp32", "qdq")),
    "resnet8": (resnet8, 1.0, [3, 32, 32], [10], ("fp32", "qdq")),
    "dscnn": (dscnn, 1.0, [1, 49, 10], [12], ("fp32", "qdq")),
    "mbv1_025_96": (mobilenet_v1_025, 1.0, [3, 96, 96], [2], ("fp32", "qdq")),
    "minilm": (minilm, 1.0, [SEQUENCE, WIDTH], [SEQUENCE, WIDTH], ("fp32", "qdq", "dyn")),
    "mobilenetv2_w75": (mobilenet_v2, 0.75, [3, 224, 224], [1000], ("fp32", "qdq")),
    "resnet50_w75": (resnet50, 0.75, [3, 224, 224], [1000], ("fp32", "qdq")),
    "resnet50_w74": (resnet50, 0.74, [3, 224, 224], [1000], ("fp32", "qdq")),
    "resnet8_w75": (resnet8, 0.75, [3, 32, 32], [10], ("fp32", "qdq")),
}
PRUNED = ("_w75", "_w74")
SAMPLES = 16


def write_network(folder, name):
    build, width, x_dims, y_dims, modes = NETWORKS[name]
    for mode in modes:
        for batch in (1,) if name.endswith(PRUNED) else (1, 8):
            n = Network(mode, width)
            n.nodes.append(H.make_node("Identity", [build(n)], ["y"]))
            n.save(folder / f"net_{name}_{mode}_b{batch}.onnx", ("x", T.FLOAT, [batch, *x_dims]), ("y", T.FLOAT, [batch, *y_dims]))
    n = Network("fp32", width)
    n.nodes.append(H.make_node("Identity", [build(n)], ["y"]))
    n.save(folder / f"{name}.onnx", ("x", T.FLOAT, ["N", *x_dims]), ("y", T.FLOAT, ["N", *y_dims]))
    np.save(folder / f"{name}.npy", np.random.default_rng(2).standard_normal((SAMPLES, *x_dims)).astype(np.float32))
    (folder / f"{name}.toml").write_text(f'format = "npz"\n[split.calib]\npaths = "{name}.npy"\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--single", action="store_true", help="only layers")
    parser.add_argument("--nets", nargs="*", choices=NETWORKS, help="only these networks")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.nets is None:
        write_layers(options.folder)
    for name in [] if options.single else options.nets or NETWORKS:
        write_network(options.folder, name)


if __name__ == "__main__":
    main()
