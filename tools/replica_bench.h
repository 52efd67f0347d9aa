// `lathe bench` under load: several replicas, clients or a rate of requests, and a sweep over both.
#pragma once
#include <cstdint>
#include <string>

#include "tools/arguments.h"
#include "tools/measured_model.h"

namespace lathe::tools {

struct LoadFlags {
  uint32_t replicas = 0, clients = 0;  // 0: not given
  double rate = 0;
  std::string arrivals = "poisson";
  bool sweep = false;
  double deadline_ms = 0;  // 0: none
  void add_to(Arguments& args);
  // Whether any of them asks for a load instead of one run after another.
  bool given() const { return replicas != 0 || clients != 0 || rate != 0 || sweep; }
};

// Measures and prints. Ctrl-C ends it with a report of what was measured. Errors: those of loading and running; flags that
// contradict each other.
Result<void> bench_replicas(const MeasureFlags& measure, const LoadFlags& load);

}  // namespace lathe::tools
