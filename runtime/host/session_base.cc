#include "runtime/host/session_base.h"

#include <algorithm>

#include "runtime/host/bind_error.h"
#include "runtime/host/cpu.h"
#include "runtime/host/ports.h"

namespace lathe {

SessionBase::SessionBase(std::shared_ptr<const LoadedProgram> loaded, const SessionOptions& options, std::unique_ptr<Team> team)
    : loaded_(std::move(loaded)), options_(options), team_(std::move(team)), parallel_(team_->parallel()) {
  input_tensors_ = port_tensors(program(), TensorKind::kInput);
  output_tensors_ = port_tensors(program(), TensorKind::kOutput);
  memory_.weights = program().weights().data;
}

std::string SessionBase::kernel_names(uint32_t step) const {
  const Binding* b = binding_of(step);
  if (b == nullptr) return "";
  if (b->elided[step] != 0) return "elided";
  std::string names;
  for (uint32_t k = b->kernel_first[step]; k < b->kernel_first[step + 1]; ++k)
    names += (names.empty() ? "" : " ") + std::string(b->kernels[k]->name);
  return names;
}

uint64_t SessionBase::step_macs(uint32_t step) const {
  const uint32_t dim = program().step(step).macs_dim;
  const Binding* b = binding_of(step);
  const int64_t macs = dim == kNoTensor || b == nullptr ? 0 : b->dims.values[dim];
  return macs < 0 ? 0 : static_cast<uint64_t>(macs);
}

void SessionBase::set_hook(const StepHook& hook) {
  hook_ = hook;
  has_hook_ = hook.before != nullptr || hook.after != nullptr;
}

const uint8_t* SessionBase::tensor_data(uint32_t tensor) const {
  return current_->strides[tensor] != 0 ? nullptr : memory_.at(current_->plan.tensors[tensor]);
}

void SessionBase::reset() {
  if (current_ != nullptr) reset_variables(current_->plan, memory_);
}

void SessionBase::read_variable(uint32_t port, std::span<std::byte> to) const {
  const BoundVariable& v = current_->plan.variables[port];
  copy_port(reinterpret_cast<uint8_t*>(to.data()), memory_.variables + v.offset, v.bytes, v.mode);
}

void SessionBase::write_variable(uint32_t port, std::span<const std::byte> from) {
  const BoundVariable& v = current_->plan.variables[port];
  copy_port(memory_.variables + v.offset, reinterpret_cast<const uint8_t*>(from.data()), v.bytes, v.mode);
}

Result<void> SessionBase::check_bind(std::span<const Shape> inputs) const {
  if (inputs.size() == input_tensors_.size()) return {};
  return fail(Code::kInvalidArgument, "model has " + std::to_string(input_tensors_.size()) + " inputs, got shapes for " +
                                          std::to_string(inputs.size()));
}

Result<void> SessionBase::check_run(std::span<const void* const> inputs, std::span<void* const> outputs) const {
  if (current_ == nullptr) return fail(Code::kInvalidArgument, "session has no shapes yet: call bind() before run()");
  if (inputs.size() == input_tensors_.size() && outputs.size() == output_tensors_.size()) return {};
  return fail(Code::kInvalidArgument, "model has " + std::to_string(input_tensors_.size()) + " inputs and " +
                                          std::to_string(output_tensors_.size()) + " outputs, got " +
                                          std::to_string(inputs.size()) + " and " + std::to_string(outputs.size()));
}

tl::unexpected<Error> SessionBase::null_port(bool input, size_t port) const {
  const auto& names = input ? loaded_->input_names : loaded_->output_names;
  return fail(Code::kInvalidArgument,
              (input ? "input " : "output ") + port_name(names, static_cast<uint32_t>(port)) + " is null");
}

BindOptions SessionBase::bind_options() const {
  BindOptions options;
  options.isa = options_.isa;
  options.storage = storage_for(options_.isa);
  options.threads = parallel_.threads;
  options.elide = options_.elide;
  options.table = full_exec_table();
  options.index = &exec_index;
  return options;
}

Result<void> SessionBase::grow(Block* block, uint64_t* size, uint64_t bytes) {
  if (bytes <= *size) return {};
  Block more(bytes);
  if (more.data() == nullptr) return fail(Code::kOutOfMemory, "no memory for " + std::to_string(bytes) + " bytes");
  *block = std::move(more);
  *size = bytes;
  return {};
}

Result<void> SessionBase::use(const Binding& binding) {
  const BoundPlan& p = binding.plan;
  const bool same =
      std::equal(variables_.begin(), variables_.end(), p.variables, p.variables + p.variable_count,
                 [](const BoundVariable& a, const BoundVariable& b) { return a.offset == b.offset && a.bytes == b.bytes; });
  Block variables(0);
  if (!same) variables = Block(p.variable_bytes);
  if (variables.data() == nullptr)
    return fail(Code::kOutOfMemory, "no memory for variables of " + std::to_string(p.variable_bytes) + " bytes");
  LATHE_CHECK_OK(grow(&arena_, &arena_size_, p.arena_bytes));
  memory_.arena = arena_.data();
  if (!same) {
    variable_block_ = std::move(variables);
    memory_.variables = variable_block_.data();
    variables_.assign(p.variables, p.variables + p.variable_count);
    reset_variables(p, memory_);
  }
  current_ = &binding;
  return {};
}

void SessionBase::run_segment(uint32_t begin, uint32_t end) {
  run_steps(current_->plan, full_exec_table(), memory_, parallel_, has_hook_ ? &hook_ : nullptr, begin, end);
}

}  // namespace lathe
