#!/usr/bin/env bash
# Build Lathe and run its tests; the last line is 'N passed, N failed, N skipped'.
#
#   tools/test.sh [--sanitize] [--cross] [--clang]
#
#   (none)      release build with g++; the suite uncapped and under each LATHE_ISA
#   --sanitize  instead: AddressSanitizer and UndefinedBehaviorSanitizer
#   --cross     instead: the core for aarch64, on a processor with and on one without dot
#               products, and for Cortex-M4, and models that the host quantized on all of
#               them, under QEMU; installs their toolchains
#   --clang     instead: release build with clang++
#
# Options add up. Exit status 0 only if something ran and nothing failed. Real
# models and data are found through LATHE_DATA (default ../shared/data beside the
# repository); without them the tests that need them are skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export LATHE_DATA="${LATHE_DATA:-$PWD/../shared/data}"

totals=$(mktemp)
trap 'rm -f "$totals"' EXIT

# configure DIR MESON-OPTIONS...: sets a build directory up; afterwards ninja keeps it current. One that this script set
# up with other options is made anew, one that somebody else set up is used as it is.
configure() {
  local dir=$1 stamp=$1/configured-by-test-sh now
  shift
  now=$({ printf '%s\n' "${CXX:-}" "$@"; cat tests/cross/*.ini; } | cksum)
  if [[ -f $dir/build.ninja && (! -f $stamp || $(<"$stamp") == "$now") ]]; then return 0; fi
  rm -rf "$dir"
  meson setup "$dir" "$@" && printf '%s\n' "$now" >"$stamp"
}

# leg LABEL DIR 'RUN_ALL-OPTIONS' MESON-OPTIONS...: builds and tests one configuration, and always leaves a line of totals.
leg() {
  local label=$1 dir=$2 run_options=$3
  shift 3
  printf '== %s: building in %s\n' "$label" "$dir"
  if ! { configure "$dir" "$@" && ninja -C "$dir"; }; then
    printf '== %s: the build failed\n' "$label"
    printf '0 1 0\n' >>"$totals"
    return
  fi
  local counted
  counted=$(wc -l <"$totals")
  # shellcheck disable=SC2086
  python3 tests/run_all.py "$dir" --label "$label" --totals "$totals" $run_options || true
  (($(wc -l <"$totals") > counted)) || printf '0 1 0\n' >>"$totals"
}

plain() { leg 'g++ release' build '' --buildtype=release; }

clang() {
  CC=clang CXX=clang++ leg 'clang release' build-clang --uncapped-only --buildtype=release
}

# Warnings are errors in the other builds; the instrumented code makes g++ warn falsely. Without optimization (but of the
# kernels) and with line tables alone it compiles in a fraction of the time. Accuracy on real models
# takes minutes here and shows nothing that other tests do not, nor do models on emulated processors.
sanitize() {
  export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  leg 'sanitizers' build-sanitize '--uncapped-only --timeout-multiplier 30 --leave-out models --leave-out firmware' \
    -Doptimization=0 -Ddebug=false '-Dcpp_args=-g1 -fno-omit-frame-pointer' \
    -Dcpp_link_args=-fuse-ld=gold -Db_sanitize=address,undefined -Db_lundef=false -Dwerror=false -Dbench=disabled -Dexamples=false
}

# cross_leg TARGET LABEL 'RUN_ALL-OPTIONS'
cross_leg() {
  leg "$1$2" "build-$1" "--uncapped-only --timeout-multiplier 30 $3" \
    --buildtype=release --cross-file "tests/cross/$1.ini" -Dcore_only=true
}

# The core's tests on an Arm with dot products, and its kernels once more on one without.
cross() {
  QEMU_CPU=neoverse-n1 LATHE_EXPECT_ISA=dotprod cross_leg aarch64 ' with dot products' ''
  QEMU_CPU=cortex-a53 LATHE_EXPECT_ISA=neon cross_leg aarch64 ' without dot products' '--suite kernels'
  cross_leg cortex-m4 '' ''
  leg 'models on other processors' build '--uncapped-only --suite firmware' --buildtype=release
}

main() {
  local legs=() setup=() name
  while (($#)); do
    case $1 in
      --sanitize) legs+=(sanitize) ;;
      --cross) legs+=(cross) setup+=(--cross) ;;
      --clang) legs+=(clang) setup+=(--clang) ;;
      -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "tools/test.sh"; return 0 ;;
      *) printf 'test: unknown option %s (see --help)\n' "$1" >&2; return 2 ;;
    esac
    shift
  done
  tools/setup.sh "${setup[@]}" || { printf '0 passed, 1 failed\n'; return 1; }
  tools/setup.sh --browser || printf 'test: no browser; what looks at pages is skipped\n'
  for name in "${legs[@]:-plain}"; do
    "$name"
  done
  awk '{p += $1; f += $2; s += $3}
       END {printf "%d passed, %d failed, %d skipped\n", p, f, s; exit p == 0 || f > 0}' "$totals"
}

main "$@"
