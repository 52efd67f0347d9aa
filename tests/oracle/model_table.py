"""One table over real models: does each load, and does it compute what an independent runtime computes?

    oracle/bin/python tests/oracle/model_table.py --lathe build/tools/lathe [FOLDER] [--match '*/vision/*']

FOLDER (default: models of LATHE_DATA, without awkward/) is searched for .onnx and .tflite files. Each runs on the inputs that the
table names, in Lathe and in ONNX Runtime or, for .tflite, LiteRT's reference kernels. Per file:

    float     largest |a - b| over largest |b|, at most 1e-4, or 1e-3 with half-precision weights
    integer   share of output elements within one step of the output's grid, the most steps, and how often the best class is the same
    hybrid    float layers with INT8 weights, which quantize activations on the fly: signal to noise in dB

The table judges floats. How far integers may drift from kernel to kernel until the end of a network is not a bound but a figure;
operator by operator it is (tflite_table.py --steps). Exit status 1 if a file does not load or a float model is off.
Needs onnx, onnxruntime, ai-edge-litert, pillow and numpy.
"""
import argparse
import fnmatch
import pathlib
import subprocess
import sys
import tempfile

import flatbuffers
import numpy as np
import onnx
import onnxruntime as ort
from PIL import Image

import compare_export
import tflite_table

DATA = compare_export.DATA
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def magika(_):
    raw = np.fromfile(DATA / "datasets/magika/basic_76x2048.u16", "<u2").reshape(-1, 2048)
    return {"bytes": raw[:8].astype(np.int32)}


def tokens(_):
    raw = np.fromfile(DATA / "datasets/tinystories/tokens_tok512.u16", "<u2")
    return {"tokens": raw[:4 * 128].reshape(4, 128).astype(np.int64)}


def silero(rng):
    speech = np.frombuffer((DATA / "datasets/audio_clips/yes_1000ms.wav").read_bytes()[44:], "<i2")[4000:4512] / np.float32(32768)
    return {"input": speech[None].astype(np.float32), "sr": np.array(16000, np.int64), "state": np.zeros((2, 1, 128), np.float32)}


def photo_crops(count, size):
    crops = compare_export.crops(count)
    at = np.arange(size) * crops.shape[2] // size
    return crops[:, :, at][:, :, :, at]


def cifar_raw(count):
    raw = np.fromfile(DATA / "datasets/cifar10/test_2000.bin", np.uint8).reshape(-1, 3073)[:count, 1:]
    return raw.reshape(-1, 3, 32, 32).astype(np.float32)


def imagenet():
    """The middle of every photograph."""
    mean, std = (np.array(v, np.float32)[:, None, None] for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    out = []
    for path in sorted(p for p in (DATA / "datasets/photos").iterdir() if p.suffix in (".bmp", ".jpg")):
        photo = Image.open(path).convert("RGB")
        (w, h), side = photo.size, min(photo.size)
        photo = photo.crop(((w - side) // 2, (h - side) // 2, (w + side) // 2, (h + side) // 2)).resize((224, 224), Image.BILINEAR)
        out.append((np.asarray(photo, np.float32).transpose(2, 0, 1) / 255 - mean) / std)
    return np.stack(out).astype(np.float32)


# Inputs by a part of the file's path, and what they are; for all others standard normal numbers.
INPUTS = {
    "magika": (magika, "files of basic_76x2048"),
    "stories260K": (tokens, "tinystories"),
    "silero": (silero, "speech"),
    "yunet": (lambda _: {"input": photo_crops(2, 160) * 127.5 + np.float32(127.5)}, "photos, 160 x 160"),
    "resnet20": (lambda _: {"input": compare_export.cifar10(64)}, "cifar10"),
    "resnet56": (lambda _: {"input": compare_export.cifar10(64)}, "cifar10"),
    "ic_resnet8_qdq": (lambda _: {"input": cifar_raw(256)}, "cifar10"),
    "kws_dscnn_qdq": (lambda _: {"input": compare_export.kws01(256).transpose(0, 3, 1, 2)}, "kws01"),
    "vww_mobilenetv1_qdq": (lambda _: {"input": (photo_crops(32, 96) + 1) / 2}, "photos"),
    "mobilenetv2-12-int8": (lambda _: {"input": imagenet()}, "photos, the middle"),
    "mobilenetv2_035": (lambda _: {"input_1": compare_export.crops(16)}, "photos"),
    "mobilenetv2_050": (lambda _: {"input_1:0": compare_export.crops(16)}, "photos"),
}


def run_lathe(lathe, model, inputs, folder):
    """Outputs by position, or the error."""
    np.savez(folder / "x.npz", **inputs)
    command = [lathe, "run", model, "--input", folder / "x.npz", "--output", folder / "y.npz"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    with np.load(folder / "y.npz") as y:
        return [y[k] for k in y.files], ""


def largest_difference(got, want):
    """Absolute, and relative to the largest element."""
    worst = (0.0, 0.0)
    for a, b in zip(got, want):
        d = float(np.max(np.abs(a.astype(np.float64).reshape(b.shape) - b), initial=0))
        worst = max(worst, (d, d / max(float(np.max(np.abs(b), initial=0)), 1e-30)), key=lambda w: w[1])
    return worst


def judged(absolute, relative, limit):
    return {"result": f"absolute {absolute:.2g}, relative {relative:.2g}", "ok": relative <= limit, "verdict": f"limit {limit:g}"}


def steps(got, want, scale):
    """How integers differ, in steps of the output's grid."""
    d = np.abs(got.reshape(want.shape) - want) / scale
    rows = (want.shape[0], -1)
    same = np.mean(got.reshape(rows).argmax(1) == want.reshape(rows).argmax(1))
    return {"result": f"{np.mean(d < 1.5):.2%} within 1 step, most {d.max():.0f}, best class {same:.2%}", "ok": True, "verdict": "figure"}


def onnx_inputs(path, session, rng):
    for part, (make, what) in INPUTS.items():
        if part in path.name or part in path.parent.name:
            return make(rng), what
    feed = {}
    for port in session.get_inputs():
        shape = [d if isinstance(d, int) else 2 for d in port.shape]
        feed[port.name] = rng.standard_normal(shape).astype(TYPES[port.type])
    return feed, "normal"


def check_onnx(lathe, path, rng, folder):
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    feed, what = onnx_inputs(path, session, rng)
    want = session.run(None, feed)
    got, error = run_lathe(lathe, path, feed, folder)
    row = {"importer": "onnx", "inputs": what, "loads": got is not None, "ok": False, "result": error, "verdict": ""}
    if got is None:
        return row
    operators = {n.op_type for n in onnx.load(path).graph.node}
    if operators & {"DequantizeLinear", "QLinearConv"}:
        return row | steps(got[0].astype(np.float64), want[0].astype(np.float64), compare_export.last_scale(path))
    return row | judged(*largest_difference(got, want), 1e-4)


def tensor_types(path):
    model = tflite_table.schema.ModelT.InitFromObj(tflite_table.schema.Model.GetRootAs(path.read_bytes(), 0))
    return {(t.type, t.quantization is not None and t.quantization.scale is not None) for t in model.subgraphs[0].tensors}


def mended(content):
    """LiteRT refuses biases whose parameters lie along an axis that vectors do not have, which converters once wrote."""
    model = tflite_table.schema.ModelT.InitFromObj(tflite_table.schema.Model.GetRootAs(content, 0))
    for t in model.subgraphs[0].tensors:
        if t.quantization is not None and t.shape is not None and t.quantization.quantizedDimension >= len(t.shape):
            t.quantization.quantizedDimension = 0
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), tflite_table.IDENTIFIER)
    return bytes(builder.Output())


def check_tflite(lathe, path, rng, folder):
    content = path.read_bytes()
    reference = tflite_table.interpreter(mended(content))
    inputs = tflite_table.random_inputs(reference, rng)
    for d, a in zip(reference.get_input_details(), inputs):
        reference.set_tensor(d["index"], a)
    reference.invoke()
    arrays = [tflite_table.shifted(a, d["quantization"][0] != 0) for d, a in zip(reference.get_input_details(), inputs)]
    got, error = tflite_table.run_lathe(lathe, content, arrays, tflite_table.feed_names(reference), folder)
    row = {"importer": "tflite", "inputs": "normal", "loads": got is not None, "ok": False, "result": error, "verdict": ""}
    if got is None:
        return row
    details = reference.get_output_details()
    if details[0]["quantization"][0] != 0:
        values = [tflite_table.values(g, d).reshape(d["shape"]) for g, d in zip(got, details)]
        wanted = [tflite_table.values(reference.get_tensor(d["index"]), d) for d in details]
        return row | steps(values[0], wanted[0], details[0]["quantization"][0])
    wanted = [reference.get_tensor(d["index"]) for d in details]
    types, kinds = tensor_types(path), tflite_table.schema.TensorType
    if any(t == kinds.INT8 and quantized for t, quantized in types):
        noise = min(tflite_table.compare(g, w, d)[1] for g, w, d in zip(got, wanted, details))
        return row | {"result": f"{noise:.1f} dB", "ok": True, "verdict": "figure"}
    return row | judged(*largest_difference(got, wanted), 1e-3 if any(t == kinds.FLOAT16 for t, _ in types) else 1e-4)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--lathe", required=True)
    args.add_argument("--match", default="*")
    args.add_argument("folder", nargs="?", type=pathlib.Path, default=DATA / "models")
    options = args.parse_args()
    ort.set_default_logger_severity(3)
    print("| file | importer | loads | inputs | difference | judged |\n|---|---|---|---|---|---|")
    bad = count = 0
    for path in sorted(options.folder.rglob("*")):
        if path.suffix not in (".onnx", ".tflite") or "awkward" in path.parts or not fnmatch.fnmatch(str(path), options.match):
            continue
        check = check_onnx if path.suffix == ".onnx" else check_tflite
        with tempfile.TemporaryDirectory() as folder:
            row = check(options.lathe, path, np.random.default_rng(1), pathlib.Path(folder))
        verdict = row["verdict"] if row["ok"] else f"**{row['verdict'] or 'no'}: failed**"
        print(f"| {path.relative_to(options.folder)} | {row['importer']} | {'yes' if row['loads'] else 'no'} | {row['inputs']} | "
              f"{row['result']} | {verdict} |", flush=True)
        count, bad = count + 1, bad + (not row["ok"])
    print(f"\n{count} files, {bad} failed")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
