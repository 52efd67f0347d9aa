#!/usr/bin/env bash
# Firmware gives the host's outputs: run.sh MAKE_CASE [MODEL.lathe]. Exit status 77 (skipped) without the cross toolchain.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
make_case=$1
shift
"$make_case" "$dir" "$@"
"$here/../../examples/firmware/build.sh" "$dir"
