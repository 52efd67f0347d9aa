// A team of threads for kernels: OpenMP where the build has it, else a plain loop.
//
// One team per session. Results do not depend on its size.
#pragma once
#include "runtime/bound.h"

namespace lathe {

class Team {
 public:
  // Starts the threads, so that the first run is not the one that pays. threads 0 counts as 1; without OpenMP the team has one
  // thread.
  explicit Team(uint32_t threads);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint32_t threads() const { return threads_; }
  // For the executor; valid while the team lives.
  Parallel parallel();

 private:
  uint32_t threads_;
};

// Whether this build can use more than one thread.
bool has_threads();

}  // namespace lathe
