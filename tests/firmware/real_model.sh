#!/usr/bin/env bash
# ResNet-20 in INT8 on another processor gives the host's outputs: real_model.sh TARGET KERNELS LATHE. Exit status 77 (skipped) without the data or the toolchain.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export LATHE_DATA=${LATHE_DATA:-$root/../shared/data}
target=$1 kernels=$2 lathe=$3
model=$LATHE_DATA/models/cifar10_resnet/resnet20_cifar10.onnx
[[ -f $model ]] || { printf '[skipped] resnet20 on %s: no data\n' "$target"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$lathe" quantize "$model" --data "$root/tests/datasets/cifar10.toml" --samples 50 -o "$dir/int8.lathe" >/dev/null
"$lathe" embed "$dir/int8.lathe" -o "$dir" --with-cases --kernels "$kernels"
[[ $kernels != dotprod ]] || export QEMU_CPU=neoverse-n1
"$root/examples/firmware/build.sh" "$dir" --target "$target"
