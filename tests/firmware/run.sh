#!/usr/bin/env bash
# Firmware gives the host's outputs: run.sh TARGET KERNELS MAKE_CASE [MODEL.lathe]. Exit status 77 (skipped) without the cross toolchain.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
target=$1 kernels=$2 make_case=$3
shift 3
"$make_case" "$dir" "$kernels" "$@"
[[ $kernels != dotprod ]] || export QEMU_CPU=neoverse-n1
"$here/../../examples/firmware/build.sh" "$dir" --target "$target"
