// profile: where the time of the model goes. Prunes nothing and decides nothing; it is there to be read.
#include "tools/compress/step.h"
#include "tools/markup.h"
#include "tools/measured_model.h"
#include "tools/timing.h"

namespace lathe::tools {
namespace {

constexpr double kHead = 0.8;  // share of the time that the lines cover

class Profile final : public Step {
 public:
  std::string what() const override { return "where the time goes"; }
  double seconds(const StepCosts& costs) const override { return costs.measure_seconds; }

  Result<void> run(const StepInput& in, StepOutput* out) const override {
    LATHE_TRY(const HostModel model, load_host_model(in.model, {}));
    MeasureFlags flags;
    flags.batch = in.batch;
    LATHE_TRY(Runner runner, make_runner(flags, model, in.session));
    Profiler profiler(runner.session(), *model.program);
    LATHE_CHECK_OK(profile_runs(runner, profiler, in.seconds));
    Tree ops = Tree::array();
    double covered = 0;
    for (const ProfileRow& row : profiler.rows(ProfileBy::kNode)) {
      if (covered < kHead)
        out->lines.push_back(formatted("%5.1f %% %9.2f us  %s (%s, %s)", 100 * row.share, row.p50_ns / 1e3, row.name.c_str(), row.op.c_str(), row.kernel.c_str()));
      covered += row.share;
      Tree op = Tree::table();
      ops.push(op.set("name", row.name).set("op", row.op).set("kernel", row.kernel).set("us", row.p50_ns / 1e3).set("share", row.share));
    }
    out->details.set("total_us", profiler.p50_ns() / 1e3).set("ops", std::move(ops));
    return {};
  }
};

Result<std::unique_ptr<Step>> parse(TableReader&, const std::string&) { return std::make_unique<Profile>(); }

}  // namespace

const StepKind kStep_profile{"profile", 1, StepRole::kLook, true, false, nullptr, parse};

}  // namespace lathe::tools
