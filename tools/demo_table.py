"""Prints the demo's result table from the JSON files that its steps wrote. Usage: demo_table.py FOLDER MODEL.onnx"""
import json
import os
import sys


def main():
    folder, onnx = sys.argv[1], sys.argv[2]

    def load(name):
        with open(os.path.join(folder, name)) as f:
            return json.load(f)

    evals = [load("float.eval.json"), load("int8.eval.json")]
    benches = [load("float.bench.json"), load("int8.bench.json")]
    check = load("check.json")
    sizes = [os.path.getsize(onnx), os.path.getsize(os.path.join(folder, "int8.lathe"))]
    rows = [("", "float", "INT8", "INT8 / float")]
    rows.append(("file, bytes", *(f"{s:,}" for s in sizes), f"{sizes[1] / sizes[0]:.3f}"))
    accuracy = [100 * e["accuracy"] for e in evals]
    rows.append(("accuracy, %", *(f"{a:.2f}" for a in accuracy), f"{accuracy[1] - accuracy[0]:+.2f} points"))
    for key in ("p50_us", "p99_us"):
        v = [b[key] for b in benches]
        rows.append((f"{key[:3]} latency, us", *(f"{x:.1f}" for x in v), f"{v[1] / v[0]:.2f}"))
    widths = [max(len(r[i]) for r in rows) for i in range(4)]
    print(f"\nFashion-MNIST, {evals[0]['samples']:,} test images; {benches[0]['threads']} thread, batch {benches[0]['batch']}, {benches[1]['isa']}")
    for r in rows:
        print("  " + r[0].ljust(widths[0]) + "  " + "  ".join(r[i].rjust(widths[i]) for i in range(1, 4)))
    print(f"  same answer on {100 * check['agreement']:.2f} % of the images, SQNR {check['sqnr_db']:.1f} dB")


main()
