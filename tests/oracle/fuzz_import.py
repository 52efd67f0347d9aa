#!/usr/bin/env python3
"""Random small ONNX models: `lathe run` against ONNX Runtime.

Each seed makes one model (a chain of one to eight operators on an image, with
branches, every attribute drawn at random), runs both and compares with the
tests' measure, max|a - b| / max|b|. Models that lathe refuses as unsupported
are counted; anything else that differs is kept and printed.

    fuzz_import.py --lathe build/tools/lathe --seeds 0:500
"""

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


class Maker:
    """A model under construction; `x` is the name of the current value, NCHW until `flat`."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([7, 9, 10, 11, 12, 13, 15, 17, 18, 19, 21, 22]))
        self.nodes, self.weights, self.count = [], [], 0
        self.shape = [int(self.rng.integers(1, 4)), int(self.rng.integers(1, 9)), int(self.rng.integers(3, 13)), int(self.rng.integers(3, 13))]
        self.input_shape = list(self.shape)
        self.x = "input"

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def weight(self, array, dtype=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def normal(self, *shape):
        return self.weight(self.rng.normal(0, 0.5, shape))

    def node(self, op, inputs, shape=None, outputs=1, **attributes):
        names = [f"v{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(op, inputs, names, f"{op}_{self.count}", **attributes))
        self.x = names[0]
        if shape is not None:
            self.shape = list(shape)
        return names

    # --- windows ---
    def window(self, kernel):
        h, w = self.shape[2:]
        a = {}
        stride = [int(self.pick(1, 1, 2, 3)) for _ in range(2)]
        dilation = [1, 1]
        if self.rng.random() < 0.6:
            a["strides"] = stride
        else:
            stride = [1, 1]
        return a, stride, dilation, h, w, kernel

    def conv(self):
        n, c, h, w = self.shape
        k = [int(self.rng.integers(1, min(4, s) + 1)) for s in (h, w)]
        groups = self.pick(1, 1, c, *[g for g in range(1, c + 1) if c % g == 0])
        oc = groups * int(self.rng.integers(1, 5))
        a, stride, d, *_ = self.window(k)
        mode = self.pick("NOTSET", "NOTSET", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
        if mode in ("NOTSET", "pads", "VALID") and self.rng.random() < 0.4:
            d = [int(self.pick(1, 2)) if 2 * (k[i] - 1) + 1 <= self.shape[2 + i] else 1 for i in range(2)]
            a["dilations"] = d
        if mode == "pads":
            a["pads"] = [int(self.rng.integers(0, 3)) for _ in range(4)]
        elif mode != "NOTSET":
            a["auto_pad"] = mode
        if self.rng.random() < 0.5:
            a["kernel_shape"] = k
        inputs = [self.x, self.normal(oc, c // groups, *k)] + ([self.normal(oc)] if self.rng.random() < 0.6 else [])
        self.node("Conv", inputs, group=groups, **a)
        self.sync()

    def conv_transpose(self):
        n, c, h, w = self.shape
        k = [int(self.rng.integers(1, 5)) for _ in range(2)]
        groups = self.pick(1, 1, *[g for g in range(1, c + 1) if c % g == 0])
        oc = groups * int(self.rng.integers(1, 5))
        stride = [int(self.pick(1, 2, 2, 3)) for _ in range(2)]
        d = [int(self.pick(1, 1, 2)) for _ in range(2)]
        a = {"strides": stride, "dilations": d}
        mode = self.pick("NOTSET", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
        extent = [(k[i] - 1) * d[i] + 1 for i in range(2)]
        if mode == "pads":
            a["pads"] = [int(self.rng.integers(0, min(3, extent[i % 2]))) for i in range(4)]
        elif mode != "NOTSET" and (mode == "VALID" or all(e >= s for e, s in zip(extent, stride))):
            a["auto_pad"] = mode
        if "auto_pad" not in a and self.rng.random() < 0.4:
            a["output_padding"] = [int(self.rng.integers(0, max(stride[i], d[i]))) for i in range(2)]
        size = [(self.shape[2 + i] - 1) * stride[i] + extent[i] - (a["pads"][i] + a["pads"][i + 2] if "pads" in a else 0) for i in range(2)]
        if min(size) < 1 or max(size) > 40:
            return
        inputs = [self.x, self.normal(c, oc // groups, *k)] + ([self.normal(oc)] if self.rng.random() < 0.6 else [])
        self.node("ConvTranspose", inputs, group=groups, **a)
        self.sync()

    def pool(self):
        k = [int(self.rng.integers(1, min(4, s) + 1)) for s in self.shape[2:]]
        op = self.pick("MaxPool", "AveragePool")
        a, *_ = self.window(k)
        mode = self.pick("NOTSET", "pads", "SAME_UPPER", "SAME_LOWER", "VALID")
        if mode == "pads":
            a["pads"] = [int(self.rng.integers(0, k[i % 2])) for i in range(4)]
        elif mode != "NOTSET":
            a["auto_pad"] = mode
        if self.opset >= 10 and mode in ("NOTSET", "pads") and self.rng.random() < 0.4:
            a["ceil_mode"] = 1
        if op == "AveragePool" and self.rng.random() < 0.4:
            a["count_include_pad"] = 1
        if (self.opset >= 10 if op == "MaxPool" else self.opset >= 19) and mode == "NOTSET" and self.rng.random() < 0.3:
            a["dilations"] = [2 if 2 * (k[i] - 1) + 1 <= self.shape[2 + i] else 1 for i in range(2)]
        self.node(op, [self.x], kernel_shape=k, **a)
        self.sync()

    # --- elementwise ---
    def batch_norm(self):
        c = self.shape[1]
        var = self.weight(self.rng.uniform(0.2, 2, c))
        self.node("BatchNormalization", [self.x, self.normal(c), self.normal(c), self.normal(c), var], epsilon=float(self.pick(1e-5, 1e-3)))

    def unary(self):
        op = self.pick("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Neg", "HardSwish", "Clip", "Exp", "Identity", "Dropout")
        if op == "HardSwish" and self.opset < 14:
            op = "Relu"
        if op == "Exp":
            self.node("Tanh", [self.x])
        if op == "Clip":
            if self.opset < 11:
                self.node(op, [self.x], min=-0.5, max=float(self.pick(0.7, 6)))
            else:
                self.node(op, [self.x, self.pick("", self.weight(np.float32(-0.3))), self.weight(np.float32(0.9))])
        elif op == "LeakyRelu":
            self.node(op, [self.x], alpha=0.2)
        else:
            self.node(op, [self.x])

    def binary(self):
        op = self.pick("Add", "Sub", "Mul", "Div")
        shape = [s if self.rng.random() < 0.6 else 1 for s in self.shape][self.pick(0, 1, 2, 3) if len(self.shape) == 4 else 0:]
        other = self.rng.uniform(0.5, 2, shape) if op == "Div" else self.rng.normal(0, 1, shape)
        inputs = [self.x, self.weight(other)]
        if op != "Div" and self.rng.random() < 0.3:
            inputs.reverse()
        self.node(op, inputs)

    def residual(self):
        start, shape = self.x, list(self.shape)
        self.unary()
        self.node("Add", self.pick([start, self.x], [self.x, start]), shape)

    # --- data ---
    def concat(self):
        start, axis = self.x, int(self.rng.integers(-len(self.shape), len(self.shape))) if self.opset >= 11 else int(self.rng.integers(len(self.shape)))
        self.unary()
        self.node("Concat", [start, self.x, start][: self.pick(2, 3)], axis=axis)
        self.sync()

    def slice(self):
        axis = int(self.rng.integers(len(self.shape)))
        size = self.shape[axis]
        begin = int(self.rng.integers(0, max(1, size - 1)))
        end = int(self.pick(begin + 1, 2**31 + 5, size))
        if self.opset < 10:
            self.node("Slice", [self.x], starts=[begin], ends=[end], axes=[axis])
        else:
            step = int(self.pick(1, 1, 2, -1))
            if step < 0:
                begin, end = 2**40, -(2**40)
            i64 = lambda v: self.weight([v], np.int64)
            self.node("Slice", [self.x, i64(begin), i64(end), i64(axis - len(self.shape)), i64(step)])
        self.sync()

    def split(self):
        axis = int(self.rng.integers(len(self.shape)))
        if self.shape[axis] < 2:
            return
        sizes = [1, self.shape[axis] - 1]
        if self.opset < 13:
            names = self.node("Split", [self.x], outputs=2, axis=axis, split=sizes)
        else:
            names = self.node("Split", [self.x, self.weight(sizes, np.int64)], outputs=2, axis=axis)
        self.x = names[1]
        if self.rng.random() < 0.5:
            self.node("Concat", names, axis=axis)
        self.sync()

    def pad(self):
        pads = [int(self.rng.integers(0, 3)) for _ in range(2 * len(self.shape))]
        pads[0] = pads[len(self.shape)] = 0
        value = float(self.pick(0, 0, 1.5))
        if self.opset < 11:
            self.node("Pad", [self.x], pads=pads, value=value)
        else:
            self.node("Pad", [self.x, self.weight(pads, np.int64), self.weight(np.float32(value))])
        self.sync()

    def transpose(self):
        perm = [int(i) for i in self.rng.permutation(len(self.shape))]
        self.node("Transpose", [self.x], [self.shape[i] for i in perm], perm=perm)

    def softmax(self):
        self.node("Softmax", [self.x], axis=int(self.rng.integers(len(self.shape))))

    def mean(self):
        if len(self.shape) == 4 and self.rng.random() < 0.5:
            self.node("GlobalAveragePool", [self.x])
        else:
            axes = sorted({int(self.rng.integers(len(self.shape))) for _ in range(2)})
            keep = int(self.pick(0, 1)) if len(axes) < len(self.shape) else 1
            if self.opset < 18:
                self.node("ReduceMean", [self.x], axes=axes, keepdims=keep)
            else:
                self.node("ReduceMean", [self.x, self.weight(axes, np.int64)], keepdims=keep)
        self.sync()

    def reshape(self):
        kind = self.pick("Flatten", "Reshape", "Unsqueeze", "shape subgraph")
        if kind == "Flatten":
            self.node("Flatten", [self.x], axis=int(self.rng.integers(len(self.shape) + 1)))
        elif kind == "Reshape":
            self.node("Reshape", [self.x, self.weight(self.pick([0, -1], [-1], [1, -1, self.shape[-1]]) if len(self.shape) > 1 else [-1], np.int64)])
        elif kind == "Unsqueeze" and len(self.shape) < 5:
            if self.opset < 13:
                self.node("Unsqueeze", [self.x], axes=[1])
            else:
                self.node("Unsqueeze", [self.x, self.weight([1], np.int64)])
        elif len(self.shape) > 1:
            start = self.x
            self.node("Shape", [self.x])
            self.node("Gather", [self.x, self.weight([0], np.int64)], axis=0)
            self.node("Concat", [self.x, self.weight([-1], np.int64)], axis=0)
            self.node("Reshape", [start, self.x])
        self.sync()

    def dense(self):
        k, n = self.shape[-1], int(self.rng.integers(1, 20))
        if len(self.shape) == 2 and self.rng.random() < 0.6:
            trans = int(self.pick(0, 1))
            c = self.normal(*self.pick([n], [1, n], [], [self.shape[0], 1]))
            self.node("Gemm", [self.x, self.normal(*([n, k] if trans else [k, n])), c], transB=trans, alpha=float(self.pick(1, 0.5)), beta=float(self.pick(1, 2)))
        else:
            self.node("MatMul", [self.x, self.normal(k, n)])
            if self.rng.random() < 0.5:
                self.node("Add", [self.x, self.normal(n)])
        self.sync()

    def sync(self):
        """The current shape, as the standard's inference has it."""
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("input", TensorProto.FLOAT, self.input_shape)],
                                  [helper.make_tensor_value_info(self.x, TensorProto.FLOAT, None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        self.shape = [d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim]
        if not self.shape or min(self.shape) < 1 or np.prod(self.shape) > 50000:
            raise ValueError("the shape is not useful")

    def model(self, symbolic):
        images = [self.conv, self.conv, self.conv, self.conv_transpose, self.pool, self.batch_norm, self.unary, self.binary, self.residual, self.concat, self.slice, self.split, self.pad]
        anything = [self.unary, self.binary, self.residual, self.concat, self.slice, self.split, self.pad, self.transpose, self.softmax, self.mean, self.reshape, self.dense]
        for i in range(int(self.rng.integers(1, 9))):
            (self.pick(*images) if len(self.shape) == 4 and i < 5 else self.pick(*anything))()
        dims = list(self.input_shape)
        if symbolic:
            dims[0] = "N"
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("input", TensorProto.FLOAT, dims)],
                                  [helper.make_tensor_value_info(self.x, TensorProto.FLOAT, None)], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return model, self.rng.normal(0, 1, self.input_shape).astype(np.float32)


def compare(lathe, folder, seed):
    """'pass', 'unsupported', 'skipped', or a sentence."""
    try:
        model, x = Maker(seed).model(symbolic=seed % 2 == 0)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        expected = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, {"input": x})[0]
    except Exception:  # a model that the oracle refuses says nothing about us
        return "skipped"
    path, data, result = (folder / name for name in ("model.onnx", "x.npy", "y.npz"))
    onnx.save(model, path)
    np.save(data, x)
    run = subprocess.run([lathe, "run", path, "--input", data, "--output", result], capture_output=True, text=True)
    if run.returncode != 0:
        return "unsupported" if "not supported" in run.stderr else f"exit {run.returncode}: {run.stderr.strip()}"
    y = list(np.load(result).values())[0]
    if y.shape != expected.shape:
        return f"shape {y.shape}, expected {expected.shape}"
    worst = np.abs(y - expected).max() / max(np.abs(expected).max(), 1e-6) if y.size else 0
    return "pass" if worst < 1e-4 or np.isnan(expected).any() else f"difference {worst}"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--lathe", required=True)
    p.add_argument("--seeds", default="0:500", help="first:end")
    p.add_argument("--keep", type=Path, help="folder for models that differ")
    args = p.parse_args()
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(*map(int, args.seeds.split(":"))):
            verdict = compare(args.lathe, Path(folder), seed)
            kind = verdict if verdict in ("pass", "unsupported", "skipped") else "failed"
            counts[kind] = counts.get(kind, 0) + 1
            if kind == "failed":
                print(f"seed {seed}: {verdict}", flush=True)
                if args.keep:
                    args.keep.mkdir(exist_ok=True)
                    (Path(folder) / "model.onnx").rename(args.keep / f"{seed}.onnx")
    print(", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    raise SystemExit(1 if counts.get("failed") else 0)


if __name__ == "__main__":
    main()
