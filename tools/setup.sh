#!/usr/bin/env bash
# Install what Lathe needs from Debian 12's own packages.
#
#   tools/setup.sh [--browser] [--cross] [--clang]
#
#   --browser also a browser, in which tests look at pages
#   --cross   also the toolchains and QEMU for aarch64 and Cortex-M
#   --clang   also clang, for a second compiler
#
# Asks nothing, installs only what is missing and may be run again: with nothing
# missing it neither writes nor uses the network. Needs root only to install.
set -euo pipefail

base=(
  g++ meson ninja-build pkg-config python3-minimal
  libeigen3-dev libxsimd-dev doctest-dev libbenchmark-dev
  libflatbuffers-dev flatbuffers-compiler libprotozero-dev libexpected-dev
  libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libspdlog-dev libfmt-dev
  zlib1g-dev libpng-dev libjpeg62-turbo-dev libsndfile1-dev libkissfft-dev libxxhash-dev
  valgrind xz-utils
  dataset-fashion-mnist libonnx-testdata
)
cross=(
  g++-aarch64-linux-gnu qemu-user qemu-user-static
  gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib qemu-system-arm
)
browser=(chromium)
clang=(clang libclang-rt-14-dev)
tries=4

die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

installed() { [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

have_lists() { compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; }

# Shows the lines of apt's output that tell how far it is, and its errors.
apt() {
  LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" \
    </dev/null 2>&1 | { grep --line-buffered -E '^(Need to get|Fetched|Get:|Setting up|[EW]:|Err|dpkg: error)' || true; }
}

# A mirror may fail for a moment, and lists may be old: refresh them and try again.
install() {
  local try
  for ((try = 1; try <= tries; try++)); do
    if ((try > 1)); then
      printf 'setup: that failed; try %d of %d in %d s\n' "$try" "$tries" $((5 * (try - 1)))
      sleep $((5 * (try - 1)))
    fi
    if ((try > 1)) || ! have_lists; then
      printf 'setup: refreshing the package lists\n'
      apt update || continue
    fi
    if apt install -y --no-install-recommends "$@"; then return 0; fi
  done
  return 1
}

main() {
  local want=("${base[@]}") missing=() package
  while (($#)); do
    case $1 in
      --browser) want+=("${browser[@]}") ;;
      --cross) want+=("${cross[@]}") ;;
      --clang) want+=("${clang[@]}") ;;
      -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; return 0 ;;
      *) printf 'setup: unknown option %s (see --help)\n' "$1" >&2; return 2 ;;
    esac
    shift
  done
  command -v dpkg-query >/dev/null || die "this is not Debian; install the equivalents of: ${want[*]}"

  for package in "${want[@]}"; do
    installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    printf 'setup: all %d packages are installed\n' "${#want[@]}"
    return 0
  fi
  if ((EUID != 0)); then
    die "missing packages; run as root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
  fi
  printf 'setup: installing %d of %d packages: %s\n' "${#missing[@]}" "${#want[@]}" "${missing[*]}"
  install "${missing[@]}" || die "could not install: ${missing[*]}"
  for package in "${missing[@]}"; do
    installed "$package" || die "$package is still not installed"
  done
  printf 'setup: installed %d packages\n' "${#missing[@]}"
}

main "$@"
