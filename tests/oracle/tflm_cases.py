#!/usr/bin/env python3
"""Runs TFLite Micro's int16x8 cases: one operator each, inputs and golden outputs as lists of numbers.

    tar xf ../shared/data/conformance/tflm_seanet_int16x8.tar.xz -C DIR
    python3 tests/oracle/tflm_cases.py --lathe build/tools/lathe DIR

Counts the cases whose outputs are all within one step of the golden ones, by operator. Needs ai-edge-litert (for the file's tensors)
and numpy. An input that gives a shape is fixed with --const.
"""
import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from ai_edge_litert import schema_py_generated as schema

TYPES = {2: np.int32, 7: np.int16}


def numbers(path, dtype):
    return np.array([v for v in path.read_text().replace("\n", ",").split(",") if v.strip()], np.int64).astype(dtype)


def run_case(lathe, model, folder):
    """Largest difference in steps, or an error."""
    graph = schema.Model.GetRootAs(model.read_bytes(), 0).Subgraphs(0)
    arrays, command = {}, [lathe, "run", str(model), "--output", f"{folder}/y.npz"]
    for i in range(graph.InputsLength()):
        tensor = graph.Tensors(graph.Inputs(i))
        dtype = TYPES[tensor.Type()]
        shape = tensor.ShapeAsNumpy() if tensor.ShapeLength() else []
        name = (tensor.Name() or b"").decode() or f"tensor:{graph.Inputs(i)}"  # as the importer calls it
        values = numbers(next(model.parent.glob(f"{model.stem}_input{i}_int*.csv")), dtype).reshape(shape)
        if dtype == np.int32 and model.stem.startswith("transpose_conv"):
            command += ["--const", name + "=" + ",".join(map(str, values))]
        else:
            arrays[name] = values
    np.savez(f"{folder}/x.npz", **arrays)
    done = subprocess.run(command + ["--input", f"{folder}/x.npz"], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    golden = next(model.parent.glob(f"{model.stem}_golden_int*.csv"))
    with np.load(f"{folder}/y.npz") as y:
        got = y[y.files[0]]
    want = numbers(golden, np.int64)
    if got.size != want.size:
        return None, f"{got.size} elements, {want.size} are expected"
    return int(np.max(np.abs(got.astype(np.int64).ravel() - want))), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--lathe", required=True)
    args = parser.parse_args()
    good, all_cases = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for model in sorted(args.folder.rglob("*.tflite")):
            op = model.parent.name
            all_cases[op] += 1
            worst, error = run_case(args.lathe, model, folder)
            if worst is not None and worst <= 1:
                good[op] += 1
            else:
                print(f"{model.stem}: {error or f'{worst} steps'}")
    for op, count in all_cases.items():
        print(f"{op:16} {good[op]} of {count} within one step")
    passed, failed = sum(good.values()), sum(all_cases.values()) - sum(good.values())
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
