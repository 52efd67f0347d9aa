#include "runtime/host/cpu.h"

#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// CPUs that `quota` microseconds of every `period` need; 0: no limit.
uint32_t whole_cpus(double quota, double period) {
  return quota > 0 && period > 0 ? static_cast<uint32_t>(std::min(1e6, std::ceil(quota / period))) : 0;
}

// The quota of one group: version 2 has "max 100000" or two numbers in one file, version 1 two files.
uint32_t group_cpus(const std::string& folder, bool v2) {
  double quota = 0, period = 0;
  if (v2) {
    std::ifstream f(folder + "/cpu.max");
    return f >> quota >> period ? whole_cpus(quota, period) : 0;
  }
  std::ifstream q(folder + "/cpu.cfs_quota_us"), p(folder + "/cpu.cfs_period_us");
  return q >> quota && p >> period ? whole_cpus(quota, period) : 0;
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

// Whether the comma-separated `list` has `word`.
bool lists(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

}  // namespace

uint32_t quota_cpus(std::istream& groups, const std::string& mount) {
  uint32_t least = 0;
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !lists(controllers, "cpu")) continue;
    const std::string top = controllers.empty() ? mount : mount + "/cpu";
    // In a container the path may be the host's, of which only the last group is mounted, at the top.
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      const uint32_t n = group_cpus(top + path, controllers.empty());
      if (n != 0) least = least == 0 ? n : std::min(least, n);
      if (path.find('/') == std::string::npos) break;
    }
  }
  return least;
}

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

std::string cpu_name() {
  std::string name;
#if defined(__x86_64__)
  // Three leaves of 16 characters each, padded with blanks or zeros.
  for (unsigned leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    unsigned words[4] = {};
    if (__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3]) == 0) break;
    const char* bytes = reinterpret_cast<const char*>(words);
    name.append(bytes, strnlen(bytes, sizeof words));
  }
#else
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const bool says = line.starts_with("CPU implementer") || line.starts_with("CPU part") || line.starts_with("model name");
    if (line.empty() && !name.empty()) break;
    const size_t at = line.find(": ");
    if (says && at != std::string::npos) name += (name.empty() ? "" : " ") + line.substr(at + 2);
  }
#endif
  while (!name.empty() && name.back() == ' ') name.pop_back();
  name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
  if (!name.empty()) return name;
#if defined(__x86_64__)
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

CpuSet CpuSet::of_this_thread() {
  CpuSet set;
  if (sched_getaffinity(0, sizeof set.mask_, &set.mask_) != 0) CPU_ZERO(&set.mask_);
  return set;
}

void CpuSet::keep_off(std::thread& thread, int cpu) const {
  if (!contains(cpu)) return;
  cpu_set_t others = mask_;
  CPU_CLR(static_cast<size_t>(cpu), &others);
  if (CPU_COUNT(&others) != 0) pthread_setaffinity_np(thread.native_handle(), sizeof others, &others);
}

uint32_t usable_cpus() {
  uint32_t n = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) n = static_cast<uint32_t>(std::max(1, CPU_COUNT(&mask)));
  std::ifstream groups("/proc/self/cgroup");
  const uint32_t quota = quota_cpus(groups, "/sys/fs/cgroup");
  return quota == 0 ? n : std::min(n, quota);
}

}  // namespace lathe
