#include "runtime/host/session.h"

#include <algorithm>
#include <list>

#include "runtime/host/bind_error.h"
#include "runtime/host/cpu.h"
#include "runtime/host/segmented_session.h"
#include "runtime/host/session_base.h"

namespace lathe {
namespace {

constexpr uint32_t kMaxThreads = 256;  // scratch is made per thread

struct CachedPlan {
  std::vector<Shape> inputs;
  PlanBlocks blocks;
  Binding binding;
};

class Session final : public SessionBase {
 public:
  Session(std::shared_ptr<const LoadedProgram> loaded, const SessionOptions& options, std::unique_ptr<Team> team)
      : SessionBase(std::move(loaded), options, std::move(team)) {
    external_.assign(input_tensors_.size() + output_tensors_.size(), nullptr);
    memory_.external = external_.data();
  }

  Result<void> bind(std::span<const Shape> inputs) override {
    LATHE_CHECK_OK(check_bind(inputs));
    const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const CachedPlan& p) {
      return std::equal(p.inputs.begin(), p.inputs.end(), inputs.begin(), inputs.end());
    });
    if (found != plans_.end()) {
      LATHE_CHECK_OK(use(found->binding));
      plans_.splice(plans_.begin(), plans_, found);
      return {};
    }
    std::list<CachedPlan> fresh(1);
    LATHE_CHECK_OK(make_plan(inputs, &fresh.front()));
    LATHE_CHECK_OK(use(fresh.front().binding));
    plans_.splice(plans_.begin(), fresh);
    if (plans_.size() > kPlanCache) plans_.pop_back();
    return {};
  }

  Result<void> run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    LATHE_CHECK_OK(check_run(inputs, outputs));
    for (size_t i = 0; i < external_.size(); ++i) {
      const bool input = i < inputs.size();
      const size_t port = input ? i : i - inputs.size();
      const void* p = input ? inputs[port] : outputs[port];
      if (p == nullptr && plan().ports[i].bytes != 0) return null_port(input, port);
      external_[i] = static_cast<uint8_t*>(const_cast<void*>(p));
    }
    const Team::Turn turn(*team_);
    load_inputs(plan(), memory_, inputs.data());
    run_segment(0, plan().step_count);
    store_outputs(plan(), memory_, outputs.data());
    return {};
  }

 private:
  Result<void> make_plan(std::span<const Shape> inputs, CachedPlan* plan) {
    plan->inputs.assign(inputs.begin(), inputs.end());
    const PlanMemory memory = plan->blocks.memory();
    BoundDims dims;
    Status s = evaluate_dims(program(), inputs.data(), memory, &dims);
    if (!s.ok()) return fail(s.code, shape_error(*loaded_, inputs, s));
    BindOptions options = bind_options();
    options.padded_inputs = options_.padded_inputs;
    s = lathe::bind(program(), dims, options, memory, &plan->binding);
    if (!s.ok()) return fail(s.code, step_error(*loaded_, s));
    return {};
  }

  std::list<CachedPlan> plans_;  // most recently used first
  std::vector<uint8_t*> external_;
};

}  // namespace

Result<std::unique_ptr<HostSession>> HostSession::create(std::shared_ptr<const LoadedProgram> program,
                                                         const SessionOptions& options) {
  if (program == nullptr) return fail(Code::kInvalidArgument, "no program");
  if (options.threads > kMaxThreads)
    return fail(Code::kInvalidArgument,
                "threads must be at most " + std::to_string(kMaxThreads) + ", got " + std::to_string(options.threads));
  LATHE_TRY(auto team, Team::create(options.threads, usable_cpus()));
  if (program->program.header().segment_count > 1) return make_segmented_session(std::move(program), options, std::move(team));
  return std::make_unique<Session>(std::move(program), options, std::move(team));
}

}  // namespace lathe
