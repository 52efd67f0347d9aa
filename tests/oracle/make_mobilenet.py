#!/usr/bin/env python3
"""Train a small MobileNet on Fashion-MNIST: a network that INT8 with one weight scale per tensor breaks.

    oracle/bin/pip install torch numpy onnx
    oracle/bin/python tests/oracle/make_mobilenet.py /usr/share/datasets/fashion-mnist -o mobilenet.onnx

A 3x3 stem and blocks of a depthwise 3x3 and a pointwise 1x1 convolution, each with batch norm and ReLU, as Howard et al. (2017).
Data, augmentation, schedule and the ONNX writer are those of examples/fashion/train.py.

Nothing is done to the network after training. The one thing that is not everyday is where it starts: the scales of its batch norms are
drawn from a log-normal distribution (--spread is its deviation) instead of being 1. Training keeps much of that, so folding leaves
channels of one layer whose weights differ by orders of magnitude, as MobileNets trained for long on ImageNet have them (Sheng et al.
2018, "A Quantization-Friendly Separable Convolution for MobileNets"). The log says how large the spread is.
"""

import argparse
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "fashion"))
from train import OnnxWriter, accuracy, finish, load, train  # noqa: E402

STEM = 16
BLOCKS = ((24, 1), (32, 2), (48, 1), (64, 2), (64, 1))  # channels, stride


class ConvBn(nn.Module):
    def __init__(self, ic, oc, kernel, stride=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(ic, oc, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(oc)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))

    def folded(self):
        """The weights that an importer computes with."""
        factor = self.bn.weight / torch.sqrt(self.bn.running_var + self.bn.eps)
        return self.conv.weight * factor[:, None, None, None]


class MobileNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, ic = [("stem", ConvBn(1, STEM, 3, 2))], STEM
        for i, (oc, stride) in enumerate(BLOCKS):
            layers += [(f"block{i + 1}.depthwise", ConvBn(ic, ic, 3, stride, ic)), (f"block{i + 1}.pointwise", ConvBn(ic, oc, 1))]
            ic = oc
        self.names = [name for name, _ in layers]
        self.layers = nn.ModuleList(layer for _, layer in layers)
        self.fc = nn.Linear(ic, 10)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.fc(x.mean((2, 3)))


def to_onnx(model):
    w, x = OnnxWriter(), "image"
    for name, layer in zip(model.names, model.layers):
        x = w.relu(f"{name}.relu", w.conv_bn(layer.conv, layer.bn, name, f"{name}.bn", x))
    return finish(w, x, model.fc, "fashion_mobilenet", "lathe tests/oracle/make_mobilenet.py")


def print_spread(model):
    for name, layer in zip(model.names, model.layers):
        reach = layer.folded().abs().amax((1, 2, 3))
        print(f"  {name}: folded channels reach {reach.min():.3g} (median {reach.median():.3g}) to {reach.max():.3g}")


def main():
    p = argparse.ArgumentParser(description="train a MobileNet on Fashion-MNIST and write it as ONNX")
    p.add_argument("data", type=Path, help="folder of the four idx .gz files")
    p.add_argument("-o", "--output", type=Path, default=Path("mobilenet.onnx"))
    p.add_argument("--checkpoint", type=Path, default=Path("mobilenet.pt"))
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--rate", type=float, default=0.1)
    p.add_argument("--decay", type=float, default=5e-5)
    p.add_argument("--spread", type=float, default=1.0)
    p.add_argument("--smoothing", type=float, default=0.0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model = MobileNet()
    with torch.no_grad():
        for layer in model.layers:
            layer.bn.weight.copy_(torch.exp(args.spread * torch.randn_like(layer.bn.weight)))
    print(f"{sum(t.numel() for t in model.parameters())} parameters", flush=True)
    train(model, *load(args.data, "train"), args)
    model.eval()
    args.output.write_bytes(to_onnx(model).SerializeToString())
    print_spread(model)
    print(f"test {accuracy(model, *load(args.data, 't10k')):.4f}, {args.output}: {args.output.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
