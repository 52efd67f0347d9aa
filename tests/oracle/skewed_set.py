#!/usr/bin/env python3
"""What a built calibration set is worth where a group is rare: figures for docs/numerics.md, made from Fashion-MNIST.

The pool has dim pictures (a share of their brightness) and a few bright ones, and few bags. The example network is quantized once with the set
that `lathe calibrate --build` picks and with ten random ones of the same size; drops are against float, by group, on the test images.

    skewed_set.py build/tools/lathe examples/fashion/fashion_resnet.onnx /usr/share/datasets/fashion-mnist
"""
import argparse
import gzip
import json
import pathlib
import statistics
import subprocess
import tempfile

import numpy as np

BAG = 8
TOML = """format = "npz"
label_key = "y"
key = "x"
axes = "hw"
classes = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]
[preprocess]
scale = "1/255"
mean = 0.2860
std = 0.3530
layout = "nchw"
[split.{pool}]
paths = "{name}.npz"
groups = "{name}.csv"
[split.test]
paths = "test.npz"
groups = "test.csv"
"""


def read(folder, name):
    images = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((folder / f"{name}-labels-idx1-ubyte.gz").read_bytes())[8:]
    return np.frombuffer(images, np.uint8).reshape(-1, 28, 28), np.frombuffer(labels, np.uint8).astype(np.int32)


def write(folder, name, x, y, light):
    np.savez(folder / f"{name}.npz", x=x, y=y)
    (folder / f"{name}.csv").write_text("light\n" + "\n".join(light) + "\n")


def dimmed(x, bright, share):
    return np.where(bright[:, None, None], x, np.rint(x * share)).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lathe")
    parser.add_argument("model")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--pool", type=int, default=20000)
    parser.add_argument("--bright", type=int, default=10, help="bright pictures in the pool")
    parser.add_argument("--bags", type=int, default=20, help="bags in the pool")
    parser.add_argument("--dim", type=float, default=0.35, help="brightness of the others")
    parser.add_argument("--samples", type=int, default=1200)
    parser.add_argument("--limit", type=int, default=4000, help="test images")
    parser.add_argument("--observer", default="minmax")
    o = parser.parse_args()
    rng = np.random.default_rng(1)

    def lathe(*args):
        done = subprocess.run([o.lathe, *map(str, args)], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return done.stdout

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        x, y = read(o.data, "train")
        bags, rest = np.flatnonzero(y == BAG)[: o.bags], np.flatnonzero(y != BAG)[: o.pool - o.bags]
        chosen = np.sort(np.concatenate([bags, rest]))
        x, y = x[chosen], y[chosen]
        bright = np.zeros(len(y), bool)
        bright[rng.choice(len(y), o.bright, replace=False)] = True
        x, light = dimmed(x, bright, o.dim), np.where(bright, "bright", "dim")
        write(folder, "pool", x, y, light)
        (folder / "pool.toml").write_text(TOML.format(pool="train", name="pool"))
        tx, ty = read(o.data, "t10k")
        tx, ty = tx[: o.limit], ty[: o.limit]
        test_bright = np.arange(len(ty)) % 2 == 0
        write(folder, "test", dimmed(tx, test_bright, o.dim), ty, np.where(test_bright, "bright", "dim"))

        def drops(toml, *more):
            lathe("quantize", o.model, "--data", toml, "--observer", o.observer, "--samples", o.samples, *more, "-o", folder / "q.lathe")
            report = json.loads(lathe("eval", folder / "q.lathe", "--data", toml, "--baseline", o.model, "--json"))
            groups = report["groups"]
            return report["drop"], groups["light=bright"]["drop"], groups["light=dim"]["drop"], groups["light=bright"]["baseline"]

        lathe("calibrate", o.model, "--data", folder / "pool.toml", "--build", "--by", "label", "--by", "light", "--samples", o.samples,
              "-o", folder / "set.toml")
        built = drops(folder / "pool.toml", "--samples-from", folder / "set.toml")
        random = []
        for k in range(10):
            pick = np.sort(rng.choice(len(y), o.samples, replace=False))
            write(folder, f"r{k}", x[pick], y[pick], light[pick])
            (folder / f"r{k}.toml").write_text(TOML.format(pool="calib", name=f"r{k}"))
            random.append(drops(folder / f"r{k}.toml"))
            print(f"random {k}: {int(np.sum(bright[pick]))} bright, drop all {random[-1][0]:.2f}, bright {random[-1][1]:.2f}", flush=True)
        print(f"float accuracy of bright test images: {100 * built[3]:.2f} %")
        for i, what in enumerate(("all", "bright", "dim")):
            print(f"drop of {what}: built {built[i]:.2f}, random median {statistics.median(r[i] for r in random):.2f} points")


if __name__ == "__main__":
    main()
