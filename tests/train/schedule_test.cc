// Learning rates over a run, against values worked out by hand.
#include <doctest/doctest.h>

#include "train/schedule.h"

namespace lathe::test {
namespace {

using train::rate_factor;
using train::Schedule;
using train::ScheduleKind;

void check(const Schedule& s, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) CHECK_MESSAGE(rate_factor(s, i) == doctest::Approx(expected[i]), "step " << i);
}

TEST_CASE("warm-up rises linearly, then the schedule runs over the rest") {
  check({.kind = ScheduleKind::kConstant, .steps = 6, .warmup = 4}, {0.25, 0.5, 0.75, 1, 1, 1});
  check({.kind = ScheduleKind::kCosine, .steps = 4}, {1, 0.853553391, 0.5, 0.146446609, 0, 0});
  check({.kind = ScheduleKind::kCosine, .steps = 6, .warmup = 2}, {0.5, 1, 1, 0.853553391, 0.5, 0.146446609, 0});
  check({.kind = ScheduleKind::kCosine, .steps = 2, .last = 0.2}, {1, 0.6, 0.2});
  check({.kind = ScheduleKind::kStep, .steps = 6, .milestones = {2, 4}}, {1, 1, 0.1, 0.1, 0.01, 0.01});
  check({.kind = ScheduleKind::kStep, .steps = 4, .warmup = 2, .milestones = {1, 3}, .decay = 0.5}, {0.5, 1, 0.5, 0.25});
  check({.kind = ScheduleKind::kCosine, .steps = 3, .warmup = 3}, {1.0 / 3, 2.0 / 3, 1, 1});
}

TEST_CASE("schedules have names") {
  for (const ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kCosine, ScheduleKind::kStep})
    CHECK(*train::parse_schedule(train::schedule_name(kind)) == kind);
  CHECK(train::parse_schedule("linear").error().message == "no schedule 'linear'; the schedules are constant, cosine, step");
}

}  // namespace
}  // namespace lathe::test
