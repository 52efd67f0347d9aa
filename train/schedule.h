// How the learning rate goes over the steps of a run: a factor of the rate that the run was given. Pure functions.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lathe::train {

enum class ScheduleKind : uint8_t { kConstant, kCosine, kStep };
Result<ScheduleKind> parse_schedule(std::string_view name);  // constant, cosine, step
const char* schedule_name(ScheduleKind kind);

struct Schedule {
  ScheduleKind kind = ScheduleKind::kCosine;
  uint64_t steps = 0;   // of the whole run
  uint64_t warmup = 0;  // steps that lead up to the full rate
  // kStep: where the rate is multiplied by `decay`, ascending.
  std::vector<uint64_t> milestones = {};
  double decay = 0.1;
  double last = 0;  // kCosine: the factor that it ends at (Loshchilov, Hutter, "SGDR", 2017, equation 5, one cycle)
};

// Of step `step`, from 0. Warm-up rises linearly, (step + 1) / warmup, and the cosine falls over the rest.
double rate_factor(const Schedule& schedule, uint64_t step);

}  // namespace lathe::train
