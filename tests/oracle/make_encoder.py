#!/usr/bin/env python3
"""Write models/tiny_encoder.onnx: one transformer layer with random weights.

It holds what encoders are exported with: heads by Reshape and Transpose, scaled
and masked attention, layer normalization as one operator and written out, GELU
with the error function. make_expected.py computes what it must give.
"""

import math
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEQUENCE, WIDTH, HEADS, INNER = 6, 16, 2, 32


class Network:
    def __init__(self):
        self.nodes, self.weights, self.rng = [], [], np.random.default_rng(11)

    def constant(self, value):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op, inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def random(self, *shape, spread=1.0):
        return self.constant((self.rng.standard_normal(shape) * spread).astype(np.float32))

    def number(self, value):
        return self.constant(np.float32(value))

    def linear(self, x, inputs, outputs):
        product = self.add("MatMul", [x, self.random(inputs, outputs, spread=inputs**-0.5)])
        return self.add("Add", [product, self.random(outputs, spread=0.1)])

    def heads(self, x, perm):
        split = self.add("Reshape", [x, self.constant(np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))])
        return self.add("Transpose", [split], perm=perm)

    def attention(self, x):
        query = self.heads(self.linear(x, WIDTH, WIDTH), [0, 2, 1, 3])
        keys = self.heads(self.linear(x, WIDTH, WIDTH), [0, 2, 3, 1])
        values = self.heads(self.linear(x, WIDTH, WIDTH), [0, 2, 1, 3])
        scores = self.add("Div", [self.add("MatMul", [query, keys]), self.number(math.sqrt(WIDTH // HEADS))])
        mask = np.triu(np.full((1, 1, SEQUENCE, SEQUENCE), -1e9, np.float32), 1)
        weights = self.add("Softmax", [self.add("Add", [scores, self.constant(mask)])], axis=-1)
        mixed = self.add("Transpose", [self.add("MatMul", [weights, values])], perm=[0, 2, 1, 3])
        merged = self.add("Reshape", [mixed, self.constant(np.array([0, 0, WIDTH], np.int64))])
        return self.linear(merged, WIDTH, WIDTH)

    def gelu(self, x):
        erf = self.add("Erf", [self.add("Div", [x, self.number(math.sqrt(2))])])
        product = self.add("Mul", [x, self.add("Add", [erf, self.number(1)])])
        return self.add("Mul", [product, self.number(0.5)])

    def norm(self, x):
        scale, bias = self.random(WIDTH, spread=0.2), self.random(WIDTH, spread=0.2)
        return self.add("LayerNormalization", [x, scale, bias], axis=-1, epsilon=1e-12)

    def norm_written_out(self, x):
        centred = self.add("Sub", [x, self.add("ReduceMean", [x], axes=[-1])])
        variance = self.add("ReduceMean", [self.add("Pow", [centred, self.number(2)])], axes=[-1])
        deviation = self.add("Sqrt", [self.add("Add", [variance, self.number(1e-5)])])
        scaled = self.add("Mul", [self.add("Div", [centred, deviation]), self.random(WIDTH)])
        return self.add("Add", [scaled, self.random(WIDTH, spread=0.2)])


def main():
    net = Network()
    x = net.norm_written_out(net.add("Add", ["x", net.attention("x")]))
    hidden = net.gelu(net.linear(x, WIDTH, INNER))
    y = net.linear(net.norm(net.add("Add", [x, net.linear(hidden, INNER, WIDTH)])), WIDTH, WIDTH)
    net.nodes.append(helper.make_node("Identity", [y], ["y"], name="y"))
    shape = ["N", SEQUENCE, WIDTH]
    graph = helper.make_graph(net.nodes, "tiny_encoder", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    target = Path(__file__).resolve().parent / "models" / "tiny_encoder.onnx"
    target.write_bytes(model.SerializeToString())
    print(f"{target.stem}: {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
