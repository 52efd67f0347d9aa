#!/usr/bin/env python3
"""Small models of single operators with what ONNX Runtime makes of them.

Writes expected/<group>.npz with arrays model_<i> (the ONNX file's bytes), x_<i> (its input) and y_<i> (its output), for the
import tests. Needs onnx, onnxruntime and numpy.
"""

from pathlib import Path

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

# Input NCHW, output channels, kernel, bias, attributes; Relu follows where the last entry is true.
CONV_TRANSPOSE = [
    ([1, 3, 5, 4], 4, [3, 3], True, {}, False),
    ([2, 8, 4, 5], 6, [2, 2], True, {"strides": [2, 2]}, True),
    ([1, 16, 6, 7], 17, [3, 3], True, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, True),
    ([1, 5, 3, 3], 3, [4, 4], False, {"strides": [2, 2], "pads": [1, 1, 1, 1]}, False),
    ([1, 4, 5, 6], 8, [3, 2], True, {"strides": [3, 1], "pads": [0, 1, 2, 0], "dilations": [2, 3]}, False),
    ([1, 4, 5, 6], 8, [3, 3], True, {"strides": [4, 3], "dilations": [2, 1]}, False),
    ([1, 6, 4, 4], 8, [3, 3], True, {"group": 2, "strides": [2, 1], "pads": [1, 0, 0, 1]}, False),
    ([1, 6, 4, 4], 6, [4, 4], False, {"group": 6, "strides": [2, 2], "pads": [1, 1, 1, 1]}, False),
    ([1, 2, 1, 1], 3, [5, 4], True, {}, False),
    ([1, 3, 3, 2], 2, [1, 1], True, {"strides": [3, 2]}, False),
    ([1, 3, 4, 4], 5, [3, 3], True, {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, False),
    ([1, 3, 4, 5], 5, [4, 5], True, {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, False),
    ([1, 3, 4, 4], 5, [3, 3], True, {"strides": [2, 2], "auto_pad": "VALID", "output_padding": [1, 0]}, False),
    ([1, 3, 4, 4], 5, [3, 4], True, {"strides": [2, 2], "output_shape": [8, 9]}, False),
    ([1, 3, 4, 4], 5, [3, 4], True, {"strides": [2, 2], "output_shape": [8, 9], "auto_pad": "SAME_UPPER"}, False),
    ([1, 20, 9, 8], 33, [3, 3], True, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, True),
]


def model_of(rng, shape, oc, kernel, bias, attributes, relu):
    w = rng.normal(0, 0.4, [shape[1], oc // attributes.get("group", 1), *kernel]).astype(np.float32)
    weights = [numpy_helper.from_array(w, "w")]
    if bias:
        weights.append(numpy_helper.from_array(rng.normal(0, 0.5, [oc]).astype(np.float32), "b"))
    nodes = [helper.make_node("ConvTranspose", ["x", "w"] + ["b"] * bias, ["c" if relu else "y"], "n", **attributes)]
    if relu:
        nodes.append(helper.make_node("Relu", ["c"], ["y"], "relu"))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def main():
    rng = np.random.default_rng(36)
    arrays = {}
    for i, case in enumerate(CONV_TRANSPOSE):
        data = model_of(rng, *case).SerializeToString()
        x = rng.normal(0, 1, case[0]).astype(np.float32)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        arrays |= {f"model_{i}": np.frombuffer(data, np.uint8), f"x_{i}": x, f"y_{i}": session.run(None, {"x": x})[0]}
    np.savez_compressed(Path(__file__).parent / "expected" / "conv_transpose.npz", **arrays)


if __name__ == "__main__":
    main()
