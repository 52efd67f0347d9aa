#include "runtime/host/segmented_session.h"

#include <algorithm>
#include <cstring>
#include <list>

#include "runtime/executor.h"
#include "runtime/host/bind_error.h"
#include "runtime/host/plan_blocks.h"
#include "runtime/host/ports.h"
#include "runtime/host/team.h"
#include "runtime/plan/bind.h"

namespace lathe {
namespace {

constexpr size_t kPlanCache = 32;  // of each segment
constexpr uint64_t kTail = 64;     // readable bytes behind memory that kernels read in whole vectors

// One segment bound for the shapes of the inputs and the data that its dims depend on.
struct SegmentPlan {
  std::vector<Shape> inputs;
  std::vector<int64_t> data;  // by dim record; 0 where it is not known or does not depend on data
  PlanBlocks blocks;
  Binding binding;
};

// Memory of one carried tensor: it only grows.
struct Carried {
  Block block{0};
  uint64_t size = 0;
};

class SegmentedSession final : public HostSession {
 public:
  SegmentedSession(std::shared_ptr<const LoadedProgram> loaded, const SessionOptions& options, std::unique_ptr<Team> team)
      : loaded_(std::move(loaded)), options_(options), team_(std::move(team)), parallel_(team_->parallel()) {
    input_tensors_ = port_tensors(program(), TensorKind::kInput);
    output_tensors_ = port_tensors(program(), TensorKind::kOutput);
    const ProgramHeader& h = program().header();
    producers_.assign(h.tensor_count, kNoTensor);
    plans_.resize(h.segment_count);
    data_.assign(h.dim_count, 0);
    known_.assign(h.dim_count, 0);
    find_carried();
    memory_.weights = program().weights().data;
    memory_.external = pointers_.data();
  }

  // Dims may only come from integers that a step before makes.
  Result<void> check() const {
    for (uint32_t i = 0; i < program().header().dim_count; ++i) {
      const ProgramDim& d = program().dim(i);
      if (d.op != DimOp::kValue) continue;
      const ProgramTensor& t = program().tensor(static_cast<uint32_t>(d.a));
      if (producers_[static_cast<uint32_t>(d.a)] == kNoTensor || (t.dtype != DType::kS64 && t.dtype != DType::kS32) ||
          (t.flags & kTensorHasQuant) != 0)
        return fail(Code::kCorrupt, "plan is damaged: dim record " + std::to_string(i) + " depends on a tensor without integers");
    }
    return {};
  }

  Result<void> bind(std::span<const Shape> inputs) override {
    if (inputs.size() != input_tensors_.size())
      return fail(Code::kInvalidArgument, "model has " + std::to_string(input_tensors_.size()) + " inputs, got shapes for " +
                                              std::to_string(inputs.size()));
    const std::vector<Shape> before = std::move(shapes_);
    shapes_.assign(inputs.begin(), inputs.end());
    forget_data();
    if (auto done = use_segment(0); !done) {
      shapes_ = before;
      return done;
    }
    return {};
  }

  const BoundPlan& plan() const override { return current_->binding.plan; }
  const Shape& tensor_shape(uint32_t tensor) const override { return current_->binding.dims.shapes[tensor]; }
  const Shape& output_shape(uint32_t output) const override { return tensor_shape(output_tensors_[output]); }
  bool is_open(uint32_t output) const override {
    const ProgramTensor& t = program().tensor(output_tensors_[output]);
    return std::any_of(t.dims, t.dims + t.rank, [&](uint32_t d) { return depends_on_data_[d] != 0; });
  }
  const uint8_t* output_data(uint32_t output) const override { return pointers_[carried_[output_tensors_[output]]]; }

  std::string kernel_names(uint32_t step) const override {
    const SegmentPlan* plan = plan_of(step);
    if (plan == nullptr) return "";
    if (plan->binding.elided[step] != 0) return "elided";
    std::string names;
    for (uint32_t k = plan->binding.kernel_first[step]; k < plan->binding.kernel_first[step + 1]; ++k)
      names += (names.empty() ? "" : " ") + std::string(plan->binding.kernels[k]->name);
    return names;
  }

  uint64_t step_macs(uint32_t step) const override {
    const uint32_t dim = program().step(step).macs_dim;
    const SegmentPlan* plan = plan_of(step);
    const int64_t macs = dim == kNoTensor || plan == nullptr ? 0 : plan->binding.dims.values[dim];
    return macs < 0 ? 0 : static_cast<uint64_t>(macs);
  }

  Result<void> run(std::span<const void* const> inputs, std::span<void* const> outputs) override {
    if (current_ == nullptr) return fail(Code::kInvalidArgument, "session has no shapes yet: call bind() before run()");
    if (inputs.size() != input_tensors_.size() || outputs.size() != output_tensors_.size())
      return fail(Code::kInvalidArgument, "model has " + std::to_string(input_tensors_.size()) + " inputs and " +
                                              std::to_string(output_tensors_.size()) + " outputs, got " +
                                              std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
    const Team::Turn turn(*team_);
    forget_data();
    for (uint32_t s = 0; s < plans_.size(); ++s) {
      LATHE_CHECK_OK(use_segment(s));
      if (s == 0) LATHE_CHECK_OK(copy_inputs(inputs));
      const uint32_t begin = s == 0 ? 0 : program().segment_end(s - 1), end = program().segment_end(s);
      run_steps(plan(), full_exec_table(), memory_, parallel_, has_hook_ ? &hook_ : nullptr, begin, end);
      LATHE_CHECK_OK(read_data(begin, end));
    }
    return copy_outputs(outputs);
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
  uint64_t arena_bytes() const override {
    uint64_t bytes = arena_size_;
    for (const Carried& c : memories_) bytes += c.size;
    return bytes;
  }
  uint64_t variable_bytes() const override { return current_ == nullptr ? 0 : current_->binding.plan.variable_bytes; }

 private:
  const Program& program() const { return loaded_->program; }

  uint32_t segment_of(uint32_t step) const {
    uint32_t s = 0;
    while (program().segment_end(s) <= step) ++s;
    return s;
  }
  // The plan that last ran a step's segment.
  const SegmentPlan* plan_of(uint32_t step) const {
    const auto& plans = plans_[segment_of(step)];
    return plans.empty() ? nullptr : &plans.front();
  }

  // Inputs, outputs, what a later segment reads, and what becomes dims.
  void find_carried() {
    const Program& p = program();
    carried_.assign(p.tensor_count(), kNoTensor);
    const auto carry = [&](uint32_t t) {
      if (carried_[t] == kNoTensor) carried_[t] = carried_count_++;
    };
    for (const uint32_t t : input_tensors_) carry(t);
    for (const uint32_t t : output_tensors_) carry(t);
    for (uint32_t i = 0; i < p.step_count(); ++i) {
      const ProgramStep& s = p.step(i);
      for (uint32_t k = 0; k < s.n_in; ++k) {
        const uint32_t t = p.operand(s, k);
        if (t != kNoTensor && producers_[t] != kNoTensor && segment_of(producers_[t]) != segment_of(i)) carry(t);
      }
      for (uint32_t k = 0; k < s.n_out; ++k) producers_[p.output(s, k)] = i;
    }
    depends_on_data_.assign(p.header().dim_count, 0);
    for (uint32_t i = 0; i < p.header().dim_count; ++i) {
      const ProgramDim& d = p.dim(i);
      const bool leaf = d.op == DimOp::kConst || d.op == DimOp::kSymbol;
      if (d.op == DimOp::kValue) carry(static_cast<uint32_t>(d.a));
      depends_on_data_[i] = d.op == DimOp::kValue || (!leaf && (depends_on_data_[d.a] != 0 || depends_on_data_[d.b] != 0));
    }
    memories_.resize(carried_count_);
    pointers_.assign(carried_count_, nullptr);
  }

  void forget_data() {
    std::fill(data_.begin(), data_.end(), 0);
    std::fill(known_.begin(), known_.end(), uint8_t{0});
  }

  // Makes or finds the plan of a segment, and memory for what it writes.
  Result<void> use_segment(uint32_t s) {
    auto& plans = plans_[s];
    const auto found = std::find_if(plans.begin(), plans.end(),
                                    [&](const SegmentPlan& p) { return p.inputs == shapes_ && p.data == data_; });
    if (found != plans.end()) {
      plans.splice(plans.begin(), plans, found);
    } else {
      std::list<SegmentPlan> fresh(1);
      LATHE_CHECK_OK(make_plan(s, &fresh.front()));
      plans.splice(plans.begin(), fresh);
      if (plans.size() > kPlanCache) plans.pop_back();
    }
    const SegmentPlan& plan = plans.front();
    LATHE_CHECK_OK(reserve(plan.binding, s));
    current_ = &plan;
    return {};
  }

  Result<void> make_plan(uint32_t s, SegmentPlan* plan) {
    plan->inputs = shapes_;
    plan->data = data_;
    const PlanMemory memory = plan->blocks.memory();
    BoundDims dims;
    const DataDims data{data_.data(), known_.data()};
    Status status = evaluate_dims(program(), shapes_.data(), memory, &dims, &data);
    if (!status.ok()) return fail(status.code, shape_error(*loaded_, shapes_, status));
    const BindSegment segment{s == 0 ? 0 : program().segment_end(s - 1), program().segment_end(s), carried_.data()};
    BindOptions options;
    options.isa = options_.isa;
    options.storage = storage_for(options_.isa);
    options.threads = parallel_.threads;
    options.elide = options_.elide;
    options.table = full_exec_table();
    options.index = &exec_index;
    options.segment = &segment;
    status = lathe::bind(program(), dims, options, memory, &plan->binding);
    if (!status.ok()) return fail(status.code, step_error(*loaded_, status));
    return {};
  }

  static Result<void> grow(Block* block, uint64_t* size, uint64_t bytes) {
    if (bytes <= *size) return {};
    Block more(bytes);
    if (more.data() == nullptr) return fail(Code::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes");
    *block = std::move(more);
    *size = bytes;
    return {};
  }

  uint64_t bytes_of(const Binding& b, uint32_t t) const {
    return uint64_t{b.dims.shapes[t].elems()} * dtype_bytes(program().tensor(t).dtype);
  }

  Result<void> reserve(const Binding& b, uint32_t s) {
    LATHE_CHECK_OK(grow(&arena_, &arena_size_, b.plan.arena_bytes));
    memory_.arena = arena_.data();
    if (memory_.variables == nullptr && b.plan.variable_bytes != 0) {
      LATHE_CHECK_OK(grow(&variables_, &variables_size_, b.plan.variable_bytes));
      memory_.variables = variables_.data();
      reset_variables(b.plan, memory_);
    }
    for (uint32_t t = 0; t < program().tensor_count(); ++t) {
      const bool input = program().tensor(t).kind == TensorKind::kInput;
      if (carried_[t] == kNoTensor || (input ? s != 0 : segment_of(producers_[t]) != s)) continue;
      Carried& c = memories_[carried_[t]];
      LATHE_CHECK_OK(grow(&c.block, &c.size, bytes_of(b, t) + kTail));
      pointers_[carried_[t]] = c.block.data();
    }
    return {};
  }

  // Between the caller's s8 and the plan's storage.
  void flip(uint8_t* to, uint64_t bytes, const ProgramTensor& t) const {
    if (plan().storage != kernels::Storage::kU8 || t.dtype != DType::kS8 || (t.flags & kTensorHasQuant) == 0) return;
    for (uint64_t i = 0; i < bytes; ++i) to[i] ^= 0x80;
  }

  Result<void> copy_inputs(std::span<const void* const> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const uint32_t t = input_tensors_[i];
      const uint64_t bytes = bytes_of(current_->binding, t);
      if (inputs[i] == nullptr && bytes != 0)
        return fail(Code::kInvalidArgument, "input " + port_name(loaded_->input_names, static_cast<uint32_t>(i)) + " is null");
      if (bytes != 0) std::memcpy(pointers_[carried_[t]], inputs[i], bytes);
      flip(pointers_[carried_[t]], bytes, program().tensor(t));
    }
    return {};
  }

  // Outputs whose shape was known before may be copied to the caller; all can be read where they are.
  Result<void> copy_outputs(std::span<void* const> outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const uint32_t t = output_tensors_[i];
      uint8_t* from = pointers_[carried_[t]];
      const uint64_t bytes = bytes_of(current_->binding, t);
      flip(from, bytes, program().tensor(t));
      if (is_open(static_cast<uint32_t>(i)) || bytes == 0) continue;
      if (outputs[i] == nullptr)
        return fail(Code::kInvalidArgument, "output " + port_name(loaded_->output_names, static_cast<uint32_t>(i)) + " is null");
      std::memcpy(outputs[i], from, bytes);
    }
    return {};
  }

  // Dims that the steps of a segment made.
  Result<void> read_data(uint32_t begin, uint32_t end) {
    for (uint32_t i = 0; i < program().header().dim_count; ++i) {
      const ProgramDim& d = program().dim(i);
      if (d.op != DimOp::kValue) continue;
      const auto t = static_cast<uint32_t>(d.a), element = static_cast<uint32_t>(d.b);
      if (producers_[t] < begin || producers_[t] >= end) continue;
      const std::string where = "step " + std::to_string(producers_[t]) + ": element " + std::to_string(element);
      const uint32_t count = tensor_shape(t).elems();
      if (element >= count)
        return fail(Code::kInvalidArgument, where + " is needed as a dim, there are " + std::to_string(count));
      const uint8_t* at = pointers_[carried_[t]];
      int64_t value = 0;
      if (program().tensor(t).dtype == DType::kS64) std::memcpy(&value, at + element * 8, 8);
      else value = reinterpret_cast<const int32_t*>(at)[element];
      if (value < 0 || value > INT32_MAX)
        return fail(Code::kInvalidArgument, where + " is " + std::to_string(value) + ", which is no dim");
      data_[i] = value;
      known_[i] = 1;
    }
    return {};
  }

  std::shared_ptr<const LoadedProgram> loaded_;
  SessionOptions options_;
  std::unique_ptr<Team> team_;
  Parallel parallel_;
  std::vector<uint32_t> input_tensors_, output_tensors_;  // by port
  std::vector<uint32_t> producers_;                       // by tensor: its step, kNoTensor if none
  std::vector<uint32_t> carried_;                         // by tensor: its position among the carried ones, or kNoTensor
  uint32_t carried_count_ = 0;
  std::vector<uint8_t> depends_on_data_;                  // by dim record
  std::vector<std::list<SegmentPlan>> plans_;             // by segment, most recently used first
  const SegmentPlan* current_ = nullptr;
  std::vector<Shape> shapes_;
  std::vector<int64_t> data_;  // by dim record, of this run
  std::vector<uint8_t> known_;
  std::vector<Carried> memories_;
  std::vector<uint8_t*> pointers_;
  Block arena_{0}, variables_{0};
  uint64_t arena_size_ = 0, variables_size_ = 0;
  RunMemory memory_;
  StepHook hook_;
  bool has_hook_ = false;
};

}  // namespace

Result<std::unique_ptr<HostSession>> make_segmented_session(std::shared_ptr<const LoadedProgram> program,
                                                            const SessionOptions& options, std::unique_ptr<Team> team) {
  auto session = std::make_unique<SegmentedSession>(std::move(program), options, std::move(team));
  LATHE_CHECK_OK(session->check());
  return session;
}

}  // namespace lathe
