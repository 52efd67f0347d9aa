#include "runtime/host/team.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace lathe {

#if defined(_OPENMP)

namespace {

// Tasks are handed out one by one: they are few and uneven, and other processes may hold a core.
void run_tasks(void* team, uint32_t n, void (*fn)(void* arg, uint32_t task, uint32_t slot), void* arg) {
  const auto threads = static_cast<int>(static_cast<const Team*>(team)->threads());
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (uint32_t i = 0; i < n; ++i) fn(arg, i, static_cast<uint32_t>(omp_get_thread_num()));
}

}  // namespace

Team::Team(uint32_t threads) : threads_(threads == 0 ? 1 : threads) {
  // A first parallel region makes OpenMP start its threads and allocate what it keeps.
  if (threads_ > 1) run_tasks(this, threads_, [](void*, uint32_t, uint32_t) {}, nullptr);
}

Parallel Team::parallel() {
  if (threads_ == 1) return {};
  return {&run_tasks, this, threads_};
}

bool has_threads() { return true; }

#else

Team::Team(uint32_t) : threads_(1) {}
Parallel Team::parallel() { return {}; }
bool has_threads() { return false; }

#endif

}  // namespace lathe
