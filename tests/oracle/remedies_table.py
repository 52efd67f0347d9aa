#!/usr/bin/env python3
"""What each remedy of `lathe quantize` recovers on a network that plain post-training quantization breaks.

    python3 tests/oracle/remedies_table.py --lathe build/tools/lathe mobilenet.onnx examples/fashion/fashion.toml

The network is tests/oracle/make_mobilenet.py's; any other works. Prints a table in Markdown: accuracy on the test split, its change against
float in points, and the seconds that quantizing took.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

ROWS = [
    "",
    "--per-tensor",
    "--per-tensor --weight-mse",
    "--per-tensor --bias-correction=analytic",
    "--per-tensor --bias-correction",
    "--per-tensor --adaround",
    "--per-tensor --equalize",
    "--per-tensor --equalize --observer auto",
    "--per-tensor --equalize --adaround --bias-correction",
    "--per-tensor --equalize --adaround --bias-correction --observer auto",
]


def accuracy(lathe, model, data):
    out = subprocess.run([lathe, "eval", model, "--data", data, "--json"], check=True, capture_output=True, text=True).stdout
    return 100 * json.loads(out)["accuracy"]


def main():
    p = argparse.ArgumentParser(description="accuracy after each remedy")
    p.add_argument("--lathe", required=True)
    p.add_argument("model")
    p.add_argument("data")
    args = p.parse_args()
    reference = accuracy(args.lathe, args.model, args.data)
    print("| quantized with | accuracy, % | against float, points | s |\n|---|---|---|---|")
    print(f"| (float) | {reference:.2f} | | |")
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "q.lathe")
        for row in ROWS:
            start = time.monotonic()
            subprocess.run([args.lathe, "quantize", args.model, "--data", args.data, *row.split(), "-o", out], check=True, capture_output=True)
            seconds = time.monotonic() - start
            value = accuracy(args.lathe, out, args.data)
            print(f"| `{row or '(defaults: per channel)'}` | {value:.2f} | {value - reference:+.2f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
