#!/usr/bin/env python3
"""What removing attention heads costs: the tables of docs/compression.md.

    oracle/bin/python tests/oracle/make_transformer.py -o transformer.onnx
    lathe train transformer.onnx --data tests/datasets/fashion_mnist.toml --optimizer adamw --rate 0.002 --warmup 0.5 --epochs 6 \
        --keep-rate -o transformer.lathe
    oracle/bin/python tests/oracle/heads_table.py --lathe build/tools/lathe --transformer transformer.lathe --work work

Two networks: the one above (accuracy on Fashion-MNIST's test images) and stories260K_s128 of LATHE_DATA (perplexity on windows of
tinystories). Heads go stepwise by coverage, by magnitude (l2) and at random (three seeds); figures are of split test, choices of
val. Then 30 % in one cut against stepwise, as cut and after the same short training that the unpruned control gets. Needs numpy.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np

from compare_export import DATA

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
SEEDS = [1, 2, 3]


def stories_set(folder):
    """Windows of 128 tokens and the tokens that follow each; of every four one to train on, one to choose by, two to test."""
    tokens = np.fromfile(DATA / "datasets/tinystories/tokens_tok512.u16", "<u2").astype(np.int64)
    n = (len(tokens) - 1) // 128
    x, y, place = tokens[:n * 128].reshape(n, 128), tokens[1:n * 128 + 1].reshape(n, 128).astype(np.float32), np.arange(n) % 4
    text = 'format = "npz"\n[[input]]\nname = "tokens"\nkey = "x"\npreprocess = {dtype = "s64"}\n'
    for name, which in [("train", place == 1), ("val", place == 0), ("test", place >= 2)]:
        np.savez(folder / f"stories_{name}.npz", x=x[which])
        np.save(folder / f"stories_{name}_targets.npy", y[which])
        text += f'[split.{name}]\npaths = "stories_{name}.npz"\ntargets = "stories_{name}_targets.npy"\n'
    (folder / "stories.toml").write_text(text)
    return folder / "stories.toml"


class Network:
    def __init__(self, lathe, name, model, data, metric, training, work, candidates):
        self.lathe, self.name, self.model, self.data, self.metric, self.work = lathe, name, model, data, metric, work
        self.training, self.candidates = training, candidates

    def run(self, *arguments):
        done = subprocess.run([self.lathe, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit("lathe %s: %s" % (" ".join(map(str, arguments)), done.stderr.strip()))
        return done.stdout

    def judge(self, model):
        report = json.loads(self.run("eval", model, "--data", self.data, "--metric", self.metric, "--baseline", self.model, "--json"))
        scale = 1 if self.metric == "perplexity" else 100
        return scale * report[self.metric], report["drop"]

    def file(self, *parts):
        return self.work / ("_".join([self.name, *map(str, parts)]) + ".lathe")

    def prune(self, model, ratio, output, *flags):
        """Cuts that share of the heads of `model`, whatever it costs."""
        return json.loads(self.run("prune", model, "--ratio", "%.6f" % ratio, "--data", self.data, "--metric", self.metric,
                                   "--samples", 2000, "--seconds", "0.1", "-o", output, "--json", *flags))

    def stepwise(self, model, ratio, output, candidates, *flags):
        return self.prune(model, ratio, output, "--criterion", "coverage", "--schedule", "stepwise", "--candidates", candidates,
                          "--max-drop", "1e9", *flags)

    def baseline(self, criterion, ratio, output, seed=1):
        return self.prune(self.model, ratio, output, "--criterion", criterion, "--schedule", "stepwise", "--steps", 1, "--max-drop",
                          "1e9", "--seed", seed)

    def by_coverage(self):
        """Files by share; each goes on from the one before."""
        model, files, total, gone = self.model, {}, None, 0
        left = {}
        for share in SHARES:
            output = self.file("coverage", share)
            free = total - gone - sum(1 for n in left.values() if n == 1) if total else None
            ratio = share if total is None else (round(share * total) - gone) / free
            made = self.stepwise(model, ratio, output, self.candidates)
            total = total or made["heads"]
            gone += made["gone"]
            for row in made["rows"]:
                left.setdefault(row["block"], 0)
            for block in {row["block"] for row in made["rows"]}:
                left[block] = sum(1 for row in made["rows"] if row["block"] == block and row["step"] == 0)
            files[share] = model = output
        return files, total

    def figures(self, values):
        return "%.2f" % values[0] if len(values) == 1 else "%.2f (%.2f to %.2f)" % (np.mean(values), min(values), max(values))

    def curve(self):
        files, total = self.by_coverage()
        base = self.judge(self.model)[0]
        rows = {"coverage": [], "l2": [], "random": []}
        for share in SHARES:
            rows["coverage"].append(self.figures([self.judge(files[share])[0]]))
            for criterion, seeds in (("l2", [1]), ("random", SEEDS)):
                values = []
                for seed in seeds:
                    output = self.file(criterion, share, seed)
                    self.baseline(criterion, share, output, seed)
                    values.append(self.judge(output)[0])
                rows[criterion].append(self.figures(values))
        print(f"\n{self.name}, {self.metric}, {base:.2f} with all {total} heads\n")
        print("| heads removed | " + " | ".join("%d (%.0f %%)" % (round(s * total), 100 * s) for s in SHARES) + " |")
        print("|---" * (len(SHARES) + 1) + "|")
        for name, cells in rows.items():
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        return files[0.3]

    def train(self, model):
        output = model.with_name(model.stem + "_trained.lathe")
        self.run("train", model, "--data", self.data, *self.training, "-o", output)
        return self.judge(output)

    def at_thirty(self, stepwise):
        once = self.file("once")
        self.prune(self.model, 0.3, once, "--criterion", "coverage", "--schedule", "once")
        swapped = self.file("swapped")
        self.stepwise(self.model, 0.3, swapped, 40, "--swaps", 2)
        plain = self.file("plain")
        self.prune(self.model, 0.3, plain, "--criterion", "coverage", "--schedule", "once", "--no-fold")
        control = self.file("control")
        if str(self.model).endswith(".lathe"):
            control.write_bytes(pathlib.Path(self.model).read_bytes())
        else:
            self.run("import", self.model, "-o", control)
        training = " ".join(pathlib.Path(str(a)).name for a in self.training)
        print(f"\n{self.name}, 30 % of the heads: {self.metric} (drop), and after training {training}\n")
        print("| | as cut | trained |\n|---|---|---|")
        for name, file in [("none (control)", control), ("coverage, stepwise", stepwise),
                           ("coverage, stepwise, `--candidates 40 --swaps 2`", swapped), ("coverage, one cut", once),
                           ("coverage, one cut, no fold", plain), ("l2", self.file("l2", 0.3, 1)),
                           ("random, seed 1", self.file("random", 0.3, 1))]:
            print("| %s | %.2f (%+.2f) | %.2f (%+.2f) |" % (name, *self.judge(file), *self.train(file)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe", default="build/tools/lathe")
    parser.add_argument("--transformer", required=True, help="trained, as above")
    parser.add_argument("--work", required=True, help="folder for networks and sets")
    parser.add_argument("--only", choices=["transformer", "stories260K"])
    parser.add_argument("--candidates", type=int, default=8, help="heads of which the metric chooses in each step")
    o = parser.parse_args()
    work = pathlib.Path(o.work)
    work.mkdir(exist_ok=True)
    stories = DATA / "models/transformer/stories260K_s128.onnx"
    adamw = ["--optimizer", "adamw", "--keep-rate"]
    networks = [
        ("transformer", o.transformer, ROOT / "tests/datasets/fashion_mnist.toml", "accuracy",
         [*adamw, "--base-lr", "0.002", "--epochs", "1"]),
        ("stories260K", stories, stories_set(work), "perplexity",
         [*adamw, "--rate", "1e-4", "--epochs", "4", "--batch", "8", "--loss", "tokens", "--teacher", stories]),
    ]
    for name, model, data, metric, training in networks:
        if o.only in (None, name):
            network = Network(o.lathe, name, model, data, metric, training, work, o.candidates)
            network.at_thirty(network.curve())


if __name__ == "__main__":
    main()
