"""Compares networks that `lathe quantize` made with what ONNX Runtime computes from the QDQ file that `lathe export` writes.

    oracle/bin/python tests/oracle/compare_export.py --lathe build/tools/lathe [--inputs 1000] [--only NAME]

For each network: quantize with the project's own calibration, export, run both on the same inputs, and count outputs in steps of
the last quantized tensor. A Softmax at the end is cut off first: what it makes of a step is no step. Needs onnx, onnxruntime,
numpy and the data under LATHE_DATA (default ../shared/data). Prints one row of a table per network; docs/quantized-onnx.md keeps them.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("LATHE_DATA", ROOT.parent / "shared/data"))


def cifar10(count):
    raw = np.fromfile(DATA / "datasets/cifar10/test_2000.bin", np.uint8).reshape(-1, 3073)[:count, 1:]
    mean = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
    std = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
    return ((raw.reshape(-1, 3, 32, 32).astype(np.float32) / 255 - mean) / std).astype(np.float32)


def kws01(count):
    raw = np.fromfile(DATA / "datasets/kws01/features_1000x49x10.i8", np.int8).reshape(-1, 49, 10, 1)[:count]
    return ((raw.astype(np.float32) - 83) * np.float32(0.5847029)).astype(np.float32)


def read_bmp(path):
    """A 24-bit bitmap without compression, rows bottom up, as RGB."""
    raw = path.read_bytes()
    start, width, height = (int.from_bytes(raw[at:at + 4], "little", signed=at > 10) for at in (10, 18, 22))
    assert int.from_bytes(raw[28:30], "little") == 24, path
    stride = (width * 3 + 3) // 4 * 4
    rows = np.frombuffer(raw, np.uint8, stride * abs(height), start).reshape(abs(height), stride)[:, :width * 3]
    image = rows.reshape(abs(height), width, 3)[:, :, ::-1]
    return image[::-1] if height > 0 else image


def crops(count, seed=1):
    """Crops of photographs at random places, zooms and mirrored or not, on -1 .. 1, NCHW."""
    rng = np.random.default_rng(seed)
    photos = [read_bmp(DATA / "datasets/photos" / name) for name in ("cat.bmp", "grace_hopper.bmp")]
    out = np.empty((count, 3, 128, 128), np.float32)
    for i in range(count):
        photo = photos[i % len(photos)]
        side = int(rng.integers(128, min(photo.shape[:2]) + 1))
        top, left = (int(rng.integers(0, n - side + 1)) for n in photo.shape[:2])
        pick = (np.arange(128) * side // 128)
        crop = photo[top + pick][:, left + pick]
        crop = crop[:, ::-1] if rng.integers(2) else crop
        out[i] = crop.transpose(2, 0, 1) / np.float32(127.5) - 1
    return out


# name: model, inputs, data set for calibration (crops: the set is made here)
NETWORKS = {
    "ResNet-20": ("models/cifar10_resnet/resnet20_cifar10.onnx", cifar10, "cifar10"),
    "DS-CNN": ("models/mlperf_tiny_onnx/kws_alibaba_fp32.onnx", kws01, "kws01"),
    "MobileNetV2 0.35": ("models/vision/mobilenetv2_035_128_flowers.onnx", crops, None),
    "MobileNetV2 0.5": ("models/vision/mobilenetv2_050_128_person.onnx", crops, None),
}


def without_softmax(path, to):
    model = onnx.load(path)
    last = model.graph.node[-1]
    if last.op_type != "Softmax":
        return path
    outputs = [last.input[0]]
    onnx.utils.extract_model(str(path), str(to), [i.name for i in model.graph.input], outputs, check_model=False)
    return to


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def lathe_outputs(lathe, model, inputs, folder, batched):
    """All outputs; one call, or one per input where the network's batch is fixed."""
    parts = [inputs] if batched else [inputs[i:i + 1] for i in range(len(inputs))]
    out = []
    for part in parts:
        np.save(folder / "x.npy", part)
        call(lathe, "run", model, "--input", folder / "x.npy", "--output", folder / "y.npz")
        with np.load(folder / "y.npz") as y:
            out.append(y[y.files[0]])
    return np.concatenate(out)


def last_scale(model):
    """The scale of the tensor that the output is dequantized from."""
    graph = onnx.load(model).graph
    made = {o: n for n in graph.node for o in n.output}
    node = made[graph.output[0].name]
    while node.op_type != "DequantizeLinear":
        node = made[node.input[0]]
    scales = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    return float(scales[node.input[1]])


def compare(name, lathe, count, folder):
    path, make_inputs, data = NETWORKS[name]
    inputs = make_inputs(count)
    model = without_softmax(DATA / path, folder / "cut.onnx")
    if data is None:
        np.save(folder / "calib.npy", make_inputs(256, seed=2))
        toml = folder / "set.toml"
        toml.write_text('format = "npz"\n[split.calib]\npaths = "calib.npy"\n')
    else:
        toml = ROOT / f"tests/datasets/{data}.toml"
    call(lathe, "quantize", model, "--data", toml, "-o", folder / "int8.lathe")
    call(lathe, "export", folder / "int8.lathe", "-o", folder / "qdq.onnx")
    session = ort.InferenceSession(str(folder / "qdq.onnx"), providers=["CPUExecutionProvider"])
    port = session.get_inputs()[0]
    batched = not isinstance(port.shape[0], int)
    theirs = np.concatenate([session.run(None, {port.name: inputs[i:i + 1]})[0] for i in range(count)])
    ours = lathe_outputs(lathe, folder / "int8.lathe", inputs, folder, batched).reshape(theirs.shape)
    steps = np.abs(ours - theirs) / last_scale(folder / "qdq.onnx")
    ours, theirs, steps = (a.reshape(count, -1) for a in (ours, theirs, steps))
    return {
        "equal": np.mean(steps < 0.5), "within": np.mean(steps < 1.5), "most": steps.max(),
        "top1": np.mean(ours.argmax(1) == theirs.argmax(1)), "outputs": steps.size,
    }


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--lathe", required=True)
    args.add_argument("--inputs", type=int, default=1000)
    args.add_argument("--only", choices=NETWORKS)
    options = args.parse_args()
    ort.set_default_logger_severity(3)
    print(f"ONNX Runtime {ort.__version__}")
    print("| network | inputs | outputs | equal | within 1 step | most steps | same best class |\n|---|---|---|---|---|---|---|")
    bad = False
    for name in NETWORKS if options.only is None else [options.only]:
        with tempfile.TemporaryDirectory() as folder:
            r = compare(name, options.lathe, options.inputs, pathlib.Path(folder))
        print(f"| {name} | {options.inputs} | {r['outputs']} | {r['equal']:.3%} | {r['within']:.3%} | {r['most']:.0f} | {r['top1']:.2%} |", flush=True)
        bad = bad or r["within"] < 0.999 or r["top1"] < 0.995
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
