#!/usr/bin/env python3
"""Times Lathe and other libraries on the same layers and networks, in turn, and prints one table: peers.py MODELS [options]

MODELS is a folder that models.py filled. Every case is loaded by every library that has it; then they run in rounds, one after the
other, and each library's figure is the median of its rounds. Ratios are Lathe's time over the best peer's. A library that is not
there is named, and its rows do not count.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

from shape_list import shapes

NETWORKS = ["mobilenetv2", "resnet50", "resnet8", "dscnn", "mbv1_025_96", "minilm"]
TRANSFORMERS = {"minilm"}  # also with activations quantized on the fly
# Bars of the design's table for INT8 networks at batch 1: 1 and 2 threads, against the best 8-bit peer.
NETWORK_BARS = {"mobilenetv2": (0.65, 0.68), "resnet50": (0.98, 0.99), "resnet8": (1.0, 1.05), "dscnn": (0.65, 0.78),
                "mbv1_025_96": (0.65, 0.74), "minilm": (0.65, 0.70)}
# Lathe's INT8 time over ONNX Runtime's float32 time.
INT8_OVER_FLOAT = {"resnet50": 1 / 3, "mobilenetv2": 1 / 3, "resnet8": 1 / 2.5}
WIDTH_CUTS = {"resnet50": 0.60, "mobilenetv2": 0.65, "resnet8": 0.80}
PARTS = ["gemm", "conv", "avx2", "nets", "widths", "replicas"]


class Process:
    """One library in a process of its own; see peer.h for the protocol."""

    def __init__(self, command, env=None):
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | (env or {}))
        hello = self.child.stdout.readline().split(maxsplit=1)
        if not hello or hello[0] != "hello":
            raise RuntimeError(f"{command[0]} did not start")
        self.version = hello[1].strip()

    def ask(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()
        answer = self.child.stdout.readline().split(maxsplit=1)
        if not answer:
            raise RuntimeError(f"{self.version} died on: {line}")
        return answer[0], answer[1].strip() if len(answer) > 1 else ""


def find_onnxruntime():
    """libonnxruntime.so of an installed Python package, if there is one."""
    code = "import onnxruntime, pathlib; print(*(pathlib.Path(onnxruntime.__file__).parent / 'capi').glob('libonnxruntime.so*'))"
    for python in (sys.executable, "python3"):
        found = subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.split()
        if found:
            return found[0]
    return None


class Bench:
    """The processes, and results as (case, threads, label) -> microseconds."""

    def __init__(self, options):
        self.o, self.peers, self.missing, self.results, self.reasons, self.prepared = options, {}, {}, {}, {}, {}
        folder = options.build / "bench" / "peers"
        ort = options.ort or find_onnxruntime()
        self.start("lathe", [folder / "lathe_peer"])
        self.start("ort", [folder / "ort_peer", ort, options.models] if ort else None)
        # Libraries with threads of their own must not inherit the place of an OpenMP thread.
        pinned = {"OMP_PROC_BIND": "true", "OMP_PLACES": "cores"} if options.noisy else {}
        self.start("dnn", [folder / "onednn_peer"], pinned)
        self.start("xnn", [folder / "xnnpack_peer"])
        if "avx2" in options.parts:
            self.start("lathe-avx2", [folder / "lathe_peer"], {"LATHE_ISA": "avx2"})
        if "lathe" not in self.peers:
            sys.exit("peers: build bench/peers/lathe_peer first")

    def start(self, name, command, env=None):
        if command is None or not pathlib.Path(command[0]).exists():
            self.missing[name] = "not found"
            return
        try:
            self.peers[name] = Process([str(c) for c in command], env)
        except RuntimeError as error:
            self.missing[name] = str(error)

    def measure(self, case, contestants):
        """`contestants`: (label, peer, spec). Loads all, runs them in rounds, for every thread count."""
        for threads in self.o.threads:
            loaded = []
            for label, peer, spec in contestants:
                if peer not in self.peers:
                    continue
                status, reason = self.peers[peer].ask(f"load {label.replace(' ', '-')} {threads} {spec}")
                if status == "ok":
                    loaded.append((label, peer))
                else:
                    self.reasons[f"{case} {label}"] = reason
            times = {label: [] for label, _ in loaded}
            for _ in range(self.o.rounds):
                for label, peer in loaded:
                    time.sleep(self.o.pause / 1000)
                    status, text = self.peers[peer].ask(f"time {label.replace(' ', '-')} {self.o.ms}")
                    if status == "us":
                        times[label].append(float(text.split()[0]))
                    else:
                        self.reasons[f"{case} {label}"] = text
            for label, peer in loaded:
                self.peers[peer].ask(f"drop {label.replace(' ', '-')}")
                if times[label]:
                    self.results[case, threads, label] = (self.o.statistic(times[label]), min(times[label]), max(times[label]))
            if sys.stderr.isatty():
                print(f"\r{case} {threads} threads".ljust(60), end="", file=sys.stderr, flush=True)

    def us(self, case, threads, label):
        return self.results.get((case, threads, label), (None,))[0]

    def best(self, case, threads, labels):
        """(microseconds, label) of the fastest of `labels`, or None."""
        times = [(self.us(case, threads, l), l) for l in labels if self.us(case, threads, l) is not None]
        return min(times) if times else None


def gemm_bar(n, k):
    if k <= 16:
        return 0.65
    if n <= 24:
        return 0.95
    return 0.80 if n <= 64 or k <= 64 else 0.99


class Report:
    """Tables as rows of text; counts what passed."""

    def __init__(self):
        self.lines, self.passed, self.failed, self.failures = [], 0, 0, []

    def table(self, title, headers):
        self.lines += ["", f"### {title}", "", "| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]

    def row(self, *cells):
        self.lines.append("| " + " | ".join("" if c is None else f"{c:.2f}" if isinstance(c, float) else str(c) for c in cells) + " |")

    def verdict(self, name, ratio, bar):
        """`0.63 <= 0.65 pass`"""
        if ratio is None:
            return ""
        good = ratio <= bar + 0.005  # as printed
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        if not good:
            self.failures.append(f"{name}: {ratio:.2f}, bar {bar:.2f}")
        return f"{ratio:.2f} / {bar:.2f} {'pass' if good else '**FAIL**'}"


def ratio(ours, best):
    return ours / best[0] if ours is not None and best is not None else None


def rate(ops, us):
    return None if us is None else f"{us:.1f} ({ops / us / 1e3:.0f})"


def layer_rows(bench, report, cases, part, title):
    """`cases`: (name, spec without type, operations, bar against 8-bit peers, bar against float peers or None)."""
    for case, spec, _, _, _ in cases:
        contestants = [("lathe u8", "lathe", f"{spec} u8"), ("lathe f32", "lathe", f"{spec} f32"), ("ort u8", "ort", f"{spec} u8"),
                       ("ort f32", "ort", f"{spec} f32"), ("dnn u8", "dnn", f"{spec} u8"), ("dnn f32", "dnn", f"{spec} f32"),
                       ("xnn s8", "xnn", f"{spec} s8"), ("xnn f32", "xnn", f"{spec} f32")]
        bench.measure(case, contestants)
    for threads in bench.o.threads:
        report.table(f"{title}, {threads} thread{'s' * (threads > 1)}: us (GOPS)",
                     [part, "lathe int8", "ort u8", "dnn u8", "xnn s8", "ours / best int8, bar", "lathe f32", "best f32",
                      "f32 ours / best", "int8 / best f32, bar"])
        for case, _, ops, bar, float_bar in cases:
            us = lambda label: bench.us(case, threads, label)
            best = bench.best(case, threads, ["ort u8", "dnn u8", "xnn s8"])
            best_float = bench.best(case, threads, ["ort f32", "dnn f32", "xnn f32"])
            over_float = ratio(us("lathe u8"), best_float)
            name = f"{case} {threads}T"
            report.row(case, rate(ops, us("lathe u8")), *(rate(ops, us(l)) for l in ("ort u8", "dnn u8", "xnn s8")),
                       report.verdict(name, ratio(us("lathe u8"), best), bar), rate(ops, us("lathe f32")),
                       best_float and f"{best_float[0]:.1f} {best_float[1].split()[0]}", ratio(us("lathe f32"), best_float),
                       report.verdict(f"{name} over float", over_float, float_bar) if float_bar else over_float)


def gemm_cases():
    return [(f"{m}x{n}x{k}", f"gemm {m} {n} {k}", 2 * m * n * k, gemm_bar(n, k), None) for m, n, k in shapes("LATHE_BENCH_GEMM")]


def conv_cases():
    cases = []
    for h, w, c, oc, kernel, stride, pad, groups in shapes("LATHE_BENCH_CONV"):
        oh, ow = (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1
        depthwise = groups > 1
        name = f"{'dw ' if depthwise else ''}{kernel}x{kernel} {h}x{w}x{c}" + ("" if depthwise else f" to {oc}")
        name += " stride 2" if stride == 2 else ""
        ops = 2 * oh * ow * oc * kernel * kernel * c // groups
        spec = f"conv {h} {w} {c} {oc} {kernel} {stride} {pad} {groups}"
        cases.append((name, spec, ops, 0.42 if depthwise else 0.99, 0.60 if depthwise else None))
    return cases


def avx2_rows(bench, report):
    """Lathe capped to AVX2 against the exact multiply-add limit; only whole tiles count."""
    command = [bench.o.build / "tools" / "lathe", "kernels", "--peak", "--json"]
    limit = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["peak_gops"]["avx2_s8"]
    report.table(f"AVX2, exact: GOPS of one thread, limit of widened multiply-add {limit:.0f} GOPS",
                 ["gemm", "us", "GOPS", "limit / ours, bar"])
    bench.o.threads, threads = [1], bench.o.threads
    for case, spec, ops, _, _ in gemm_cases():
        bench.measure("avx2 " + case, [("lathe-avx2 u8", "lathe-avx2", f"{spec} u8")])
        us = bench.us("avx2 " + case, 1, "lathe-avx2 u8")
        m, n, k = map(int, case.split("x"))
        large = min(m, n, k) >= 64
        gops = ops / us / 1e3
        report.row(case, us, gops, report.verdict(f"avx2 {case}", limit / gops, 1 / 0.80) if large else limit / gops)
    bench.o.threads = threads


def prepare(bench, name):
    """Imports and quantizes as a user would; the files stay in MODELS. Returns the paths of Lathe's float, INT8 and, for transformers,
    dynamic INT8 models; None where it failed."""
    if name in bench.prepared:
        return bench.prepared[name]
    lathe, folder = bench.o.build / "tools" / "lathe", bench.o.models
    paths, onnx = bench.prepared.setdefault(name, []), folder / f"{name}.onnx"
    commands = [("float", ["import", onnx]), ("int8", ["quantize", onnx, "--data", folder / f"{name}.toml"])]
    commands += [("dynamic", ["quantize", onnx, "--dynamic"])] if name in TRANSFORMERS else []
    for suffix, command in commands:
        path = folder / f"{name}.{suffix}.lathe"
        if not bench.o.keep or not path.exists():
            done = subprocess.run([lathe, *command, "-o", path], capture_output=True, text=True)
            if done.returncode != 0:
                bench.reasons[f"{name} {suffix}"] = (done.stderr.strip().splitlines() or ["failed"])[0]
                paths.append(None)
                continue
        paths.append(path)
    return paths


def measure_network(bench, name, batch):
    float_model, int8_model, *dynamic = prepare(bench, name)
    onnx = lambda mode: f"net {bench.o.models}/net_{name}_{mode}_b{batch}.onnx {batch}"
    contestants = [("lathe int8", "lathe", f"net {int8_model} {batch}")] if int8_model else []
    contestants += [("lathe f32", "lathe", f"net {float_model} {batch}")] if float_model else []
    contestants += [("ort f32", "ort", onnx("fp32")), ("ort int8", "ort", onnx("qdq"))]
    if name in TRANSFORMERS:
        contestants += [("ort dyn", "ort", onnx("dyn"))] + [("lathe dyn", "lathe", f"net {d} {batch}") for d in dynamic if d]
    if int8_model:
        contestants += [("xnn int8", "xnn", f"net {int8_model} {batch}")]
    bench.measure(f"{name} b{batch}", contestants)


def network_rows(bench, report):
    for name in bench.o.nets:
        for batch in bench.o.batches:
            measure_network(bench, name, batch)
    for batch in bench.o.batches:
        for threads in bench.o.threads:
            report.table(f"Networks, batch {batch}, {threads} thread{'s' * (threads > 1)}: us",
                         ["network", "lathe int8", "ort int8", "xnn int8", "ours / best int8, bar", "lathe f32", "ort f32",
                          "f32 ours / ort, bar", "int8 / ort f32, bar"])
            for name in bench.o.nets:
                case, label = f"{name} b{batch}", f"{name} b{batch} {threads}T"
                us = lambda l: bench.us(case, threads, l)
                best = bench.best(case, threads, ["ort int8", "ort dyn", "xnn int8"])
                ours = min((t for t in (us("lathe int8"), us("lathe dyn")) if t), default=None)
                ort = bench.best(case, threads, ["ort f32"])
                bars = NETWORK_BARS[name][min(threads, 2) - 1]
                over_float = ratio(ours, ort)
                bar = INT8_OVER_FLOAT.get(name)
                ort_int8 = min((t for t in (us("ort int8"), us("ort dyn")) if t), default=None)
                report.row(name, ours, ort_int8, us("xnn int8"),
                           report.verdict(label, ratio(ours, best), bars), us("lathe f32"), us("ort f32"),
                           report.verdict(f"{label} float", ratio(us("lathe f32"), ort), 1.0),
                           report.verdict(f"{label} int8 over float", over_float, bar) if bar else over_float)


def width_rows(bench, report):
    names = ["resnet50", "mobilenetv2", "resnet8", "resnet50_w75", "mobilenetv2_w75", "resnet8_w75", "resnet50_w74"]
    for name in names:
        if (f"{name} b1", bench.o.threads[0], "lathe int8") not in bench.results:
            measure_network(bench, name, 1)
    report.table("Widths, batch 1: time over the full network's",
                 ["network", "threads", "ours us", "ours / full, bar", "ort int8 / full", "xnn int8 / full"])
    for name in names[3:6]:
        full = name.removesuffix("_w75")
        for threads in bench.o.threads:
            part = lambda l: ratio(bench.us(f"{name} b1", threads, l), bench.best(f"{full} b1", threads, [l]))
            report.row(name, threads, bench.us(f"{name} b1", threads, "lathe int8"),
                       report.verdict(f"{name} {threads}T", part("lathe int8"), WIDTH_CUTS[full]), part("ort int8"), part("xnn int8"))
    for threads in bench.o.threads:
        us = bench.us("resnet50_w74 b1", threads, "lathe int8")
        odd = ratio(us, bench.best("resnet50_w75 b1", threads, ["lathe int8"]))
        report.row("resnet50_w74 / resnet50_w75", threads, us, report.verdict(f"resnet50_w74 {threads}T", odd, 1.04), "", "")


def replica_rows(bench, report):
    """Two sessions on two cores against one, by `lathe bench --replicas`."""
    report.table("Replicas: runs per second of two sessions over one", ["network", "1 replica", "2 replicas", "1.9 / gain, bar"])
    lathe = bench.o.build / "tools" / "lathe"
    for name in ("resnet50", "mobilenetv2"):
        for path in filter(None, prepare(bench, name)):
            rates = {1: [], 2: []}
            for _ in range(3):
                for replicas in rates:
                    run = subprocess.run([lathe, "bench", path, "--replicas", str(replicas), "--clients", str(replicas), "--seconds", "1",
                                          "--json"], capture_output=True, text=True)
                    if run.returncode != 0:
                        bench.reasons[f"replicas {path.name}"] = run.stderr.strip()
                        break
                    # As many clients as replicas, so none waits for another: finer than a count of the runs that ended in time.
                    rates[replicas].append(replicas * 1e6 / json.loads(run.stdout)["mean_us"])
            if rates[1] and rates[2]:
                one, two = statistics.median(rates[1]), statistics.median(rates[2])
                report.row(path.name, one, two, report.verdict(f"replicas {path.name}", 1.9 * one / two, 1.0))


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("models", type=pathlib.Path)
    p.add_argument("--build", type=pathlib.Path, default="build", help="build directory (default: build)")
    p.add_argument("--ort", help="path of libonnxruntime.so (default: that of an installed Python package)")
    p.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS)
    p.add_argument("--nets", nargs="*", choices=NETWORKS, default=NETWORKS)
    p.add_argument("--batches", nargs="*", type=int, default=[1, 8])
    p.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    p.add_argument("--rounds", type=int, default=5, help="turns of every library per case (default: 5)")
    p.add_argument("--ms", type=float, default=20, help="milliseconds of a turn (default: 20)")
    p.add_argument("--pause", type=float, default=25,
                   help="milliseconds between turns, in which the threads of the last one fall asleep (default: 25)")
    p.add_argument("--noisy", action="store_true",
                   help="for a machine that is not quiet: fastest round instead of median, oneDNN's threads pinned")
    p.add_argument("--prepare", action="store_true", help="only import and quantize the networks, for --keep")
    p.add_argument("--keep", action="store_true", help="use the .lathe files that are there")
    p.add_argument("--json", type=pathlib.Path, help="also write all times to this file")
    p.add_argument("--out", type=pathlib.Path, help="also write the tables to this file")
    o = p.parse_args()
    o.statistic = min if o.noisy else statistics.median
    o.build, o.models = o.build.resolve(), o.models.resolve()
    return o


def main():
    options = parse()
    start = time.time()
    bench, report = Bench(options), Report()
    if options.prepare:
        for name in options.nets + ["resnet50_w75", "mobilenetv2_w75", "resnet8_w75", "resnet50_w74"]:
            prepare(bench, name)
        print("\n".join(f"{name}: {reason}" for name, reason in bench.reasons.items()) or "all networks are ready")
        return
    if "gemm" in options.parts:
        layer_rows(bench, report, gemm_cases(), "gemm", "GEMM M x N x K")
    if "conv" in options.parts:
        layer_rows(bench, report, conv_cases(), "convolution", "Convolution, NHWC")
    if "avx2" in options.parts:
        avx2_rows(bench, report)
    if "nets" in options.parts:
        network_rows(bench, report)
    if "widths" in options.parts:
        width_rows(bench, report)
    if "replicas" in options.parts:
        replica_rows(bench, report)
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    head = [f"{cpu[1] if cpu else 'unknown CPU'}; " + ", ".join(p.version for p in bench.peers.values()),
            *(f"Missing, its rows do not count: {name} ({why})." for name, why in bench.missing.items()),
            "Lathe keeps activations as u8 (q + 128) on x86 whatever the model's type: models with s8 and u8 inputs run the same kernels.",
            f"{'Fastest' if options.noisy else 'Medians'} of {options.rounds} rounds of {options.ms:g} ms, libraries in turn, "
            f"{options.pause:g} ms of rest between them; "
            f"ratios are times, below 1 is faster than the peer. {time.time() - start:.0f} s."]
    tail = ["", f"{report.passed} bars met, {report.failed} missed."] + [f"- {f}" for f in report.failures]
    tail += ["", "Not measured:"] * bool(bench.reasons) + [f"- {case}: {reason}" for case, reason in sorted(bench.reasons.items())]
    text = "\n".join(head + report.lines + tail) + "\n"
    print(text)
    if options.out:
        options.out.write_text(text)
    if options.json:
        rows = [{"case": c, "threads": t, "label": l, "us": v[0], "min": v[1], "max": v[2]} for (c, t, l), v in bench.results.items()]
        options.json.write_text(json.dumps({"results": rows, "missing": bench.missing, "not_measured": bench.reasons}, indent=1))


if __name__ == "__main__":
    main()
