#include "tools/replicas.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace lathe::tools {
namespace {

// Sum of the lines "<key>: <number> kB" of a file under /proc for the given keys, in bytes.
uint64_t sum_of_lines(const char* path, std::initializer_list<std::string_view> keys) {
  std::ifstream file(path);
  uint64_t sum = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    if (!(words >> key >> kib) || key.empty()) continue;
    key.pop_back();
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) sum += kib * 1024;
  }
  return sum;
}

uint64_t number_in(const char* path) {
  std::ifstream file(path);
  uint64_t n = 0;
  return file >> n ? n : 0;  // "max" is no number
}

}  // namespace

ProcessMemory process_memory() {
  constexpr const char* kRollup = "/proc/self/smaps_rollup";
  return {sum_of_lines(kRollup, {"Rss"}), sum_of_lines(kRollup, {"Pss"}),
          sum_of_lines(kRollup, {"Private_Dirty"})};
}

uint64_t available_memory() {
  const uint64_t machine = sum_of_lines("/proc/meminfo", {"MemAvailable"});
  const uint64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (limit == 0) return machine;
  return std::min(machine, limit > used ? limit - used : 0);
}

std::vector<Serve> Replicas::services(size_t count) {
  std::vector<Serve> out;
  for (size_t i = 0; i < count; ++i) out.emplace_back([runner = &runners[i]] { return runner->run(); });
  return out;
}

Result<Replicas> open_replicas(const MeasureFlags& flags, uint32_t count) {
  Replicas out;
  LATHE_TRY(out.session, flags.session.options());
  LATHE_TRY(out.model, load_host_model(flags.model, flags.import));
  // The first of several also brings in what they share.
  ProcessMemory before{};
  for (uint32_t i = 0; i < count; ++i) {
    if (i == (count == 1 ? 0 : 1)) before = process_memory();
    LATHE_TRY(Runner runner, make_runner(flags, out.model, out.session));
    LATHE_CHECK_OK(runner.run());
    out.runners.push_back(std::move(runner));
  }
  out.memory.process = process_memory();
  const uint64_t more = out.memory.process.own > before.own ? out.memory.process.own - before.own : 0;
  out.memory.per_replica = more / std::max(1u, count - 1);
  out.memory.arena = out.runners[0].session().arena_bytes();
  out.memory.variables = out.runners[0].session().variable_bytes();
  return out;
}

}  // namespace lathe::tools
