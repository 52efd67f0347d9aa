#!/usr/bin/env python3
"""Times training steps of Lathe and PyTorch (CPU) on the same networks, in turn: training.py FOLDER [options]

ResNet-20 of widths 16/32/64 at 28x28x1 and 32x32x3: forward, cross-entropy, backward and SGD with momentum and weight decay. The
networks are exported to FOLDER as ONNX files, batch normalization unfolded, which Lathe imports. Every measurement is a process of its
own; the two libraries take turns, a figure is the median of the rounds' medians, and ratios are Lathe's time over PyTorch's better
memory format (channels first or last).

Needs torch and onnx.
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

NETWORKS = {"resnet20_28": (1, 28), "resnet20_32": (3, 32)}  # channels, size


def resnet20(channels):
    import torch
    from torch import nn

    def conv(ic, oc, kernel, stride):
        return nn.Sequential(nn.Conv2d(ic, oc, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(oc))

    class Block(nn.Module):
        def __init__(self, ic, oc, stride):
            super().__init__()
            self.first, self.second = conv(ic, oc, 3, stride), conv(oc, oc, 3, 1)
            self.shortcut = nn.Identity() if ic == oc else conv(ic, oc, 1, stride)

        def forward(self, x):
            return torch.relu_(self.second(torch.relu_(self.first(x))) + self.shortcut(x))

    widths = [16] * 3 + [32] * 3 + [64] * 3
    blocks = [Block(a, b, 1 if a == b else 2) for a, b in zip([16] + widths, widths)]
    return nn.Sequential(conv(channels, 16, 3, 1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def export(folder):
    import torch
    for name, (channels, size) in NETWORKS.items():
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        torch.manual_seed(1)
        net = resnet20(channels).eval()
        torch.onnx.export(net, (torch.zeros(1, channels, size, size),), path, dynamo=False, opset_version=17,
                          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, input_names=["x"],
                          output_names=["logits"], dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}})


def torch_worker(o):
    """One measurement of PyTorch, in this process; prints what training_step prints."""
    import torch
    torch.set_num_threads(o.threads[0])
    torch.manual_seed(1)
    channels, size = NETWORKS[o.worker]
    layout = torch.channels_last if o.layout == "last" else torch.contiguous_format
    net = resnet20(channels).to(memory_format=layout).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    loss_of = torch.nn.CrossEntropyLoss()
    x = torch.rand(o.batch, channels, size, size).mul(2).sub(1).to(memory_format=layout)
    y = torch.randint(0, 10, (o.batch,))
    times = []
    for _ in range(o.steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        optimizer.step()
        times.append((time.perf_counter() - begin) * 1e3)
    print(json.dumps({"ms": statistics.median(times[2:]), "min_ms": min(times[2:])}))


def ask(command, env=None):
    run = subprocess.run([str(c) for c in command], capture_output=True, text=True, env=os.environ | (env or {}))
    if run.returncode != 0:
        sys.exit(f"training: {command[0]}: {(run.stderr.strip().splitlines() or ['failed'])[-1]}")
    return json.loads(run.stdout.splitlines()[-1])


def measure(o, name, threads):
    """Medians by contestant, libraries in turn."""
    worker = [sys.executable, __file__, o.folder, "--worker", name, "--threads", threads, "--batch", o.batch, "--steps", o.steps]
    commands = {"lathe": [o.build / "bench" / "training_step", o.folder / f"{name}.onnx", "--batch", o.batch, "--threads", threads,
                          "--steps", o.steps],
                "torch first": worker + ["--layout", "first"], "torch last": worker + ["--layout", "last"]}
    times = {label: [] for label in commands}
    for _ in range(o.rounds):
        for label, command in commands.items():
            times[label].append(ask(command)["ms"])
    return {label: statistics.median(t) for label, t in times.items()}


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--build", type=pathlib.Path, default="build", help="build directory (default: build)")
    p.add_argument("--nets", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    p.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--steps", type=int, default=10, help="steps of a measurement (default: 10)")
    p.add_argument("--rounds", type=int, default=5, help="turns of every library (default: 5)")
    p.add_argument("--json", type=pathlib.Path, help="also write all times to this file")
    p.add_argument("--worker", choices=NETWORKS, help=argparse.SUPPRESS)
    p.add_argument("--layout", choices=["first", "last"], default="first", help=argparse.SUPPRESS)
    o = p.parse_args()
    o.build, o.folder = o.build.resolve(), o.folder.resolve()
    return o


def main():
    o = parse()
    if o.worker:
        return torch_worker(o)
    import torch
    o.folder.mkdir(parents=True, exist_ok=True)
    export(o.folder)
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    print(f"{cpu[1] if cpu else 'unknown CPU'}; torch {torch.__version__}; batch {o.batch}; medians of {o.rounds} rounds of {o.steps} steps, "
          "in turn; milliseconds per step\n")
    print("| network | threads | lathe | torch, channels first | torch, channels last | lathe / best torch |\n|---|---|---|---|---|---|")
    rows = []
    for name in o.nets:
        for threads in o.threads:
            ms = measure(o, name, threads)
            best = min(ms["torch first"], ms["torch last"])
            rows.append({"network": name, "threads": threads, "batch": o.batch, "ms": ms, "ratio": ms["lathe"] / best})
            print(f"| {name} | {threads} | {ms['lathe']:.1f} | {ms['torch first']:.1f} | {ms['torch last']:.1f} | "
                  f"{ms['lathe'] / best:.2f} |", flush=True)
    if o.json:
        o.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
