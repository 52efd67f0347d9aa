#!/usr/bin/env python3
"""What pruning channels costs and brings, by criterion, share and way back: prune_table.py --lathe LATHE --network FILE --work FOLDER

    oracle/bin/python tests/oracle/make_resnet20.py --widths 32,64,128 --blocks 1 -o wide.onnx
    python3 tests/oracle/prune_table.py --lathe build/tools/lathe --network wide.onnx --work work

The network is trained with L1 on the scales of its batch normalizations, so that they tell which channels count; then it is pruned at
once, and trained on: with labels alone, and with the unpruned network as teacher, the same steps each. The control is the unpruned
network with the same further steps. Accuracy is of split test; no choice is made by it. Latencies are medians of rounds in which the
networks take turns, batch 1. What a run made stays in FOLDER and is used again, so an interrupted run goes on.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CUTS = [("gamma", 25), ("gamma", 40), ("gamma", 50), ("random", 25), ("random", 40), ("random", 50), ("l1", 25), ("taylor", 25)]
SEEDS = [1, 2, 3]


class Bench:
    def __init__(self, options):
        self.o, self.work = options, pathlib.Path(options.work)

    def lathe(self, *arguments):
        done = subprocess.run([self.o.lathe, *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit("lathe %s: %s" % (" ".join(map(str, arguments)), done.stderr.strip()))
        return done.stdout

    def made(self, name, *arguments):
        """The model that this command writes; not made again if it is there."""
        output = self.work / (name + ".lathe")
        if not output.exists():
            self.lathe(*arguments, "-o", output)
            print("made", output.name, file=sys.stderr, flush=True)
        return output

    def accuracy(self, model):
        stored = model.with_suffix(".accuracy")
        if not stored.exists():
            report = json.loads(self.lathe("eval", model, "--data", self.o.data, "--threads", self.o.threads, "--json"))
            stored.write_text(str(100 * report["accuracy"]))
        return float(stored.read_text())

    def base(self):
        return self.made("base", "train", self.o.network, "--data", self.o.data, "--from-scratch", "--epochs", self.o.epochs, "--warmup", 1,
                         "--augment", "crop=2,flip", "--nesterov", "--sparsity", self.o.sparsity, "--threads", self.o.threads)

    def cut(self, criterion, percent, by="time"):
        return self.made(f"{criterion}_{percent}_{by}", "prune", self.base(), "--ratio", percent / 100, "--criterion", criterion, "--by", by,
                         "--data", self.o.data, "--cost-table", self.work / "costs.json")

    def tuned(self, model, seed=1, teacher=False):
        flags = ["--teacher", self.base(), "--teacher-cache", self.work / "cache"] if teacher else []
        return self.made(f"{model.stem}_{'taught' if teacher else 'tuned'}_{seed}", "train", model, "--data", self.o.data, "--base-lr", 0.1,
                         "--keep-rate", "--epochs", self.o.more, "--augment", "crop=2,flip", "--nesterov", "--seed", seed, "--threads",
                         self.o.threads, *flags)

    def int8(self, model):
        return self.made(model.stem + "_int8", "quantize", model, "--data", self.o.data)

    def latencies(self, models):
        times = {m: [] for m in models}
        for _ in range(self.o.rounds):
            for m in models:
                times[m].append(json.loads(self.lathe("bench", m, "--seconds", 0.5, "--threads", 1, "--json"))["p50_us"])
        return {m: statistics.median(t) for m, t in times.items()}


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    sys.stdout.flush()


def by_criterion(b):
    base = b.base()
    rows = [["none (control)", "0", f"{b.accuracy(base):.2f}", f"{b.accuracy(b.tuned(base)):.2f}", f"{b.accuracy(b.tuned(base, teacher=True)):.2f}"]]
    for criterion, percent in CUTS:
        model = b.cut(criterion, percent)
        rows.append([criterion, str(percent), *(f"{b.accuracy(m):.2f}" for m in (model, b.tuned(model), b.tuned(model, teacher=True)))])
    table(["criterion", "% of channels", "as cut", "trained on", "with teacher"], rows)


def by_seed(b):
    rows = []
    for name, model, teacher in [("control", b.base(), False), ("gamma, 25 %", b.cut("gamma", 25), False),
                                 ("gamma, 25 %, with teacher", b.cut("gamma", 25), True)]:
        values = [b.accuracy(b.tuned(model, seed, teacher)) for seed in SEEDS]
        rows.append([name, *(f"{v:.2f}" for v in values), f"{statistics.mean(values):.2f}"])
    table(["", *(f"seed {s}" for s in SEEDS), "mean"], rows)


def by_latency(b):
    models = [("0", b.tuned(b.base()))] + [(str(p), b.tuned(b.cut("gamma", p))) for p in (25, 40, 50)]
    times = b.latencies([m for _, m in models] + [b.int8(m) for _, m in models])
    first, first8 = times[models[0][1]], times[b.int8(models[0][1])]
    table(["gamma, % of channels", "float, us", "", "INT8, us", "", "INT8, %"],
          [[p, f"{times[m]:.0f}", f"{100 * (times[m] / first - 1):+.1f} %", f"{times[b.int8(m)]:.0f}",
            f"{100 * (times[b.int8(m)] / first8 - 1):+.1f} %", f"{b.accuracy(b.int8(m)):.2f}"] for p, m in models])


def by_cost(b):
    models = [(by, p, b.tuned(b.cut("gamma", p, by))) for by in ("parameters", "time") for p in (25, 40, 50)]
    times = b.latencies([m for _, _, m in models])
    table(["importance per", "% of channels", "accuracy, %", "float, us"],
          [[by, str(p), f"{b.accuracy(m):.2f}", f"{times[m]:.0f}"] for by, p, m in models])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lathe", default="build/tools/lathe")
    p.add_argument("--network", required=True, help="untrained, as above")
    p.add_argument("--work", required=True, help="folder for networks")
    p.add_argument("--data", default=ROOT / "examples/fashion/fashion.toml")
    p.add_argument("--epochs", type=int, default=8, help="of the first training")
    p.add_argument("--more", type=int, default=2, help="epochs after a cut")
    p.add_argument("--sparsity", type=float, default=1e-4)
    p.add_argument("--threads", type=int, default=2, help="of training")
    p.add_argument("--rounds", type=int, default=7, help="of latency")
    p.add_argument("--tables", default="criterion,seed,latency,cost")
    o = p.parse_args()
    bench = Bench(o)
    bench.work.mkdir(exist_ok=True)
    for name in o.tables.split(","):
        {"criterion": by_criterion, "seed": by_seed, "latency": by_latency, "cost": by_cost}[name](bench)


if __name__ == "__main__":
    main()
