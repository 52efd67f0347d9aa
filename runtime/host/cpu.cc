#include "runtime/host/cpu.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace lathe {
namespace {

using kernels::IsaSet;

// The quota of control group v2, then v1, in whole CPUs; 0 if there is none.
uint32_t quota_cpus() {
  double quota = 0, period = 0;
  if (std::ifstream f("/sys/fs/cgroup/cpu.max"); f >> quota >> period && period > 0)
    return static_cast<uint32_t>((quota + period - 1) / period);
  std::ifstream q("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), p("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (q >> quota && p >> period && quota > 0 && period > 0) return static_cast<uint32_t>((quota + period - 1) / period);
  return 0;
}

// Levels of the architecture that this program was built for; scalar belongs to all.
bool is_native(IsaSet set) {
#if defined(__x86_64__)
  return (set & (kernels::kIsaNeon | kernels::kIsaDotprod)) == 0;
#elif defined(__aarch64__)
  return (set & (kernels::kIsaAvx2 | kernels::kIsaAvx512 | kernels::kIsaAvx512Vnni)) == 0;
#else
  return set == kernels::kIsaScalar;
#endif
}

}  // namespace

IsaSet detected_isa() {
  IsaSet isa = kernels::kIsaScalar;
#if defined(__x86_64__)
  // These builtins also ask XCR0 whether the operating system saves the wide registers. F16C has none of its own in clang 14.
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !f16c) return isa;
  isa |= kernels::kIsaAvx2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512dq"))
    return isa;
  isa |= kernels::kIsaAvx512;
  if (__builtin_cpu_supports("avx512vnni")) isa |= kernels::kIsaAvx512Vnni;
#elif defined(__aarch64__)
  const unsigned long caps = getauxval(AT_HWCAP);
  if ((caps & HWCAP_ASIMD) != 0) isa |= kernels::kIsaNeon;
  if ((caps & HWCAP_ASIMDDP) != 0) isa |= kernels::kIsaDotprod;
#endif
  return isa;
}

Result<IsaSet> parse_isa(std::string_view name) {
  std::string names;
  for (const auto& level : kernels::kIsaLevels) {
    if (name == level.name) return level.set;
    names += names.empty() ? level.name : std::string(", ") + level.name;
  }
  return fail(Code::kInvalidArgument, "unknown instruction set '" + std::string(name) + "'; known are " + names);
}

Result<IsaSet> capped_isa(std::string_view level) {
  const IsaSet have = detected_isa();
  if (level.empty()) return have;
  LATHE_TRY(const IsaSet cap, parse_isa(level));
  if (!is_native(cap))
    return fail(Code::kInvalidArgument,
                "instruction set '" + std::string(level) + "' is not one of this machine's, which has " + isa_text(have));
  return have & cap;
}

Result<IsaSet> machine_isa() {
  const char* level = std::getenv("LATHE_ISA");
  auto isa = capped_isa(level == nullptr ? "" : level);
  if (!isa) return tl::unexpected<Error>(with_context(isa.error(), "LATHE_ISA"));
  return isa;
}

const char* isa_text(IsaSet isa) {
  const char* best = "scalar";
  for (const auto& level : kernels::kIsaLevels)
    if (kernels::covers(isa, level.set) && level.set != kernels::kIsaScalar) best = level.name;
  return best;
}

uint32_t usable_cpus() {
  uint32_t n = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) n = static_cast<uint32_t>(std::max(1, CPU_COUNT(&mask)));
  const uint32_t quota = quota_cpus();
  return quota == 0 ? n : std::min(n, quota);
}

}  // namespace lathe
