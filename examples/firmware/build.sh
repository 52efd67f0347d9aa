#!/usr/bin/env bash
# Build firmware that runs an embedded model, and run it under QEMU.
#
#   examples/firmware/build.sh DIR [--target cortex-m4|aarch64|host] [--no-run]
#
# cortex-m4 (the default) is bare metal; aarch64 and host are the same program on Linux. DIR holds
# model.h, model.cc and model_cases.h as `lathe embed --with-cases` writes them; model.elf and the objects go there too.
# For aarch64 the NEON kernels are compiled as well: those that `lathe embed --kernels neon` (or dotprod) chose are linked.
# QEMU_CPU names the processor that QEMU is for aarch64: cortex-a53, unless you say otherwise.
# Exit status: 0 if every output equals the host's, 77 if a tool is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# The arithmetic is defined operation by operation, so nothing may be contracted into fused multiply-add.
flags=(-std=c++20 -Wall -Wextra -ffp-contract=off -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-unwind-tables
  -fno-asynchronous-unwind-tables -ffunction-sections -fdata-sections -ffreestanding -I. -Iinclude)
target=cortex-m4 run=1 dir=

while (($#)); do
  case $1 in
    --target) target=$2; shift ;;
    --no-run) run=0 ;;
    -h | --help) sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) dir=$1 ;;
  esac
  shift
done
case $target in
  cortex-m4)
    prefix=arm-none-eabi- board=examples/firmware
    cpu=(-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16)
    link=(-nostartfiles --specs=nano.specs -T examples/firmware/mps2-an386.ld)
    qemu=(qemu-system-arm -M mps2-an386 -display none -serial none -monitor none
      -semihosting-config enable=on,target=native -kernel) ;;
  aarch64)
    prefix=aarch64-linux-gnu- board=examples/firmware/linux cpu=() link=(-static) qemu=(qemu-aarch64 -cpu "${QEMU_CPU:-cortex-a53}") ;;
  host) prefix= board=examples/firmware/linux cpu=() link=() qemu=(env) ;;
  *) printf 'firmware: unknown target %s\n' "$target" >&2; exit 2 ;;
esac
[[ -f ${dir:?name the folder with model.cc}/model.cc ]] || { printf 'firmware: %s/model.cc is missing\n' "$dir" >&2; exit 2; }
for tool in "${prefix}g++" "${qemu[0]}"; do
  command -v "$tool" >/dev/null && continue
  printf 'firmware: %s is missing (tools/setup.sh --cross installs it)\n' "$tool" >&2
  exit 77
done

# Kernels are compiled for speed, the rest for size. The list of all kernels and the table of all operators stay out: the
# model names what it needs.
sources=(runtime/executor.cc kernels/*/reference.cc)
for source in runtime/exec/*.cc; do
  [[ $source == */exec_table.cc ]] || sources+=("$source")
done
mkdir -p "$dir/core"
objects=()
[[ $target == aarch64 ]] && sources+=(kernels/*/arm_*.cc)
for source in "${sources[@]}"; do
  object=$dir/core/$(tr / _ <<<"${source%.cc}").o
  objects+=("$object")
  optimize=-Os
  [[ $source == kernels/* ]] && optimize=-O2
  isa=-g0
  [[ $source == */arm_dotprod.cc ]] && isa=-march=armv8.2-a+dotprod
  printf '%s\0' "$optimize" "$isa" "$source" "$object"
done >"$dir/core/list"
xargs -0 -n 4 -P "$(nproc)" bash -c '
  set -e
  optimize=$1 isa=$2 source=$3 object=$4; shift 4
  '"${prefix}g++ ${cpu[*]} ${flags[*]}"' "$optimize" "$isa" -c "$source" -o "$object"' compile <"$dir/core/list"
rm -f "$dir/libcore.a"
"${prefix}ar" rcs "$dir/libcore.a" "${objects[@]}"

"${prefix}g++" "${cpu[@]}" "${flags[@]}" -Os -I"$dir" -I"$board" -Wl,--gc-sections "${link[@]}" \
  "$dir/model.cc" examples/firmware/main.cc "$board/startup.cc" "$dir/libcore.a" -o "$dir/model.elf"
"${prefix}size" "$dir/model.elf"
((run)) || exit 0
timeout 300 "${qemu[@]}" "$dir/model.elf"
