#include "tools/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/cancel.h"
#include "tools/measured_model.h"

namespace lathe::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMinRuns = 100;
constexpr int kSlices = 20;  // of each runner's time

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One slice: at least `runs` runs and `seconds`.
Result<void> run_slice(Runner& runner, double seconds, size_t runs, std::vector<double>* us) {
  const auto begin = Clock::now();
  while ((runs > 0 || seconds_since(begin) < seconds) && !cancel_requested()) {
    const auto t0 = Clock::now();
    LATHE_CHECK_OK(runner.run());
    if (us != nullptr) us->push_back(1e6 * seconds_since(t0));
    runs -= runs > 0;
  }
  return {};
}

}  // namespace

Result<std::vector<std::vector<double>>> measure(const std::vector<Runner*>& runners, double seconds) {
  std::vector<std::vector<double>> us(runners.size());
  for (size_t i = 0; i < runners.size(); ++i) {
    us[i].reserve(1 << 20);
    LATHE_CHECK_OK(run_slice(*runners[i], warmup_seconds(seconds), 1, nullptr));
  }
  const int slices = runners.size() == 1 ? 1 : kSlices;
  for (int s = 0; s < slices; ++s)
    for (size_t i = 0; i < runners.size(); ++i) LATHE_CHECK_OK(run_slice(*runners[i], seconds / slices, kMinRuns / slices, &us[i]));
  for (auto& times : us) {
    if (times.empty()) return fail(Code::kCancelled, "interrupted before anything was measured");
    std::sort(times.begin(), times.end());
  }
  return us;
}

double percentile(const std::vector<double>& sorted, double p) {
  const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

Result<void> profile_runs(Runner& runner, Profiler& profiler, double seconds) {
  LATHE_CHECK_OK(run_slice(runner, warmup_seconds(seconds), 1, nullptr));
  profiler.clear();
  runner.session().set_hook(profiler.hook());
  LATHE_CHECK_OK(run_slice(runner, seconds, 1, nullptr));
  return check_cancelled();
}

}  // namespace lathe::tools
