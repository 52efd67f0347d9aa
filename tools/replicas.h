// Replicas of a model in one process: one session each, one mapped file, and what each costs in memory.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/load.h"
#include "tools/measured_model.h"

namespace lathe::tools {

// Of this process, in bytes; 0 where the operating system does not say.
struct ProcessMemory {
  uint64_t resident = 0;
  uint64_t proportional = 0;  // pages shared with other processes count by their part
  uint64_t own = 0;           // pages that it has written, which nobody else has: not those of mapped files
};
ProcessMemory process_memory();
// What the machine, or this process's control group, could still give it.
uint64_t available_memory();

struct ReplicaMemory {
  ProcessMemory process;     // with all replicas, after each ran
  uint64_t per_replica = 0;  // what each added to the process's own pages: arena, variables, plan, buffers of input and output
  uint64_t arena = 0, variables = 0;  // of one, by its plan
};

struct Replicas {
  HostModel model;
  SessionOptions session;
  std::vector<Runner> runners;
  ReplicaMemory memory;
  // The first `count` replicas, as services.
  std::vector<Serve> services(size_t count);
};

// Loads the model once, makes `count` sessions and runs each once. Errors: as open_measured().
Result<Replicas> open_replicas(const MeasureFlags& flags, uint32_t count);

}  // namespace lathe::tools
