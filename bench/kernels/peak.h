// What this CPU can do at most, measured: the yardstick of `lathe kernels` and of the benchmarks.
//
// Every probe is measured once per process, when it is first asked for. Thread-safe.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace lathe::bench {

// Which kernels a probe is the yardstick of, among those whose ISA it needs: 8-bit or real multiply-adds.
enum class ProbeUse { kNone, kS8, kF32 };

// Arithmetic from registers or the first cache, one thread: `gops` is multiply-adds times two per nanosecond.
struct Probe {
  const char* name;  // ISA and type: "avx512vnni_s8"
  const char* what;  // the instructions
  ProbeUse use;
  kernels::IsaSet needs;
  double (*gops)();
};
// Those of this architecture, best ISA first; call gops() only where the machine has what the probe needs.
const std::vector<Probe>& probes();

// The yardstick for a kernel: the instructions that the best kernel of its ISA and type would use. 0 if there is none (scalar).
double peak_gops(kernels::IsaSet needs, ProbeUse use);

// Reads of one thread over a working set of this size, over and over, in 1e9 bytes per second. Sizes within one level of the
// cache share a measurement.
double read_gb_per_s(uint64_t bytes);

struct CacheLevel {
  const char* name;  // "L1", "L2", "L3", "DRAM"
  uint64_t bytes;    // its size; DRAM: the size that was read
  double gb_per_s;
};
// All levels that the operating system tells of, measured.
std::vector<CacheLevel> cache_levels();

}  // namespace lathe::bench
