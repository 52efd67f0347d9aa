#!/bin/bash
# Builds Lathe and takes a real network through the whole job: import, profile, quantize, evaluate and measure, float beside INT8.
# Works on a fresh Debian 12 as root; data and tools come from Debian's packages, the model is the project's own (examples/fashion/).
set -euo pipefail
cd "$(dirname "$0")/.."

started=$SECONDS
step=0
total=7
say() {
  step=$((step + 1))
  printf '\n[%d/%d] %s   (%d s so far)\n' "$step" "$total" "$1" $((SECONDS - started))
}

out=build/demo
data=examples/fashion/fashion.toml

say 'packages'
tools/setup.sh

say 'build (a release build without -march=native; kernels are picked at run time)'
[ -f build/build.ninja ] || meson setup build --buildtype=release
ninja -C build tools/lathe
lathe=build/tools/lathe
mkdir -p "$out"

say 'import the float ONNX model'
"$lathe" import examples/fashion/fashion_resnet.onnx -o "$out/float.lathe"

say 'profile: which operators cost the time'
"$lathe" profile "$out/float.lathe" --by op

say 'quantize to INT8 with 1,200 calibration images'
"$lathe" quantize "$out/float.lathe" --data "$data" --samples 1200 -o "$out/int8.lathe"

say 'evaluate both on all 10,000 test images, and compare them'
"$lathe" eval "$out/float.lathe" --data "$data" --json > "$out/float.eval.json"
"$lathe" eval "$out/int8.lathe" --data "$data" --json > "$out/int8.eval.json"
"$lathe" check "$out/float.lathe" "$out/int8.lathe" --data "$data" --json > "$out/check.json"

say 'measure whole runs, one thread, batch 1'
"$lathe" bench "$out/float.lathe" --threads 1 --batch 1 --json > "$out/float.bench.json"
"$lathe" bench "$out/int8.lathe" --threads 1 --batch 1 --json > "$out/int8.bench.json"

python3 tools/demo_table.py "$out" examples/fashion/fashion_resnet.onnx
printf '\nwhole demo: %d s\n' $((SECONDS - started))
