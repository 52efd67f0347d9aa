#!/usr/bin/env python3
"""Block-sparse INT8 kernels beside the dense ones: sparsity.py LATHE [--isa NAME] [--zeros 50 75] [--rounds N] [--ms MS] [--shapes SHAPE ...]

Times both kernels of an instruction set on every shape of bench/kernels/shapes.inc (or on --shapes), in turns, with that percentage of weight blocks (4 k x 16 channels) zero. Prints
microseconds and ratios of the fastest medians, for one thread and two: what `lathe kernels --gemm SHAPE@ZEROS` shows for a shape, as a table. `auto` says whether a model's weights
of that density would be stored sparse.
"""
import argparse
import collections
import json
import subprocess
import sys

NAMES = {"avx512vnni": "x86_avx512vnni", "avx2": "x86_avx2", "neon": "arm_neon", "dotprod": "arm_dotprod"}


def measured(lathe, isa, shape, threads, ms):
    """Median microseconds by family, and the families that a plan would use."""
    command = [lathe, "kernels", "--bench", NAMES[isa], "--conv" if ":" in shape else "--gemm", shape]
    command += ["--isa", isa, "--threads", str(threads), "--ms", str(ms), "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr.strip())
    rows = [k for k in json.loads(run.stdout)["kernels"] if k["family"] in ("GemmS8", "GemmSparseS8")]
    return {k["family"]: k["us"] for k in rows}, {k["family"] for k in rows if k["chosen"]}


def listed_shapes(lathe, isa):
    run = subprocess.run([lathe, "kernels", "--bench", "gemm_u8s8s32_6x" if "avx" in isa else "gemm_s8s8s32_", "--ms", "1", "--json"],
                         capture_output=True, text=True, check=True)
    return list(dict.fromkeys(k["shape"] for k in json.loads(run.stdout)["kernels"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lathe")
    parser.add_argument("--isa", default="avx512vnni", choices=NAMES)
    parser.add_argument("--zeros", nargs="+", type=int, default=[50, 75])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ms", type=float, default=5)
    parser.add_argument("--shapes", nargs="+")
    o = parser.parse_args()
    times, sparse_chosen = collections.defaultdict(list), {}
    shapes = o.shapes or listed_shapes(o.lathe, o.isa)
    for _ in range(o.rounds):
        for shape in shapes:
            for zeros in o.zeros:
                for threads in o.threads:
                    us, chosen = measured(o.lathe, o.isa, f"{shape}@{zeros}", threads, o.ms)
                    for family, value in us.items():
                        times[shape, zeros, threads, family].append(value)
                    sparse_chosen[shape, zeros] = "GemmSparseS8" in chosen
    columns = [(zeros, threads) for zeros in o.zeros for threads in o.threads]
    print("| shape | dense us | " + " | ".join(f"{z} % {t}T" for z, t in columns) + " | auto |")
    print("|---|---" + "|---" * len(columns) + "|---|")
    for shape in shapes:
        dense = {t: min(min(times[shape, z, t, "GemmS8"]) for z in o.zeros) for t in o.threads}
        ratios = [dense[t] / min(times[shape, z, t, "GemmSparseS8"]) for z, t in columns]
        auto = ", ".join(f"{z} %" for z in o.zeros if sparse_chosen[shape, z]) or "dense"
        print(f"| {shape} | {dense[o.threads[0]]:.1f} | " + " | ".join(f"{r:.2f}" for r in ratios) + f" | {auto} |")


if __name__ == "__main__":
    main()
