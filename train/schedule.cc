#include "train/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

namespace lathe::train {
namespace {

constexpr std::array<const char*, 3> kNames = {"constant", "cosine", "step"};  // in the order of the enumerators

}  // namespace

Result<ScheduleKind> parse_schedule(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (name == kNames[i]) return static_cast<ScheduleKind>(i);
  return fail(Code::kInvalidArgument, "no schedule '" + std::string(name) + "'; the schedules are constant, cosine, step");
}

const char* schedule_name(ScheduleKind kind) { return kNames[static_cast<size_t>(kind)]; }

double rate_factor(const Schedule& s, uint64_t step) {
  if (step < s.warmup) return static_cast<double>(step + 1) / static_cast<double>(s.warmup);
  switch (s.kind) {
    case ScheduleKind::kConstant: return 1;
    case ScheduleKind::kStep: {
      const auto passed = std::upper_bound(s.milestones.begin(), s.milestones.end(), step) - s.milestones.begin();
      return std::pow(s.decay, static_cast<double>(passed));
    }
    case ScheduleKind::kCosine: break;
  }
  if (s.steps <= s.warmup) return 1;
  const double done = std::min(1.0, static_cast<double>(step - s.warmup) / static_cast<double>(s.steps - s.warmup));
  return s.last + (1 - s.last) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace lathe::train
