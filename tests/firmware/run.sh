#!/usr/bin/env bash
# Firmware gives the host's outputs: run.sh TARGET MAKE_CASE [MODEL.lathe]. Exit status 77 (skipped) without the cross toolchain.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
target=$1 make_case=$2
shift 2
"$make_case" "$dir" "$@"
"$here/../../examples/firmware/build.sh" "$dir" --target "$target"
