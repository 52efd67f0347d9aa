#!/usr/bin/env python3
"""A table over TFLite files: what Lathe computes beside LiteRT's reference kernels.

    python3 tests/oracle/tflite_table.py --lathe build/tools/lathe MODEL.tflite ... [--steps] [--runs N]

For each file: whether it loads, the largest error of the outputs (relative to the largest output for float, in steps for integers) and the
SQNR. --steps also runs every operator as a model of its own on the inputs that the reference gave it, and counts the elements that are
within one step. Needs ai-edge-litert and numpy. Inputs are normal numbers over the input's grid, from a fixed seed.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

IDENTIFIER = b"TFL3"


def interpreter(content, all_tensors=False):
    it = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
                     experimental_preserve_all_tensors=all_tensors, num_threads=1)
    it.allocate_tensors()
    return it


def random_inputs(it, rng):
    out = []
    for d in it.get_input_details():
        shape, scale, zero = d["shape"], d["quantization"][0], d["quantization"][1]
        dtype = np.dtype(d["dtype"])
        if dtype.kind == "f":
            out.append(rng.standard_normal(shape).astype(dtype))
            continue
        info = np.iinfo(dtype)
        if scale == 0:
            out.append(rng.integers(0, 100, shape).astype(dtype))
            continue
        spread = min((float(info.max) - float(info.min)) / 5, 6000)
        middle = (float(info.max) + float(info.min)) / 2 if dtype.itemsize == 1 else 0.0
        out.append(np.clip(np.rint(rng.normal(middle, spread, shape)), info.min, info.max).astype(dtype))
    return out


def shifted(a, quantized):
    """uint8 with a scale is s8 in Lathe."""
    return (a.astype(np.int16) - 128).astype(np.int8) if a.dtype == np.uint8 and quantized else a


def run_lathe(lathe, content, arrays, names, folder):
    """Outputs by position; or the error."""
    path, inputs, output = (os.path.join(folder, n) for n in ("m.tflite", "x.npz", "y.npz"))
    with open(path, "wb") as f:
        f.write(content)
    command = [lathe, "run", path, "--output", output]
    if arrays:
        np.savez(inputs, **dict(zip(names, arrays)))
        command += ["--input", inputs]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip()
    with np.load(output) as z:
        return [z[k] for k in z.files], ""


def values(a, details):
    """Real values of a quantized tensor, else its numbers."""
    scale, zero = details["quantization"]
    if scale == 0 or a.dtype.kind == "f":
        return a.astype(np.float64)
    shift = 128 if details["dtype"] == np.uint8 and a.dtype == np.int8 else 0
    return (a.astype(np.float64) + shift - zero) * scale


def compare(got, want, details):
    """Error (steps of the grid, or relative to the largest), SQNR, share within a step (or 1e-4)."""
    real, scale = values(want, details), details["quantization"][0]
    if got.size != real.size:
        return np.inf, -np.inf, 0.0
    error = np.abs(values(got, details).ravel() - real.ravel())
    noise = float(np.sum(error ** 2))
    sqnr = 10 * np.log10(float(np.sum(real ** 2)) / noise) if noise > 0 else np.inf
    step = scale if scale != 0 else max(float(np.max(np.abs(real))), 1e-30)
    limit = 1.001 if scale != 0 else 1e-4
    return float(np.max(error)) / step, sqnr, float(np.mean(error <= limit * step))


def has_scale(tensor):
    q = tensor.quantization
    return q is not None and q.scale is not None and len(q.scale) > 0


class SingleOps:
    """Each operator of a model as a model of its own."""

    def __init__(self, content):
        self.model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
        self.graph = self.model.subgraphs[0]
        self.known = []  # computed integers that became constants

    def __len__(self):
        return len(self.graph.operators)

    def name(self, i):
        code = self.model.operatorCodes[self.graph.operators[i].opcodeIndex]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        return next(k for k, v in vars(schema.BuiltinOperator).items() if v == number and not k.startswith("_"))

    def is_constant(self, t):
        data = self.model.buffers[self.graph.tensors[t].buffer].data
        return data is not None and len(data) > 0

    def settle(self, arrays):
        """Gives tensors the dims that they had, and those that hold dims or axes their values as constants."""
        for t, array in arrays.items():
            tensor = self.graph.tensors[t]
            tensor.shape, tensor.shapeSignature = list(array.shape), None
            if array.dtype == np.int32 and array.ndim == 1 and 0 < array.size <= 8 and not has_scale(tensor):
                tensor.buffer = len(self.model.buffers)
                self.model.buffers.append(schema.BufferT())
                self.model.buffers[-1].data = np.frombuffer(array.tobytes(), np.uint8)
                self.known.append(t)

    def extract(self, i):
        op = self.graph.operators[i]
        fed = [t for t in dict.fromkeys(op.inputs) if t >= 0 and not self.is_constant(t) and not self.graph.tensors[t].isVariable]
        keep = (self.graph.operators, self.graph.inputs, self.graph.outputs, self.model.signatureDefs, self.model.metadata)
        self.graph.operators, self.graph.inputs, self.graph.outputs = [op], fed, list(op.outputs)
        self.model.signatureDefs, self.model.metadata = None, None
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), IDENTIFIER)
        self.graph.operators, self.graph.inputs, self.graph.outputs, self.model.signatureDefs, self.model.metadata = keep
        return bytes(builder.Output()), fed


def feed_names(it):
    return [d["name"] for d in it.get_input_details()]


def repaired(content):
    """The scales of a vector lie along axis 0, whatever the file says: the reference refuses other axes."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(content, 0))
    for tensor in model.subgraphs[0].tensors:
        if tensor.quantization is not None and tensor.shape is not None and len(tensor.shape) == 1:
            tensor.quantization.quantizedDimension = 0
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def check_steps(args, content, rng, folder):
    reference = interpreter(content, all_tensors=True)
    inputs = random_inputs(reference, rng)
    for d, a in zip(reference.get_input_details(), inputs):
        reference.set_tensor(d["index"], a)
    reference.invoke()
    details = {d["index"]: d for d in reference.get_tensor_details()}
    ops, total, within, most = SingleOps(content), 0, 0, 0.0
    made = {t for op in ops.graph.operators for t in op.outputs}
    ops.settle({t: reference.get_tensor(t) for t in made | set(ops.graph.inputs)})
    for i in range(len(ops)):
        if set(ops.graph.operators[i].outputs) <= set(ops.known):
            continue  # a shape, computed
        op_content, fed = ops.extract(i)
        if not fed and ops.known:
            continue  # a part of a shape
        arrays = [shifted(reference.get_tensor(t), details[t]["quantization"][0] != 0) for t in fed]
        outputs, error = run_lathe(args.lathe, op_content, arrays, [details[t]["name"] for t in fed], folder)
        if outputs is None:
            print(f"    {i:3} {ops.name(i):24} {error.splitlines()[-1] if error else 'failed'}")
            continue
        for got, t in zip(outputs, ops.graph.operators[i].outputs):
            worst, sqnr, share = compare(got, reference.get_tensor(t), details[t])
            total, within = total + got.size, within + share * got.size
            most = max(most, worst)
            if share < 0.999 or args.all:
                print(f"    {i:3} {ops.name(i):24} error {worst:10.4g}  sqnr {sqnr:6.1f} dB  within {100 * share:7.3f} %")
    print(f"    operators: {len(ops)}, elements {total}, largest error {most:.3g}, within a step {100 * within / max(total, 1):.4f} %")


def check_model(args, path, rng, folder):
    with open(path, "rb") as f:
        content = f.read()
    label = "/".join(path.split("/")[-2:])
    try:
        interpreter(repaired(content))
    except (RuntimeError, ValueError):
        done = subprocess.run([args.lathe, "dump", path], capture_output=True, text=True)
        print(f"{label:58} the reference refuses it; lathe: exit status {done.returncode}, {len(done.stderr.splitlines())} lines")
        return
    worst, sqnr, share = 0.0, np.inf, 1.0
    original, content = content, repaired(content)
    for _ in range(args.runs):
        it = interpreter(content)
        inputs = random_inputs(it, rng)
        for d, a in zip(it.get_input_details(), inputs):
            it.set_tensor(d["index"], a)
        it.invoke()
        arrays = [shifted(a, d["quantization"][0] != 0) for d, a in zip(it.get_input_details(), inputs)]
        outputs, error = run_lathe(args.lathe, original, arrays, feed_names(it), folder)
        if outputs is None:
            print(f"{label:58} {error.splitlines()[0][-150:]}")
            return
        for got, d in zip(outputs, it.get_output_details()):
            w, s, p = compare(got, it.get_tensor(d["index"]), d)
            worst, sqnr, share = max(worst, w), min(sqnr, s), min(share, p)
    unit = "steps" if it.get_output_details()[0]["quantization"][0] != 0 else "relative"
    print(f"{label:58} loads, error {worst:9.3g} {unit:8}  sqnr {sqnr:6.1f} dB  within {100 * share:7.3f} %")
    if args.steps:
        check_steps(args, content, rng, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--steps", action="store_true", help="operator by operator, too")
    parser.add_argument("--all", action="store_true", help="print every operator, not only those that differ")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        for path in args.models:
            check_model(args, path, rng, folder)
            sys.stdout.flush()


if __name__ == "__main__":
    main()
