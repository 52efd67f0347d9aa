"""Exports ONNX's backend cases with `lathe export` and runs the files in ONNX Runtime, on the cases' own inputs.

    oracle/bin/python tests/oracle/export_conformance.py --lathe build/tools/lathe onnx/backend/test/data/node [--match test_conv_*]

A case counts as equal if its outputs agree with those of the case as the suite compares them (1e-3 relative, 1e-7 absolute), and
as differing if ONNX Runtime's outputs for the case's own model do and those of the exported one do not: what both get wrong, or
ONNX Runtime does not have, says nothing of the export. Prints the counts and every case that differs; exit status 1 if one does.
Needs onnx, onnxruntime and numpy.
"""
import argparse
import collections
import fnmatch
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper


def tensors(folder, kind):
    """The protobuf tensors of a test set; None if one is no dense tensor of numbers."""
    out = []
    for i in range(len(list(folder.glob(f"{kind}_*.pb")))):
        t = onnx.TensorProto()
        try:
            t.ParseFromString((folder / f"{kind}_{i}.pb").read_bytes())
            a = numpy_helper.to_array(t)
        except Exception:  # a sequence, an optional, or bytes of another message
            return None
        if a.dtype.kind not in "fiub":
            return None
        out.append(a)
    return out


def run(model, arrays, float_inputs):
    """ONNX Runtime's outputs, or why there are none."""
    try:
        session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        feed = {}
        for port, a in zip(session.get_inputs(), arrays):
            feed[port.name] = a.astype(np.float32) if float_inputs and port.type == "tensor(float)" else a
        return session.run(None, feed), None
    except Exception as e:
        return None, str(e).splitlines()[0]


def agree(got, want):
    if got is None or len(got) != len(want):
        return False
    for a, b in zip(got, want):
        if not isinstance(a, np.ndarray) or a.shape != b.shape:
            return False
        if b.dtype.kind == "f":
            # Floats of other widths are float32 in the exported file.
            wide = 1e-3 if b.dtype.itemsize >= 4 else 2e-3
            if not np.allclose(a.astype(b.dtype).astype(np.float64), b.astype(np.float64), rtol=wide, atol=1e-7, equal_nan=True):
                return False
        elif not np.array_equal(a, b):
            return False
    return True


def check(lathe, case, folder):
    """(group, reason)"""
    model, sets = case / "model.onnx", sorted(case.glob("test_data_set_*"))
    if not sets:
        return "no test data", ""
    arrays, wanted = tensors(sets[0], "input"), tensors(sets[0], "output")
    if arrays is None or wanted is None:
        return "no dense numbers", ""
    exported = folder / "exported.onnx"
    done = subprocess.run([lathe, "export", model, "-o", exported], capture_output=True, text=True)
    if done.returncode != 0:
        what = "not exported" if "cannot be exported" in done.stderr or "ONNX has" in done.stderr else "not imported"
        return what, done.stderr.strip().splitlines()[-1].strip()
    got, why = run(exported, arrays, True)
    if got is not None and agree(got, wanted):
        return "equal", ""
    theirs, own_why = run(model, arrays, False)
    if theirs is None or (why and "NOT_IMPLEMENTED" in why):
        return "not in ONNX Runtime", own_why or why
    if not agree(theirs, wanted):
        return "ONNX Runtime differs from the suite", ""
    return "differs", why or "other numbers"


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--lathe", required=True)
    args.add_argument("--match", default="*")
    args.add_argument("--list", help="print the cases of this group too, with their reasons")
    args.add_argument("folder", type=pathlib.Path)
    options = args.parse_args()
    ort.set_default_logger_severity(4)
    groups = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in sorted(options.folder.iterdir()):
            if not (case / "model.onnx").exists() or not fnmatch.fnmatch(case.name, options.match):
                continue
            group, reason = check(options.lathe, case, pathlib.Path(folder))
            groups[group] += 1
            if group in ("differs", options.list):
                print(f"{group}: {case.name}: {reason}", flush=True)
    print(f"ONNX Runtime {ort.__version__}: " + ", ".join(f"{n} {group}" for group, n in groups.most_common()))
    sys.exit(1 if groups["differs"] else 0)


if __name__ == "__main__":
    main()
