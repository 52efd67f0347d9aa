"""What magika's reference scores are made of: the model in float64, in float32, and in Lathe.

    oracle/bin/python tests/oracle/magika_scores.py --lathe build/tools/lathe

The model normalizes with E[x^2] - E[x]^2 over 512 rows that are mostly alike, so that float32 cancels: scores depend on the order of
sums and on the last bits of tanh. Prints for each way how far its scores are from the reference's and from float64's. "in order" adds
rows one after another in float32; "rational tanh" is the quotient of polynomials that several runtimes use.
Needs onnx, onnxruntime and numpy.
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from compare_export import DATA

MODEL = DATA / "models/magika/standard_v3_3.onnx"


def reference():
    rows = [line.split("\t") for line in (DATA / "datasets/magika/reference_label_score.tsv").read_text().splitlines()]
    x = np.fromfile(DATA / "datasets/magika/reference_129x2048.u16", "<u2").reshape(-1, 2048).astype(np.int32)
    return x, np.array([int(r[0]) for r in rows]), np.array([float(r[2]) for r in rows])


class GlobalMaxPool(OpRun):
    """ONNX's own loses the axes."""
    op_domain = ""

    def _run(self, x):
        return (x.max(tuple(range(2, x.ndim)), keepdims=True),)


class Tanh(OpRun):
    op_domain = ""

    def _run(self, x):
        def polynomial(q, coefficients):
            y = np.full_like(q, coefficients[0])
            for c in coefficients[1:]:
                y = y * q + np.float32(c)
            return y

        x = np.clip(x, np.float32(-9), np.float32(9))
        p = polynomial(x * x, [-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                               1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03])
        q = polynomial(x * x, [1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03])
        return (x * p / q,)


def sums(exact):
    class ReduceSum(OpRun):
        op_domain = ""

        def _run(self, x, axes=None, keepdims=None, noop_with_empty_axes=None):
            assert list(axes) == [1] and not keepdims
            if exact:
                return (x.astype(np.float64).sum(1).astype(x.dtype),)
            total = np.zeros_like(x[:, 0])
            for i in range(x.shape[1]):
                total = total + x[:, i]
            return (total,)

    return ReduceSum


def in_double():
    model = onnx.load(MODEL)
    for t in model.graph.initializer:
        if t.data_type == onnx.TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(t).astype(np.float64), t.name))
    for n in model.graph.node:
        for a in n.attribute:
            if n.op_type == "Cast" and a.i == onnx.TensorProto.FLOAT:
                a.i = onnx.TensorProto.DOUBLE
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return model


def evaluate(model, x, ops=()):
    evaluator = ReferenceEvaluator(model if isinstance(model, onnx.ModelProto) else str(model), new_ops=[GlobalMaxPool, *ops])
    return np.concatenate([evaluator.run(None, {"bytes": row[None]})[0] for row in x])


def lathe_scores(lathe, x):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        np.save(folder / "x.npy", x)
        subprocess.run([lathe, "run", MODEL, "--input", folder / "x.npy", "--output", folder / "y.npz"], check=True, capture_output=True)
        with np.load(folder / "y.npz") as y:
            return y[y.files[0]]


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--lathe", required=True)
    lathe = args.parse_args().lathe
    ort.set_default_logger_severity(3)
    x, labels, wanted = reference()
    different, back = np.unique(x, axis=0, return_inverse=True)
    pick = lambda y: y[back.ravel()][np.arange(len(x)), labels]
    exact = pick(evaluate(in_double(), different))
    session = ort.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    ways = {
        "float64": exact,
        "float32, exact sums": pick(evaluate(MODEL, different, [sums(True)])),
        "float32, sums in order": pick(evaluate(MODEL, different, [sums(False)])),
        "float32, sums in order, rational tanh": pick(evaluate(MODEL, different, [sums(False), Tanh])),
        f"ONNX Runtime {ort.__version__}": pick(np.concatenate([session.run(None, {"bytes": r[None]})[0] for r in different])),
        "Lathe": pick(lathe_scores(lathe, different)),
    }
    print(f"{len(x)} reference scores, {len(different)} different inputs\n")
    print("| computed in | within 1e-5 of the reference | largest difference | largest difference from float64 |\n|---|---|---|---|")
    for name, y in ways.items():
        d = np.abs(y - wanted)
        print(f"| {name} | {np.sum(d < 1e-5)} | {d.max():.1e} | {np.abs(y - exact).max():.1e} |")


if __name__ == "__main__":
    main()
