// Instruction sets as a bit set, and what every kernel list entry has in common.
//
// A kernel's entry is portable and always compiled, so that any host can prepare a plan for any target; only the
// compute function belongs to an ISA, and is null where this build has none. Detection is the host's business
// (runtime/host/cpu.h); nothing here looks at the machine.
#pragma once
#include <stdint.h>

namespace lathe::kernels {

using IsaSet = uint32_t;
inline constexpr IsaSet kIsaScalar = 0;
inline constexpr IsaSet kIsaAvx2 = 1u << 0;      // with FMA and F16C
inline constexpr IsaSet kIsaAvx512 = 1u << 1;    // F, BW, VL, DQ
inline constexpr IsaSet kIsaAvx512Vnni = 1u << 2;
inline constexpr IsaSet kIsaNeon = 1u << 3;
inline constexpr IsaSet kIsaDotprod = 1u << 4;

constexpr bool covers(IsaSet have, IsaSet needs) { return (have & needs) == needs; }

// A named level, as LATHE_ISA and `--isa` take it: every level includes the ones before it on its architecture.
struct IsaLevel {
  const char* name;
  IsaSet set;
};
inline constexpr IsaLevel kIsaLevels[] = {
    {"scalar", kIsaScalar},
    {"avx2", kIsaAvx2},
    {"avx512", kIsaAvx2 | kIsaAvx512},
    {"avx512vnni", kIsaAvx2 | kIsaAvx512 | kIsaAvx512Vnni},
    {"neon", kIsaNeon},
    {"dotprod", kIsaNeon | kIsaDotprod},
};

// How 8-bit values with quantization parameters lie in memory: s8 as in files, or u8 = q + 128 (x86: vpdpbusd wants
// an unsigned left operand). A property of the whole bound plan; zero points, clamps and folded biases are shifted with it.
enum class Storage : uint8_t { kS8 = 0, kU8 = 1 };
constexpr int32_t storage_shift(Storage s) { return s == Storage::kU8 ? 128 : 0; }

// A compute function of any family; exec casts it back to the family's own type.
using AnyFn = void (*)();

}  // namespace lathe::kernels
