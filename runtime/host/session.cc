#include "runtime/host/session.h"

#include <algorithm>
#include <list>

#include "runtime/executor.h"
#include "runtime/host/bind_error.h"
#include "runtime/host/cpu.h"
#include "runtime/host/plan_blocks.h"
#include "runtime/host/ports.h"
#include "runtime/host/segmented_session.h"
#include "runtime/host/team.h"
#include "runtime/plan/bind.h"

namespace lathe {
namespace {

constexpr size_t kPlanCache = 32;
constexpr uint32_t kMaxThreads = 256;  // scratch is made per thread

struct CachedPlan {
  std::vector<Shape> inputs;
  PlanBlocks blocks;
  Binding binding;
};

class Session final : public HostSession {
 public:
  Session(std::shared_ptr<const LoadedProgram> loaded, const SessionOptions& options, std::unique_ptr<Team> team)
      : loaded_(std::move(loaded)), options_(options), team_(std::move(team)), parallel_(team_->parallel()) {
    input_tensors_ = port_tensors(program(), TensorKind::kInput);
    output_tensors_ = port_tensors(program(), TensorKind::kOutput);
    external_.assign(input_tensors_.size() + output_tensors_.size(), nullptr);
    memory_.weights = program().weights().data;
    memory_.external = external_.data();
  }

  Result<void> bind(std::span<const Shape> inputs) override {
    if (inputs.size() != input_tensors_.size())
      return fail(Code::kInvalidArgument, "model has " + std::to_string(input_tensors_.size()) + " inputs, got shapes for " +
                                              std::to_string(inputs.size()));
    const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const CachedPlan& p) {
      return std::equal(p.inputs.begin(), p.inputs.end(), inputs.begin(), inputs.end());
    });
    if (found != plans_.end()) {
      plans_.splice(plans_.begin(), plans_, found);
    } else {
      std::list<CachedPlan> fresh(1);
      LATHE_CHECK_OK(make_plan(inputs, &fresh.front()));
      LATHE_CHECK_OK(reserve_arena(fresh.front().binding.plan.arena_bytes));
      plans_.splice(plans_.begin(), fresh);
      if (plans_.size() > kPlanCache) plans_.pop_back();
    }
    return use(plans_.front());
  }

  const BoundPlan& plan() const override { return current_->binding.plan; }
  const Shape& tensor_shape(uint32_t tensor) const override { return current_->binding.dims.shapes[tensor]; }
  const Shape& output_shape(uint32_t output) const override { return tensor_shape(output_tensors_[output]); }

  std::string kernel_names(uint32_t step) const override {
    const Binding& b = current_->binding;
    if (b.elided[step] != 0) return "elided";
    std::string names;
    for (uint32_t k = b.kernel_first[step]; k < b.kernel_first[step + 1]; ++k)
      names += (names.empty() ? "" : " ") + std::string(b.kernels[k]->name);
    return names;
  }

  uint64_t step_macs(uint32_t step) const override {
    const uint32_t dim = program().step(step).macs_dim;
    const int64_t macs = dim == kNoTensor ? 0 : current_->binding.dims.values[dim];
    return macs < 0 ? 0 : static_cast<uint64_t>(macs);
  }

  Result<void> run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    if (current_ == nullptr) return fail(Code::kInvalidArgument, "session has no shapes yet: call bind() before run()");
    if (inputs.size() != input_tensors_.size() || outputs.size() != output_tensors_.size()) {
      return fail(Code::kInvalidArgument, "model has " + std::to_string(input_tensors_.size()) + " inputs and " +
                                              std::to_string(output_tensors_.size()) + " outputs, got " +
                                              std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
    }
    const BoundPlan& plan = current_->binding.plan;
    for (size_t i = 0; i < external_.size(); ++i) {
      const bool input = i < inputs.size();
      const void* p = input ? inputs[i] : outputs[i - inputs.size()];
      if (p == nullptr && plan.ports[i].bytes != 0)
        return fail(Code::kInvalidArgument,
                    input ? "input " + port_name(loaded_->input_names, static_cast<uint32_t>(i)) + " is null"
                          : "output " + port_name(loaded_->output_names, static_cast<uint32_t>(i - inputs.size())) + " is null");
      external_[i] = static_cast<uint8_t*>(const_cast<void*>(p));
    }
    const Team::Turn turn(*team_);
    load_inputs(plan, memory_, inputs.data());
    run_steps(plan, full_exec_table(), memory_, parallel_, has_hook_ ? &hook_ : nullptr, 0, plan.step_count);
    store_outputs(plan, memory_, outputs.data());
    return {};
  }

  void set_hook(const StepHook& hook) override {
    hook_ = hook;
    has_hook_ = hook.before != nullptr || hook.after != nullptr;
  }
  const uint8_t* tensor_data(uint32_t tensor) const override {
    const Binding& b = current_->binding;
    return b.strides[tensor] != 0 ? nullptr : memory_.at(b.plan.tensors[tensor]);
  }
  void reset() override {
    if (current_ != nullptr) reset_variables(current_->binding.plan, memory_);
  }
  uint64_t arena_bytes() const override { return current_ == nullptr ? 0 : current_->binding.plan.arena_bytes; }
  uint64_t variable_bytes() const override { return current_ == nullptr ? 0 : current_->binding.plan.variable_bytes; }

 private:
  const Program& program() const { return loaded_->program; }

  Result<void> make_plan(std::span<const Shape> inputs, CachedPlan* plan) {
    plan->inputs.assign(inputs.begin(), inputs.end());
    const PlanMemory memory = plan->blocks.memory();
    BoundDims dims;
    Status s = evaluate_dims(program(), inputs.data(), memory, &dims);
    if (!s.ok()) return fail(s.code, shape_error(*loaded_, inputs, s));
    BindOptions options;
    options.isa = options_.isa;
    options.storage = storage_for(options_.isa);
    options.threads = parallel_.threads;
    options.padded_inputs = options_.padded_inputs;
    options.elide = options_.elide;
    options.table = full_exec_table();
    options.index = &exec_index;
    s = lathe::bind(program(), dims, options, memory, &plan->binding);
    if (!s.ok()) return fail(s.code, step_error(*loaded_, s));
    return {};
  }

  // The arena only grows: plans take turns in it.
  Result<void> reserve_arena(uint64_t bytes) {
    if (bytes <= arena_size_) return {};
    Block arena(bytes);
    if (arena.data() == nullptr) return fail(Code::kOutOfMemory, "no memory for an arena of " + std::to_string(bytes) + " bytes");
    arena_ = std::move(arena);
    arena_size_ = bytes;
    memory_.arena = arena_.data();
    return {};
  }

  // Variables keep their values from plan to plan, unless the new shapes give them another size.
  Result<void> use(const CachedPlan& plan) {
    const BoundPlan& p = plan.binding.plan;
    const bool same =
        std::equal(variables_.begin(), variables_.end(), p.variables, p.variables + p.variable_count,
                   [](const BoundVariable& a, const BoundVariable& b) { return a.offset == b.offset && a.bytes == b.bytes; });
    if (current_ == nullptr || !same) {
      Block block(p.variable_bytes);
      if (block.data() == nullptr)
        return fail(Code::kOutOfMemory, "no memory for variables of " + std::to_string(p.variable_bytes) + " bytes");
      variable_block_ = std::move(block);
      memory_.variables = variable_block_.data();
      variables_.assign(p.variables, p.variables + p.variable_count);
      reset_variables(p, memory_);
    }
    current_ = &plan;
    return {};
  }

  std::shared_ptr<const LoadedProgram> loaded_;
  SessionOptions options_;
  std::unique_ptr<Team> team_;
  Parallel parallel_;
  std::vector<uint32_t> input_tensors_, output_tensors_;  // by port
  std::list<CachedPlan> plans_;                           // most recently used first
  const CachedPlan* current_ = nullptr;
  std::vector<BoundVariable> variables_;  // as the variables region is laid out now
  Block arena_{0}, variable_block_{0};
  uint64_t arena_size_ = 0;
  std::vector<uint8_t*> external_;
  RunMemory memory_;
  StepHook hook_;
  bool has_hook_ = false;
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
