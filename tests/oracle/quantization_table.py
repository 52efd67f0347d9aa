"""What each way of storing a network costs in accuracy and saves in time: the table of docs/accuracy.md.

    oracle/bin/python tests/oracle/quantization_table.py --lathe build/tools/lathe

Six networks in float, FP16, INT8 by every observer, and mixed under a gate of half a point, all by the `lathe` command: calibrated
on split calib, mixed chosen on val (else calib), judged on test beside the float network. p is the paired test's probability that a
difference is chance: of a drop against float, and of `auto` against the best single observer. Times are medians at batch 1 on one
thread; measure on a quiet machine. Needs numpy, LATHE_DATA and Debian's dataset-fashion-mnist.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from compare_export import DATA

ROOT = pathlib.Path(__file__).resolve().parents[2]
OBSERVERS = ["minmax", "moving-average", "percentile", "entropy", "mse", "auto"]


def magika_set(folder):
    """Calibration takes the reference's files with the reference's labels, the test the 76 files whose kind is known."""
    def split(name, tokens, table):
        x = np.fromfile(DATA / "datasets/magika" / tokens, "<u2").reshape(-1, 2048).astype(np.int32)
        y = np.array([int(line.split("\t")[0]) for line in (DATA / "datasets/magika" / table).read_text().splitlines()], np.int32)
        return name, x, y
    splits = [split("calib", "reference_129x2048.u16", "reference_label_score.tsv"),
              split("test", "basic_76x2048.u16", "basic_labels.tsv")]
    held = {row.tobytes() for row in splits[1][1]}
    text = 'format = "npz"\nclasses = [%s]\n' % ", ".join('"%d"' % i for i in range(214))
    text += '[[input]]\nname = "bytes"\nkey = "x"\npreprocess = {dtype = "s32"}\n'
    for name, x, y in splits:
        if name == "calib":
            keep = [i for i, row in enumerate(x) if row.tobytes() not in held]
            x, y = x[keep], y[keep]
        np.savez(folder / f"magika_{name}.npz", x=x)
        np.save(folder / f"magika_{name}_labels.npy", y)
        text += f'[split.{name}]\npaths = "magika_{name}.npz"\nlabels = "magika_{name}_labels.npy"\n'
    return text


def stories_set(folder):
    """Windows of 128 tokens and the tokens that follow each."""
    tokens = np.fromfile(DATA / "datasets/tinystories/tokens_tok512.u16", "<u2").astype(np.int64)
    n = (len(tokens) - 1) // 128
    x, y = tokens[:n * 128].reshape(n, 128), tokens[1:n * 128 + 1].reshape(n, 128).astype(np.float32)
    text = 'format = "npz"\n[[input]]\nname = "tokens"\nkey = "x"\npreprocess = {dtype = "s64"}\n'
    for name, first, end in [("calib", 0, 72), ("val", 72, 172), ("test", 172, n)]:
        np.savez(folder / f"stories_{name}.npz", x=x[first:end])
        np.save(folder / f"stories_{name}_targets.npy", y[first:end])
        text += f'[split.{name}]\npaths = "stories_{name}.npz"\ntargets = "stories_{name}_targets.npy"\n'
    return text


def models():
    m, t = DATA / "models", ROOT / "tests/datasets"
    return {
        "ResNet-20": (m / "cifar10_resnet/resnet20_cifar10.onnx", t / "cifar10.toml", "accuracy"),
        "ResNet-56": (m / "cifar10_resnet/resnet56_cifar10.onnx", t / "cifar10.toml", "accuracy"),
        "Fashion-MNIST": (ROOT / "examples/fashion/fashion_resnet.onnx", t / "fashion_mnist.toml", "accuracy"),
        "DS-CNN KWS": (m / "mlperf_tiny_onnx/kws_alibaba_fp32.onnx", t / "kws01.toml", "accuracy"),
        "magika": (m / "magika/standard_v3_3.onnx", magika_set, "accuracy"),
        "stories260K": (m / "transformer/stories260K_s128.onnx", stories_set, "perplexity"),
    }


class Lathe:
    def __init__(self, exe, work, data, metric, limit):
        self.exe, self.work, self.data, self.metric, self.limit = exe, work, data, metric, limit

    def run(self, *arguments):
        done = subprocess.run([self.exe, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit("lathe %s: %s" % (" ".join(map(str, arguments)), done.stderr.strip()))
        return done.stdout

    def eval(self, model, baseline=None):
        more = ["--baseline", baseline] if baseline else []
        return json.loads(self.run("eval", model, "--data", self.data, "--metric", self.metric, "--limit", self.limit, "--json",
                                   *more))

    def us(self, model):
        return json.loads(self.run("bench", model, "--seconds", "0.5", "--json"))["p50_us"]


def variants(lathe, source, folder, gate):
    """Name to file."""
    files = {"float": folder / "float.lathe", "FP16": folder / "half.lathe"}
    lathe.run("compile", source, "-o", files["float"])
    lathe.run("compile", source, "--dtype", "f16", "-o", files["FP16"])
    for observer in OBSERVERS:
        files[observer] = folder / f"{observer}.lathe"
        lathe.run("quantize", source, "--data", lathe.data, "--observer", observer, "-o", files[observer])
    files["mixed"] = folder / "mixed.lathe"
    lathe.run("quantize", source, "--data", lathe.data, "--observer", "auto", "--max-drop", gate, "--metric", lathe.metric,
              "--cost-table", lathe.work / "costs.json", "-o", files["mixed"])
    return files


def table_row(lathe, name, source, folder, gate):
    files = variants(lathe, source, folder, gate)
    figures = {"float": lathe.eval(files["float"])}
    for key, path in files.items():
        if key != "float":
            figures[key] = lathe.eval(path, files["float"])
    percent = lathe.metric != "perplexity"
    cells = []
    for key, path in files.items():
        f = figures[key]
        value = f[lathe.metric] * 100 if percent else f[lathe.metric]
        text = "%.2f" % value if percent else "%.3f" % value
        if key != "float":
            text += " (%+.2f%s)" % (-f["drop"], "*" if f["p"] < 0.05 else "")
        cells.append(text + "<br>%.4g µs" % lathe.us(path))
    best = min(OBSERVERS[:-1], key=lambda o: figures[o]["drop"])
    p = lathe.eval(files["auto"], files[best])["p"]
    return [f"{name}, {figures['float']['samples']} samples"] + cells + [f"{best}, p = {p:.2f}"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lathe", default="build/tools/lathe")
    parser.add_argument("--only", nargs="*", help="names of networks")
    parser.add_argument("--limit", type=int, default=0, help="samples of the test split; 0: all")
    parser.add_argument("--gate", default="0.5", help="--max-drop of the mixed column")
    o = parser.parse_args()
    head = ["network", "float", "FP16"] + ["INT8 " + n for n in OBSERVERS] + ["mixed", "best single observer, auto against it"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
    for name, (source, data, metric) in models().items():
        if o.only and name not in o.only:
            continue
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            if callable(data):
                text = data(folder)
                data = folder / "set.toml"
                data.write_text(text)
            lathe = Lathe(o.lathe, folder, data, metric, o.limit)
            print("| " + " | ".join(table_row(lathe, name, source, folder, o.gate)) + " |", flush=True)


if __name__ == "__main__":
    main()
