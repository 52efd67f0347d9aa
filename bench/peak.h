// What this CPU can do at most, measured: the yardstick of the benchmarks.
#pragma once
#include "kernels/kernel.h"

namespace lathe::bench {

// Multiply-adds times two per nanosecond (GOPS) of one thread, from registers, with the instructions that a kernel of this ISA
// and family would use: vpdpbusd, vpmaddwd + vpaddd, or fused multiply-add. 0 if there is no such yardstick (scalar kernels).
// Measured once per kind.
double peak_gops(kernels::IsaSet needs, bool quantized);

}  // namespace lathe::bench
