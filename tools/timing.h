// How long runs take, and which steps of them.
#pragma once
#include <vector>

#include "runtime/host/profiler.h"
#include "tools/runner.h"

namespace lathe::tools {

// Latencies in microseconds of every runner, sorted, each measured for `seconds` after warm-up. Several take turns in short slices,
// so that what disturbs the machine disturbs all of them. Ctrl-C ends it with what there is. Error: nothing was measured yet.
Result<std::vector<std::vector<double>>> measure(const std::vector<Runner*>& runners, double seconds);

// Nearest rank. Requires: not empty, 0 <= p <= 1.
double percentile(const std::vector<double>& sorted, double p);

// Runs for `seconds` after warm-up with the profiler's hook set, which stays.
Result<void> profile_runs(Runner& runner, Profiler& profiler, double seconds);

}  // namespace lathe::tools
