// Where the time goes: a StepHook that times every step, and reports of it. Times are medians over runs, which add up to the
// median of whole runs much better than means, because an interruption of one step says nothing about the model.
//
//   Profiler profiler(session, *loaded);
//   session.set_hook(profiler.hook());
//   ... runs ...
//   for (const ProfileRow& row : profiler.rows(ProfileBy::kOp)) ...
//
// Allocates in the constructor only. One thread at a time, like the session.
#pragma once
#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "runtime/host/session.h"

namespace lathe {

enum class ProfileBy { kNode, kOp, kKernel };

struct ProfileRow {
  std::string name;     // node, op or kernel, as grouped
  std::string op;       // of the group's first step
  std::string kernel;   // of the group's first step
  uint64_t calls = 0;
  double p50_ns = 0;            // per run: the medians of the group's steps, added up
  double mean_ns = 0;           // per run
  double share = 0;             // of the medians of all steps
  double cumulative_share = 0;  // of this row and those above it
  uint64_t macs = 0;            // per run, of all steps of the group
  uint64_t bytes = 0;           // read and written per run: operands at their bound sizes
  uint64_t param_bytes = 0;     // of constants that the group's steps read
  // 1e9 operations (2 per multiply-accumulate) and 1e9 bytes per second.
  double gops() const { return p50_ns == 0 ? 0 : 2.0 * static_cast<double>(macs) / p50_ns; }
  double gbytes_per_s() const { return p50_ns == 0 ? 0 : static_cast<double>(bytes) / p50_ns; }
};

class Profiler {
 public:
  // `session` must be bound; a new shape needs a new profiler. `trace_events`: how many steps the trace keeps at most.
  Profiler(const HostSession& session, const LoadedProgram& loaded, size_t trace_events = 0);
  StepHook hook() { return {&before, &after, this}; }
  void clear();

  uint64_t runs() const { return steps_.empty() ? 0 : steps_.back().calls; }
  // Of a run, as the rows add up.
  double p50_ns() const;
  double mean_ns() const;
  // Grouped and sorted by time, most first.
  std::vector<ProfileRow> rows(ProfileBy by) const;
  // The Chrome trace-event format, which Perfetto reads too.
  void write_trace(std::ostream& out) const;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kSamples = 1024;
  struct Step {
    ProfileRow row;
    uint64_t calls = 0;
    int64_t ns = 0;
    std::vector<uint32_t> last;  // ns of the last kSamples calls, in a ring
  };
  struct Event {
    uint32_t step;
    int64_t begin_ns, end_ns;
  };
  static double median_ns(const Step& step);
  static void before(void* self, uint32_t step);
  static void after(void* self, uint32_t step);

  std::vector<Step> steps_;
  std::vector<Event> events_;
  size_t event_count_ = 0;
  Clock::time_point origin_ = Clock::now();
  int64_t begin_ns_ = 0;
};

}  // namespace lathe
