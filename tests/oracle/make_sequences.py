#!/usr/bin/env python3
"""Write what ONNX Runtime computes for models that work on sequences: expected/<model>.npz.

Audio models run STEPS times, as a stream does: each state input gets the output
that continues it, zeros at first; other inputs are pseudo-random, element i of
step s being that of stream s in make_expected.py, times the input's scale. The
file holds `output_<name>` [STEPS, k] of every output: all its elements, or every
37th where there are more than 4,096.

stories260K_s128 gets WINDOWS windows of 128 tokens of the tinystories set, each
with the begin token in front and its last token left out; `nll` [WINDOWS] is the
sum of -log p over the 128 tokens, `logits` every 37th logit of the first window.

    LATHE_DATA=../shared/data oracle/bin/python tests/oracle/make_sequences.py
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

from make_expected import random

STEPS = 6
WINDOWS = 392
BEGIN = 1

# Path; data inputs (name, dims, scale); states (input, dims, output); constants.
STREAMS = [
    ("audio/dtln_1.onnx", [("input_2", (1, 1, 257), 1.0)], [("input_3", (1, 2, 128, 2), "tf_op_layer_stack_2")], {}),
    ("audio/dtln_2.onnx", [("input_4", (1, 1, 512), 1.0)], [("input_5", (1, 2, 128, 2), "tf_op_layer_stack_5")], {}),
    ("audio/gtcrn_simple.onnx", [("mix", (1, 257, 1, 2), 1.0)],
     [("conv_cache", (2, 1, 16, 16, 33), "conv_cache_out"), ("tra_cache", (2, 3, 1, 1, 16), "tra_cache_out"),
      ("inter_cache", (2, 1, 33, 16), "inter_cache_out")], {}),
    ("audio/silero_vad_op18_ifless.onnx", [("input", (1, 576), 0.25)], [("state", (2, 1, 128), "stateN")],
     {"sr": np.array(16000, np.int64)}),
]


def thinned(values):
    flat = values.reshape(-1)
    return flat if flat.size <= 4096 else flat[::37]


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def stream(path, data, states, constants):
    s = session(path)
    names = [o.name for o in s.get_outputs()]
    feeds = {name: np.zeros(dims, np.float32) for name, dims, _ in states} | constants
    steps = []
    for step in range(STEPS):
        for name, dims, scale in data:
            feeds[name] = random(*dims)(None, None)[step] * np.float32(scale)
        steps.append(s.run(names, feeds))
        for name, _, output in states:
            feeds[name] = steps[-1][names.index(output)]
    return {f"output_{name}": np.stack([thinned(r[i]) for r in steps]) for i, name in enumerate(names)}


def stories(path, tokens):
    s = session(path)
    text = np.fromfile(tokens, "<u2").astype(np.int64)[:WINDOWS * 128].reshape(WINDOWS, 128)
    begin = np.full((WINDOWS, 1), BEGIN, np.int64)
    windows = np.concatenate([begin, text[:, :-1]], 1)
    nll = np.zeros(WINDOWS)
    for i in range(WINDOWS):
        logits = s.run(None, {"tokens": windows[i:i + 1]})[0][0].astype(np.float64)
        top = logits.max(-1, keepdims=True)
        log_sum = (np.log(np.exp(logits - top).sum(-1, keepdims=True)) + top)[:, 0]
        nll[i] = (log_sum - logits[np.arange(128), text[i]]).sum()
        if i == 0:
            sample = logits.astype(np.float32).reshape(-1)[::37].copy()
    print(f"perplexity {np.exp(nll.sum() / (WINDOWS * 128)):.4f}")
    return {"nll": nll, "logits": sample}


def main():
    root = Path(__file__).resolve().parents[2]
    p = argparse.ArgumentParser(description="write expected/<model>.npz of sequence models with ONNX Runtime")
    p.add_argument("--data", type=Path, default=Path(os.environ.get("LATHE_DATA", root / "../shared/data")))
    p.add_argument("--output", type=Path, default=Path(__file__).resolve().parent / "expected")
    args = p.parse_args()

    results = {Path(path).stem: stream(args.data / "models" / path, *rest) for path, *rest in STREAMS}
    results["stories260K_s128"] = stories(args.data / "models/transformer/stories260K_s128.onnx",
                                          args.data / "datasets/tinystories/tokens_tok512.u16")
    for stem, arrays in results.items():
        target = args.output / f"{stem}.npz"
        np.savez_compressed(target, **arrays)
        print(f"{stem}: {', '.join(f'{k}{list(v.shape)}' for k, v in arrays.items())}, {target.stat().st_size} bytes")
    print(f"onnxruntime {ort.__version__}, numpy {np.__version__}", file=sys.stderr)


if __name__ == "__main__":
    main()
