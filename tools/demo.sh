#!/bin/bash
# Builds Lathe and takes a real network through the whole job by a recipe: profile, FP16, prune, distil, INT8, each version judged and kept; then rolls back once.
# Works on a fresh Debian 12 as root; data and tools come from Debian's packages, the model is the project's own (examples/fashion/).
set -euo pipefail
cd "$(dirname "$0")/.."

started=$SECONDS
step=0
total=6
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

recipe=examples/fashion/compress.toml
where=(--work "$out/work" --registry "$out/registry")
say 'the plan: what the recipe does, and about how long it takes here'
"$lathe" compress "$recipe" "${where[@]}" --dry-run

say 'compress: profile, FP16, prune a quarter of the channels, distil from the original, INT8; each version judged, measured and registered'
"$lathe" compress "$recipe" "${where[@]}" --report "$out/report.html" -o "$out/small.lathe"

say 'the registry has every version; roll back from the smallest to the original, and forward again'
"$lathe" registry rollback --registry "$out/registry"
"$lathe" registry promote int8-mixed --registry "$out/registry"
"$lathe" registry list --registry "$out/registry"

say 'compare the smallest with the original on all 10,000 test images'
"$lathe" check examples/fashion/fashion_resnet.onnx "$out/small.lathe" --data "$data"

printf '\na page about it: %s/report.html\n' "$out"
printf 'whole demo: %d s\n' $((SECONDS - started))
