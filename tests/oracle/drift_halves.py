#!/usr/bin/env python3
"""How often `lathe drift` calls two random halves of one set different, and whether it sees more brightness.

    python3 tests/oracle/drift_halves.py --lathe build/tools/lathe

The Fashion-MNIST test set is cut in two at random 100 times; the example network is calibrated on one half and meets the other.
"""

import argparse
import gzip
import random
import struct
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SIDE = 28


def write_idx(path, images):
    path.write_bytes(struct.pack(">IIII", 0x803, len(images), SIDE, SIDE) + b"".join(images))


def describe(folder, splits):
    head = (ROOT / "examples/fashion/fashion.toml").read_text().split("[split.train]")[0]
    path = folder / "set.toml"
    path.write_text(head + "".join(f"[split.{name}]\npaths = '{folder / name}.idx'\n" for name in splits))
    return path


def run(command, expected):
    done = subprocess.run(command, capture_output=True, text=True)
    alarm = "drifted from calibration" in done.stderr
    if done.returncode not in expected or (done.returncode == 1 and not alarm):
        raise SystemExit(done.stderr)
    return alarm


def main():
    p = argparse.ArgumentParser(description="false alarms of lathe drift")
    p.add_argument("--lathe", required=True)
    p.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    p.add_argument("--tries", type=int, default=100)
    args = p.parse_args()
    raw = gzip.open(args.data / "t10k-images-idx3-ubyte.gz").read()[16:]
    images = [raw[i : i + SIDE * SIDE] for i in range(0, len(raw), SIDE * SIDE)]
    brighter = bytes(min(255, round(1.2 * v)) for v in range(256))
    alarms, seen = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data, model = describe(folder, ["calib", "test", "val"]), str(folder / "q.lathe")
        for seed in range(args.tries):
            random.Random(seed).shuffle(images)
            half = len(images) // 2
            write_idx(folder / "calib.idx", images[:half])
            write_idx(folder / "test.idx", images[half:])
            write_idx(folder / "val.idx", [i.translate(brighter) for i in images[half:]])
            run([args.lathe, "quantize", str(ROOT / "examples/fashion/fashion_resnet.onnx"), "--data", data, "-o", model], (0,))
            drift = [args.lathe, "drift", model, "--data", data]
            alarms += run(drift, (0, 1))
            seen += run([*drift, "--split", "val"], (0, 1))
    print(f"{args.tries} tries: {alarms} false alarms on the other half, {seen} alarms where it is a fifth brighter")


if __name__ == "__main__":
    main()
