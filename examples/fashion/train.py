#!/usr/bin/env python3
"""Train the Fashion-MNIST example network and write it as ONNX.

Users never run this: fashion_resnet.onnx, its result, is committed. It is kept
so that the model can be made again and its provenance checked.

  needs     PyTorch, NumPy and onnx (Debian: python3-torch python3-onnx)
  input     the four idx .gz files of Debian's dataset-fashion-mnist
  network   ResNet-8 with batch norm, channels 16/32/64, N x 1 x 28 x 28
  input to the network: (v / 255 - MEAN) / STD of the raw byte v

The last 5,000 training images are the validation split, the other 55,000 train.
The test images are read once, at the end, and choose nothing. Three things come
out of a run: the ONNX file, a checkpoint (--checkpoint) and the log on stdout.
"""

import argparse
import gzip
import struct
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn
from torch.nn import functional as F

MEAN, STD = 0.2860, 0.3530  # of the 60,000 training images, v / 255
VALIDATION = 5000
WIDTHS = (16, 32, 64)
CLASSES = 10
OPSET = 13


# --- data ---------------------------------------------------------------------


def read_idx(path):
    """A gzipped idx file of unsigned bytes as an array of its own shape."""
    raw = gzip.decompress(path.read_bytes())
    zero, dtype, rank = struct.unpack_from(">HBB", raw)
    if zero != 0 or dtype != 0x08:
        raise ValueError(f"{path}: not an idx file of unsigned bytes")
    dims = struct.unpack_from(f">{rank}I", raw, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(dims)


def load(folder, prefix):
    """Images as normalised float [n, 1, 28, 28], labels as int64 [n]."""
    images = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
    x = (torch.from_numpy(images.astype(np.float32))[:, None] / 255 - MEAN) / STD
    return x, torch.from_numpy(labels.astype(np.int64))


def augment(x, pad=2):
    """Mirror half of the batch, then shift each image by up to `pad` pixels."""
    n, _, h, w = x.shape
    flip = torch.rand(n) < 0.5
    x = torch.where(flip[:, None, None, None], x.flip(3), x)
    x = F.pad(x, (pad,) * 4, value=-MEAN / STD)  # the value of a black pixel
    dy = torch.randint(0, 2 * pad + 1, (n, 1)) + torch.arange(h)
    dx = torch.randint(0, 2 * pad + 1, (n, 1)) + torch.arange(w)
    rows = torch.arange(n)[:, None, None]
    return x[rows, 0, dy[:, :, None], dx[:, None, :]][:, None]


# --- network ------------------------------------------------------------------


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut; 1x1 with BN where the shape changes."""

    def __init__(self, ic, oc, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(ic, oc, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(oc)
        self.conv2 = nn.Conv2d(oc, oc, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(oc)
        self.shortcut = None
        if stride != 1 or ic != oc:
            self.shortcut = nn.Sequential(
                nn.Conv2d(ic, oc, 1, stride, bias=False), nn.BatchNorm2d(oc))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class FashionResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, WIDTHS[0], 3, 1, 1, bias=False), nn.BatchNorm2d(WIDTHS[0]))
        ins = (WIDTHS[0],) + WIDTHS[:-1]
        self.stages = nn.ModuleList(
            Block(ic, oc, 1 if i == 0 else 2) for i, (ic, oc) in enumerate(zip(ins, WIDTHS)))
        self.fc = nn.Linear(WIDTHS[-1], CLASSES)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


# --- training -----------------------------------------------------------------


def accuracy(model, x, labels):
    model.eval()
    with torch.no_grad():
        hits = sum((model(a).argmax(1) == b).sum().item()
                   for a, b in zip(x.split(500), labels.split(500)))
    return hits / len(labels)


def train(model, x, labels, args):
    train_x, val_x = x[:-VALIDATION], x[-VALIDATION:]
    train_y, val_y = labels[:-VALIDATION], labels[-VALIDATION:]
    steps = len(train_x) // args.batch
    weights = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]  # BN and bias: no decay
    optimiser = torch.optim.SGD(
        [{"params": weights, "weight_decay": args.decay}, {"params": others}],
        lr=args.rate, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, args.rate, total_steps=steps * args.epochs, pct_start=0.2,
        cycle_momentum=False, div_factor=10, final_div_factor=1000)
    start = time.monotonic()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        order = torch.randperm(len(train_x))
        for step in range(steps):
            pick = order[step * args.batch:(step + 1) * args.batch]
            loss = F.cross_entropy(model(augment(train_x[pick])), train_y[pick],
                                   label_smoothing=args.smoothing)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
            if step % 100 == 0:
                print(f"  {step}/{steps} {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
        print(f"epoch {epoch + 1}/{args.epochs}: loss {total / steps:.4f}, "
              f"val {accuracy(model, val_x, val_y):.4f}, {time.monotonic() - start:.0f} s", flush=True)
        torch.save(model.state_dict(), args.checkpoint)


# --- export -------------------------------------------------------------------


class OnnxWriter:
    """Collects nodes and initializers; every node is named after its module."""

    def __init__(self):
        self.nodes, self.tensors = [], []

    def constant(self, name, tensor):
        self.tensors.append(numpy_helper.from_array(
            np.ascontiguousarray(tensor.detach().numpy(), np.float32), name))
        return name

    def node(self, op, name, inputs, output=None, **attributes):
        output = output or f"{name}.out"
        self.nodes.append(helper.make_node(op, inputs, [output], name=name, **attributes))
        return output

    def conv_bn(self, conv, bn, conv_name, bn_name, x):
        (kh, kw), pad = conv.kernel_size, list(conv.padding)
        y = self.node("Conv", conv_name, [x, self.constant(f"{conv_name}.weight", conv.weight)],
                      kernel_shape=[kh, kw], strides=list(conv.stride), pads=pad + pad,
                      dilations=[1, 1], group=conv.groups)
        names = [self.constant(f"{bn_name}.{key}", tensor) for key, tensor in (
            ("scale", bn.weight), ("bias", bn.bias), ("mean", bn.running_mean), ("var", bn.running_var))]
        return self.node("BatchNormalization", bn_name, [y] + names, epsilon=float(bn.eps))

    def relu(self, name, x):
        return self.node("Relu", name, [x])


def to_onnx(model):
    """BN stays a node; batch is the symbol N. Written by hand, not traced."""
    w = OnnxWriter()
    x = w.relu("stem.relu", w.conv_bn(model.stem[0], model.stem[1], "stem.conv", "stem.bn", "image"))
    for i, block in enumerate(model.stages):
        at = f"stage{i + 1}"
        y = w.relu(f"{at}.relu1", w.conv_bn(block.conv1, block.bn1, f"{at}.conv1", f"{at}.bn1", x))
        y = w.conv_bn(block.conv2, block.bn2, f"{at}.conv2", f"{at}.bn2", y)
        if block.shortcut is not None:
            x = w.conv_bn(block.shortcut[0], block.shortcut[1],
                          f"{at}.shortcut.conv", f"{at}.shortcut.bn", x)
        x = w.relu(f"{at}.relu2", w.node("Add", f"{at}.add", [y, x]))
    return finish(w, x, model.fc, "fashion_resnet", "lathe examples/fashion/train.py")


def finish(w, x, fc, name, producer):
    """Global average pooling, the classifier and the model around them."""
    x = w.node("GlobalAveragePool", "pool", [x])
    x = w.node("Flatten", "flatten", [x], axis=1)
    w.node("Gemm", "fc", [x, w.constant("fc.weight", fc.weight),
                          w.constant("fc.bias", fc.bias)], "logits", transB=1)
    graph = helper.make_graph(
        w.nodes, name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 28, 28])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])], w.tensors)
    proto = helper.make_model(graph, producer_name=producer,
                              opset_imports=[helper.make_opsetid("", OPSET)])
    proto.ir_version = 7  # the IR version of opset 13
    onnx.checker.check_model(proto, full_check=True)
    return proto


def count_macs(model):
    """Multiply-accumulates of convolutions and the classifier for one image."""
    total = 0

    def hook(module, _, out):
        nonlocal total
        total += module.weight[0].numel() * out[0].numel()

    handles = [m.register_forward_hook(hook) for m in model.modules()
               if isinstance(m, (nn.Conv2d, nn.Linear))]
    model.eval()
    with torch.no_grad():
        model(torch.zeros(1, 1, 28, 28))
    for handle in handles:
        handle.remove()
    return total


def main():
    p = argparse.ArgumentParser(description="train the Fashion-MNIST example and write it as ONNX")
    p.add_argument("data", type=Path, help="folder of the four idx .gz files")
    p.add_argument("-o", "--output", type=Path, default=Path("fashion_resnet.onnx"))
    p.add_argument("--checkpoint", type=Path, default=Path("fashion_resnet.pt"))
    p.add_argument("--resume", type=Path, help="only export and evaluate this checkpoint")
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--rate", type=float, default=0.15)
    p.add_argument("--decay", type=float, default=5e-4)
    p.add_argument("--smoothing", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    model = FashionResNet()
    parameters = sum(t.numel() for t in model.parameters())
    print(f"{parameters} parameters, {count_macs(model) / 1e6:.2f} MMAC", flush=True)
    if args.resume:
        model.load_state_dict(torch.load(args.resume))
    else:
        train(model, *load(args.data, "train"), args)
    model.eval()
    args.output.write_bytes(to_onnx(model).SerializeToString())
    print(f"test {accuracy(model, *load(args.data, 't10k')):.4f}, "
          f"{args.output}: {args.output.stat().st_size} bytes", flush=True)


if __name__ == "__main__":
    main()
