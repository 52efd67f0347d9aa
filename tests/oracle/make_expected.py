#!/usr/bin/env python3
"""Write what ONNX Runtime computes for the real models: expected/<model>.npz.

The importer and executor are tested against these numbers, so that the test
itself needs neither Python nor ONNX Runtime. Run this only when a model is
added; README.md has the command, the runtime version and the file layout.

Inputs are not stored: a test builds them again, from real data where a set for
the model exists, else from this generator, which is exact in any language:

    element i (row-major, from 0) of input s (from 0), on lo .. hi:
        z = s * 2^32 + i + 0x9E3779B97F4A7C15                 all modulo 2^64
        z = (z xor (z >> 30)) * 0xBF58476D1CE4E5B9
        z = (z xor (z >> 27)) * 0x94D049BB133111EB
        z = z xor (z >> 31)                                   (splitmix64)
        x = float32( float64(z >> 40) * 2^-24 * (hi - lo) + lo )

With lo = -1 and hi = 1 every step but the last is exact in float64, so fused
multiply-add changes nothing; the last is exact too, as x has 24 bits.
"""

import argparse
import gzip
import os
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

INPUTS = 20
SPARSE_STRIDE = 37  # of the flattened output, where the whole would be large


# --- inputs: each returns float32 [INPUTS, ...] without the batch dimension -----


def cifar10(data, _fashion):
    """First test images, NCHW, (v / 255 - mean) / std per channel."""
    raw = np.fromfile(data / "datasets/cifar10/test_2000.bin", np.uint8).reshape(-1, 3073)
    v = raw[:INPUTS, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / np.float32(255)
    mean = np.array([0.485, 0.456, 0.406], np.float32).reshape(3, 1, 1)
    std = np.array([0.229, 0.224, 0.225], np.float32).reshape(3, 1, 1)
    return (v - mean) / std


def kws01(data, _fashion):
    """First feature maps, 49 x 10 x 1, (q - 83) * 0.5847029."""
    q = np.fromfile(data / "datasets/kws01/features_1000x49x10.i8", np.int8)
    q = q.reshape(-1, 49, 10, 1)[:INPUTS].astype(np.float32)
    return (q - np.float32(83)) * np.float32(0.5847029)


def ad01(data, _fashion):
    """Input s is frames 10 s .. 10 s + 4 of the 200 x 128 spectrogram, flattened."""
    frames = np.fromfile(data / "datasets/ad01/normal_id_01_00000000_hist_librosa.bin", "<f4")
    frames = frames.reshape(200, 128)
    return np.stack([frames[10 * s:10 * s + 5].reshape(640) for s in range(INPUTS)])


def idx_images(path):
    """First images of a gzipped idx3 file as float32 [INPUTS, 1, 28, 28], 0..255."""
    raw = gzip.decompress(path.read_bytes())
    if raw[:4] != b"\0\0\x08\x03":
        raise ValueError(f"{path}: not an idx file of images")
    pixels = np.frombuffer(raw, np.uint8, INPUTS * 28 * 28, 16)
    return pixels.reshape(INPUTS, 1, 28, 28).astype(np.float32)


def mnist(data, _fashion):
    """First test images, raw 0..255."""
    return idx_images(data / "datasets/mnist/t10k-images-idx3-ubyte.gz")


def fashion_mnist(_data, fashion):
    """First test images, (v / 255 - 0.2860) / 0.3530."""
    v = idx_images(fashion / "t10k-images-idx3-ubyte.gz") / np.float32(255)
    return (v - np.float32(0.2860)) / np.float32(0.3530)


def splitmix64(z):
    """One output for each state in a uint64 array."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random(*shape, lo=-1.0, hi=1.0):
    def make(_data, _fashion):
        elements = np.arange(int(np.prod(shape)), dtype=np.uint64)
        streams = np.arange(INPUTS, dtype=np.uint64)[:, None] << np.uint64(32)
        bits = (splitmix64(streams + elements) >> np.uint64(40)).astype(np.float64)
        return (bits * 2.0**-24 * (hi - lo) + lo).astype(np.float32).reshape(INPUTS, *shape)
    return make


# --- the models: path, inputs, stride of what is stored -------------------------

DATA_MODELS = [
    ("cifar10_resnet/resnet20_cifar10.onnx", cifar10, 1),
    ("cifar10_resnet/resnet56_cifar10.onnx", cifar10, 1),
    ("mlperf_tiny_onnx/ic_alibaba_fp32.onnx", cifar10, 1),
    ("mlperf_tiny_onnx/kws_alibaba_fp32.onnx", kws01, 1),
    ("mlperf_tiny_onnx/ad_alibaba_fp32.onnx", ad01, 1),
    ("vision/mobilenetv2_035_128_flowers.onnx", random(3, 128, 128), 1),
    ("vision/mobilenetv2_050_128_person.onnx", random(3, 128, 128), 1),
    ("vision/mnist-8_cntk.onnx", mnist, 1),
    ("face/ultraface_RFB-320.onnx", random(3, 240, 320), SPARSE_STRIDE),
]
OWN_MODELS = [
    ("examples/fashion/fashion_resnet.onnx", fashion_mnist, 1),
    ("tests/oracle/models/tiny_encoder.onnx", random(6, 16), 1),
]


def run(path, inputs):
    """Every output for every input, one run per input: {name: [INPUTS, ...]}."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = session.get_inputs()[0].name
    names = [o.name for o in session.get_outputs()]
    results = [session.run(names, {feed: x[None]}) for x in inputs]
    return {name: np.concatenate([r[k] for r in results]) for k, name in enumerate(names)}


def expectations(path, inputs, stride):
    """The arrays of one .npz; README.md describes them."""
    arrays = {"stride": np.int64(stride), "input_sum": inputs.reshape(INPUTS, -1).sum(1, np.float64)}
    for name, values in run(path, inputs).items():
        if not np.isfinite(values).all() or values.shape[0] != INPUTS:
            raise ValueError(f"{path}: output {name} is not finite or has the wrong batch")
        flat = values.reshape(INPUTS, -1)
        arrays[f"max_abs_{name}"] = np.abs(flat).max(1)
        arrays[f"output_{name}"] = values if stride == 1 else flat[:, ::stride].copy()
    return arrays


def main():
    root = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description="write expected/<model>.npz with ONNX Runtime")
    p.add_argument("--data", type=Path, default=Path(os.environ.get("LATHE_DATA", root / "../shared/data")),
                   help="the data folder (default: LATHE_DATA, else ../shared/data)")
    p.add_argument("--fashion", type=Path, default=Path("/usr/share/datasets/fashion-mnist"),
                   help="folder of the Fashion-MNIST idx .gz files")
    p.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "expected")
    p.add_argument("--only", default="", help="only models whose path contains this")
    args = p.parse_args()

    args.output.mkdir(exist_ok=True)
    models = [(args.data / "models" / m, *rest) for m, *rest in DATA_MODELS]
    models += [(root / m, *rest) for m, *rest in OWN_MODELS]
    for path, make_inputs, stride in models:
        if args.only not in str(path):
            continue
        inputs = make_inputs(args.data, args.fashion)
        arrays = expectations(path, inputs, stride)
        target = args.output / f"{path.stem}.npz"
        np.savez_compressed(target, **arrays)
        shapes = ", ".join(f"{k}{list(v.shape)}" for k, v in arrays.items() if k.startswith("output_"))
        print(f"{path.stem}: {shapes}, {target.stat().st_size} bytes", flush=True)
    print(f"onnxruntime {ort.__version__}, numpy {np.__version__}", file=sys.stderr)


if __name__ == "__main__":
    main()
