#!/usr/bin/env python3
"""Write an untrained ResNet for pictures of one channel, for `lathe train --from-scratch`.

    oracle/bin/pip install numpy onnx
    oracle/bin/python tests/oracle/make_resnet20.py -o resnet20.onnx
    oracle/bin/python tests/oracle/make_resnet20.py --widths 32,64,128 -o wide.onnx

He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (2016), section 4.2: a 3x3 convolution, three stages of
--blocks blocks of two 3x3 convolutions (3 blocks: 20 layers), the mean over the picture, one layer to the classes; each
convolution with batch norm. Where a block changes width or size, its shortcut is a strided 1x1 convolution with batch norm. The
batch is open.
"""

import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Writer:
    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def constant(self, name, values):
        self.constants.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def conv_bn(self, name, x, ic, oc, stride=1, kernel=3):
        weights = self.random.normal(0, (2 / (ic * kernel * kernel)) ** 0.5, (oc, ic, kernel, kernel))
        y = self.node("Conv", [x, self.constant(name + ".weight", weights)], name + ".conv", kernel_shape=[kernel] * 2,
                      pads=[kernel // 2] * 4, strides=[stride] * 2)
        norm = [self.constant(f"{name}.bn.{part}", np.full(oc, value))
                for part, value in (("weight", 1), ("bias", 0), ("mean", 0), ("var", 1))]
        return self.node("BatchNormalization", [y, *norm], name + ".bn", epsilon=1e-5)


def resnet(widths, blocks, side, classes, seed):
    w = Writer(seed)
    x, ic = w.node("Relu", [w.conv_bn("stem", "image", 1, widths[0])], "stem.relu"), widths[0]
    for stage, oc in enumerate(widths):
        for block in range(blocks):
            name, stride = f"stage{stage + 1}.{block}", 2 if stage > 0 and block == 0 else 1
            y = w.node("Relu", [w.conv_bn(name + ".a", x, ic, oc, stride)], name + ".a.relu")
            y = w.conv_bn(name + ".b", y, oc, oc)
            shortcut = x if stride == 1 and ic == oc else w.conv_bn(name + ".shortcut", x, ic, oc, stride, kernel=1)
            x, ic = w.node("Relu", [w.node("Add", [y, shortcut], name + ".add")], name + ".relu"), oc
    x = w.node("Flatten", [w.node("GlobalAveragePool", [x], "pool")], "features", axis=1)
    weights = w.constant("head.weight", w.random.normal(0, (2 / ic) ** 0.5, (classes, ic)))
    w.node("Gemm", [x, weights, w.constant("head.bias", np.zeros(classes))], "scores", transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, side, side])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", classes])
    graph = helper.make_graph(w.nodes, "resnet", [image], [scores], w.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--widths", default="16,32,64", help="channels of the stages")
    parser.add_argument("--blocks", type=int, default=3, help="per stage")
    parser.add_argument("--side", type=int, default=28, help="pixels of the picture's side")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    onnx.save(resnet([int(v) for v in a.widths.split(",")], a.blocks, a.side, a.classes, a.seed), a.output)


if __name__ == "__main__":
    main()
