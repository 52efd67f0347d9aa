#!/usr/bin/env python3
"""Zero a share of the filters of a CIFAR ResNet in its ONNX file, as a tool that masks weights and leaves the shapes would.

    oracle/bin/pip install numpy onnx
    oracle/bin/python tests/oracle/zero_filters.py $LATHE_DATA/models/cifar10_resnet/resnet20_cifar10.onnx -o zeroed.onnx
    lathe prune zeroed.onnx --zeros -o smaller.lathe

In every convolution the same share of filters becomes zero, with the scale and bias of the batch normalization behind it. The first
convolution of a block chooses its own; those that add to a shortcut choose together per stage, because a channel is unused only if
nothing adds to it. A shortcut into the next stage pads channels on both sides (option A of He et al. 2015), so that channel c goes on as
c + a quarter of the new width. Which filters go is random, by --seed. Prints how many there are.
"""

import argparse
import re

import numpy as np
import onnx
from onnx import numpy_helper


def widths_of(arrays):
    """Channels of each stage, by number."""
    return {int(m[1]): a.shape[0] for name, a in arrays.items() if (m := re.fullmatch(r"layer(\d)\.0\.conv2\.weight", name))}


def trunk_choices(widths, ratio, rng):
    """Channels that go from each stage's sum; those of a stage go on into the next."""
    chosen, before = {}, np.array([], dtype=int)
    for stage, width in sorted(widths.items()):
        shift = width // 4 if stage > min(widths) else 0
        reached = set(range(shift, shift + width // 2)) if shift else set()
        free = np.array([c for c in range(width) if c not in reached])
        forced = before + shift
        more = rng.choice(free, round(ratio * width) - len(forced), replace=False)
        chosen[stage] = before = np.sort(np.concatenate([forced, more]))
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--ratio", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    model = onnx.load(args.model)
    arrays = {t.name: numpy_helper.to_array(t).copy() for t in model.graph.initializer}
    rng = np.random.default_rng(args.seed)
    trunk = trunk_choices(widths_of(arrays), args.ratio, rng)
    zeroed = total = 0
    for name in [n for n in arrays if re.search(r"conv\d\.weight$", n)]:
        stage = re.match(r"layer(\d)", name)
        if name.endswith("conv2.weight") or stage is None:
            goes = trunk[int(stage[1]) if stage else min(trunk)]
        else:
            goes = rng.choice(arrays[name].shape[0], round(args.ratio * arrays[name].shape[0]), replace=False)
        norm = name.replace("conv", "bn")
        for part in (name, norm, norm.replace("weight", "bias")):
            arrays[part][goes] = 0
        zeroed, total = zeroed + len(goes), total + arrays[name].shape[0]
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    onnx.save(model, args.output)
    print(f"{zeroed} of {total} filters are zero")


if __name__ == "__main__":
    main()
