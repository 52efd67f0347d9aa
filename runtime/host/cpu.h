// The machine: which instruction sets it has, how many threads it is good for.
//
// Who calls it: whoever makes sessions. Thread-safe. The only place that looks at the CPU and at LATHE_ISA.
#pragma once
#include <sched.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "kernels/isa.h"

namespace lathe {

// What this CPU and operating system can run, whatever LATHE_ISA says.
kernels::IsaSet detected_isa();

// A level by its name (kernels/isa.h). Error: an unknown name; the message lists them all.
Result<kernels::IsaSet> parse_isa(std::string_view name);

// detected_isa() capped by environment variable LATHE_ISA, if it is set. Errors: an unknown name, or a level of another
// architecture.
Result<kernels::IsaSet> machine_isa();
// The same with the cap given ("" is none), as `--isa` does it.
Result<kernels::IsaSet> capped_isa(std::string_view level);

// The highest level that `isa` covers, as reports name it.
const char* isa_text(kernels::IsaSet isa);

// The CPU's own name for itself ("AMD EPYC 9R14"), else what the system says its parts are, else the architecture.
std::string cpu_name();

// CPUs that this process may use: its affinity mask, and its control group's quota rounded up. At least 1.
uint32_t usable_cpus();
// The least quota of the control groups in `groups` (text as in /proc/self/cgroup, both versions) and of those above them, in
// whole CPUs; 0 if there is none. `mount`: where the groups' folders are.
uint32_t quota_cpus(std::istream& groups, const std::string& mount);

// The CPU that the calling thread is on just now; -1 where the system does not say.
inline int current_cpu() { return sched_getcpu(); }

// An affinity mask. Linux; of machines with more than 1,024 CPUs it is empty.
class CpuSet {
 public:
  // What the calling thread may use.
  static CpuSet of_this_thread();
  bool contains(int cpu) const { return cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(static_cast<size_t>(cpu), &mask_); }
  // Lets `thread` run on these CPUs but `cpu`; does nothing where that would leave none.
  void keep_off(std::thread& thread, int cpu) const;

 private:
  CpuSet() { CPU_ZERO(&mask_); }
  cpu_set_t mask_;
};

// Tells the CPU that this thread does nothing but look at a variable until it changes.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace lathe
