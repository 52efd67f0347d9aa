#!/usr/bin/env python3
"""Ratios between two runs of a benchmark: compare.py A.json B.json [--filter REGEX] [--threshold PERCENT]

Reads what Google Benchmark writes with --benchmark_out (with --benchmark_repetitions=5 or more, so that there is a spread), and what
`lathe kernels --bench --json` and bench/peers/peers.py --json write. Prints B's median time over A's: below 1, B is faster. Spread is
(slowest - fastest) / median of the noisier side; a ratio within it says nothing and is printed as noise. Exit status 1 if something
got slower by more than its spread and the threshold.
"""
import argparse
import json
import math
import re
import statistics
import sys


def times(path):
    """Name -> list of times in any one unit."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    out = {}
    if "benchmarks" in data:
        for b in data["benchmarks"]:
            if b.get("run_type", "iteration") == "iteration" and not b.get("error_occurred"):
                out.setdefault(b.get("run_name", b["name"]), []).append(b["real_time"])
    elif "kernels" in data:
        for k in data["kernels"]:
            out[f"{k['name']}/{k['shape']}"] = [k["min_us"], k["us"], k["us"]]
    else:
        for r in data["results"]:
            out[f"{r['case']}/{r['label']}/{r['threads']}T"] = [r["min"], r["us"], r["max"]]
    return out


def spread(values):
    return (max(values) - min(values)) / statistics.median(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--filter", default="", help="only names that this matches")
    parser.add_argument("--threshold", type=float, default=3, help="percent that count as a change (default: 3)")
    o = parser.parse_args()
    a, b = times(o.a), times(o.b)
    names = [n for n in a if n in b and re.search(o.filter, n)]
    if not names:
        sys.exit("compare: the two files have nothing in common")
    width = max(map(len, names))
    slower, logs = [], 0.0
    print(f"{'benchmark'.ljust(width)}      A          B      B / A  spread")
    for name in names:
        ma, mb = statistics.median(a[name]), statistics.median(b[name])
        ratio, noise = mb / ma, max(spread(a[name]), spread(b[name]))
        change = abs(ratio - 1) > max(noise, o.threshold / 100)
        verdict = ("slower" if ratio > 1 else "faster") if change else "noise" if abs(ratio - 1) > o.threshold / 100 else ""
        slower += [name] if verdict == "slower" else []
        logs += math.log(ratio)
        print(f"{name.ljust(width)} {ma:10.2f} {mb:10.2f}  {ratio:6.3f}  {100 * noise:4.1f} %  {verdict}")
    print(f"geometric mean of {len(names)} ratios: {math.exp(logs / len(names)):.3f}; {len(slower)} slower")
    for name in sorted((set(a) ^ set(b))):
        print(f"only in {'A' if name in a else 'B'}: {name}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
