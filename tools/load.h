// Puts load on replicas of a service and measures what they really do.
//
// Closed loop: `clients` that each wait for their answer before they ask again; it finds the capacity, but a slow answer also
// slows the questions. Open loop: requests come at a rate of their own, and latency counts from the time when a request was due,
// so that one that had to wait because a replica was late is not forgotten (coordinated omission). Every replica takes the oldest
// waiting request when it is free. Ctrl-C (base/cancel.h) ends the load early with what was measured.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "tools/latency.h"

namespace lathe::tools {

enum class Arrivals { kPoisson, kFixed };

struct LoadOptions {
  uint32_t clients = 0;  // closed loop if the rate is 0
  double rate = 0;       // requests per second
  Arrivals arrivals = Arrivals::kPoisson;
  double warmup_seconds = 0.25, seconds = 1;
  uint64_t seed = 1;
};

struct LoadResult {
  double seconds = 0;        // measured, without the warm-up
  uint64_t completed = 0;    // answers in that time
  uint64_t unserved = 0;     // open loop: due in that time, but no replica came to them; in `latency` with what they waited
  double busy = 0;           // share of the time that a replica spent in its service, 0 to 1
  LatencyHistogram latency;  // of the requests that were asked or due in that time
  bool interrupted = false;
  double per_second() const { return seconds == 0 ? 0 : static_cast<double>(completed) / seconds; }
};

// One request of a replica; called on the replica's own thread.
using Serve = std::function<Result<void>()>;

// One thread per replica. Requires: at least one replica, and clients or a rate. Errors: those of a service; the first one ends
// the load.
Result<LoadResult> run_load(const std::vector<Serve>& replicas, const LoadOptions& options);

}  // namespace lathe::tools
