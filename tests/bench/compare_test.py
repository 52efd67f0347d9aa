#!/usr/bin/env python3
"""Checks bench/compare.py on runs whose answer is known: compare_test.py COMPARE.PY"""
import json
import pathlib
import subprocess
import sys
import tempfile


def google(times):
    """What Google Benchmark writes: {name: [time of each repetition]}."""
    rows = [{"name": n, "run_name": n, "run_type": "iteration", "real_time": t} for n, ts in times.items() for t in ts]
    rows += [{"name": f"{n}_mean", "run_name": n, "run_type": "aggregate", "real_time": 1e9} for n in times]
    return {"benchmarks": rows}


STEADY = {"conv": [100, 101, 99], "gemm": [50, 50, 50]}
# (A, B, exit status, what the output must have)
CASES = [
    (google(STEADY), google(STEADY), 0, ["1.000", "0 slower"]),
    (google(STEADY), google(STEADY | {"gemm": [60, 60, 60]}), 1, ["1.200", "slower", "1 slower"]),
    (google(STEADY), google(STEADY | {"gemm": [40, 40, 40]}), 0, ["0.800", "faster"]),
    (google(STEADY), google(STEADY | {"gemm": [30, 60, 80]}), 0, ["noise", "0 slower"]),
    (google(STEADY), google({"conv": [100, 100, 100], "new": [1, 1, 1]}), 0, ["only in A: gemm", "only in B: new"]),
    (google(STEADY), google({"other": [1]}), 1, ["nothing in common"]),
    ({"kernels": [{"name": "k", "shape": "1x2x3", "us": 4, "min_us": 4}]}, {"kernels": [{"name": "k", "shape": "1x2x3", "us": 8, "min_us": 8}]}, 1,
     ["k/1x2x3", "2.000"]),
    ({"results": [{"case": "c", "label": "l", "threads": 2, "us": 4, "min": 4, "max": 4}]},
     {"results": [{"case": "c", "label": "l", "threads": 2, "us": 2, "min": 2, "max": 2}]}, 0, ["c/l/2T", "0.500"]),
]


def main():
    compare, failures = sys.argv[1], []
    with tempfile.TemporaryDirectory() as folder:
        a, b = pathlib.Path(folder) / "a.json", pathlib.Path(folder) / "b.json"
        for number, (old, new, status, expected) in enumerate(CASES):
            a.write_text(json.dumps(old))
            b.write_text(json.dumps(new))
            run = subprocess.run([sys.executable, compare, a, b], capture_output=True, text=True)
            text = run.stdout + run.stderr
            failures += [f"case {number}: exit status {run.returncode}, expected {status}\n{text}"] if run.returncode != status else []
            failures += [f"case {number}: no '{e}' in\n{text}" for e in expected if e not in text]
    print("\n".join(failures) or f"{len(CASES)} cases are right")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
