#!/usr/bin/env python3
"""Write an untrained transformer for pictures of one channel, for `lathe train`.

    oracle/bin/pip install numpy onnx
    oracle/bin/python tests/oracle/make_transformer.py -o transformer.onnx
    lathe train transformer.onnx --data tests/datasets/fashion_mnist.toml --optimizer adamw --rate 0.002 --warmup 0.5 \
        --epochs 6 --keep-rate -o transformer.lathe

Dosovitskiy et al., "An Image is Worth 16x16 Words" (2021), small: the picture is cut into patches, each becomes a vector of
--width numbers with its place added; --layers times attention of --heads heads and a network of one hidden layer (GELU), each
behind a layer normalization and beside a shortcut; the mean over the patches, one layer to the classes. Query, key and value have
weights of their own. The batch is open. Weights are those that training starts from, so that `--from-scratch` is not needed.
"""

import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, name, values, dtype=np.float32):
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def linear(self, name, x, inputs, outputs, gain=1.0):
        weights = self.random.normal(0, gain * inputs**-0.5, (inputs, outputs))
        y = self.node("MatMul", [x, self.constant(name + ".weight", weights)], name + ".product")
        return self.node("Add", [y, self.constant(name + ".bias", np.zeros(outputs))], name)

    def norm(self, name, x, width):
        scale, shift = self.constant(name + ".weight", np.ones(width)), self.constant(name + ".bias", np.zeros(width))
        return self.node("LayerNormalization", [x, scale, shift], name, axis=-1, epsilon=1e-5)

    def heads(self, name, x, width, heads, perm):
        split = self.constant(name + ".shape", [0, 0, heads, width // heads], np.int64)
        return self.node("Transpose", [self.node("Reshape", [x, split], name + ".split")], name + ".heads", perm=perm)

    def attention(self, name, x, width, heads, gain):
        query, key, value = (self.linear(f"{name}.{part}", x, width, width) for part in ("query", "key", "value"))
        query = self.heads(name + ".query", query, width, heads, [0, 2, 1, 3])
        key = self.heads(name + ".key", key, width, heads, [0, 2, 3, 1])
        value = self.heads(name + ".value", value, width, heads, [0, 2, 1, 3])
        scale = self.constant(name + ".scale", (width // heads) ** -0.5)
        scores = self.node("Mul", [self.node("MatMul", [query, key], name + ".scores"), scale], name + ".scaled")
        mixed = self.node("MatMul", [self.node("Softmax", [scores], name + ".shares", axis=-1), value], name + ".mixed")
        mixed = self.node("Transpose", [mixed], name + ".mixed.heads", perm=[0, 2, 1, 3])
        joined = self.node("Reshape", [mixed, self.constant(name + ".joined.shape", [0, 0, width], np.int64)], name + ".joined")
        return self.linear(name + ".out", joined, width, width, gain)

    def gelu(self, name, x):
        erf = self.node("Erf", [self.node("Mul", [x, self.constant(name + ".root", 0.5**0.5)], name + ".scaled")], name + ".erf")
        product = self.node("Mul", [x, self.node("Add", [erf, self.constant(name + ".one", 1)], name + ".share")], name + ".product")
        return self.node("Mul", [product, self.constant(name + ".half", 0.5)], name)


def transformer(layers, heads, width, inner, side, patch, classes, seed):
    w, places = Writer(seed), (side // patch) ** 2
    weights = w.random.normal(0, 1 / patch, (width, 1, patch, patch))
    x = w.node("Conv", ["image", w.constant("patches.weight", weights), w.constant("patches.bias", np.zeros(width))], "patches",
               kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = w.node("Reshape", [x, w.constant("vectors.shape", [0, width, places], np.int64)], "vectors")
    x = w.node("Transpose", [x], "tokens", perm=[0, 2, 1])
    x = w.node("Add", [x, w.constant("places", w.random.normal(0, 0.1, (1, places, width)))], "placed")
    gain = (2 * layers) ** -0.5  # of what is added to the shortcut, so that the sum does not grow with the layers
    for i in range(layers):
        name = f"layer{i}"
        y = w.attention(name + ".attention", w.norm(name + ".norm1", x, width), width, heads, gain)
        x = w.node("Add", [x, y], name + ".attended")
        y = w.gelu(name + ".gelu", w.linear(name + ".inner", w.norm(name + ".norm2", x, width), width, inner))
        x = w.node("Add", [x, w.linear(name + ".outer", y, inner, width, gain)], name + ".sum")
    x = w.node("ReduceMean", [w.norm("norm", x, width)], "mean", axes=[1], keepdims=0)
    head = w.constant("head.weight", w.random.normal(0, width**-0.5, (classes, width)))
    w.node("Gemm", [x, head, w.constant("head.bias", np.zeros(classes))], "scores", transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, side, side])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", classes])
    graph = helper.make_graph(w.nodes, "transformer", [image], [scores], w.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--width", type=int, default=64, help="numbers of a vector; a multiple of the heads")
    parser.add_argument("--inner", type=int, default=128, help="hidden units of a layer")
    parser.add_argument("--side", type=int, default=28, help="pixels of the picture's side")
    parser.add_argument("--patch", type=int, default=7, help="pixels of a patch's side")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    onnx.save(transformer(a.layers, a.heads, a.width, a.inner, a.side, a.patch, a.classes, a.seed), a.output)


if __name__ == "__main__":
    main()
