// What sessions of one segment and of several have in common: a program's ports, its team, the arena and the variables.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "runtime/host/plan_blocks.h"
#include "runtime/host/session.h"
#include "runtime/host/team.h"
#include "runtime/plan/bind.h"

namespace lathe {

class SessionBase : public HostSession {
 public:
  const BoundPlan& plan() const override { return current_->plan; }
  const Shape& tensor_shape(uint32_t tensor) const override { return current_->dims.shapes[tensor]; }
  const Shape& output_shape(uint32_t output) const override { return tensor_shape(output_tensors_[output]); }
  std::string kernel_names(uint32_t step) const override;
  uint64_t step_macs(uint32_t step) const override;
  void set_hook(const StepHook& hook) override;
  const uint8_t* tensor_data(uint32_t tensor) const override;
  void reset() override;
  uint64_t variable_size(uint32_t port) const override { return current_->plan.variables[port].bytes; }
  void read_variable(uint32_t port, std::span<std::byte> to) const override;
  void write_variable(uint32_t port, std::span<const std::byte> from) override;
  uint64_t arena_bytes() const override { return arena_size_; }
  uint64_t variable_bytes() const override { return current_ == nullptr ? 0 : current_->plan.variable_bytes; }

 protected:
  static constexpr size_t kPlanCache = 32;

  SessionBase(std::shared_ptr<const LoadedProgram> loaded, const SessionOptions& options, std::unique_ptr<Team> team);

  const Program& program() const { return loaded_->program; }
  // The binding that a step last ran with; null before it ran. Requires: bind() succeeded.
  virtual const Binding* binding_of(uint32_t) const { return current_; }

  Result<void> check_bind(std::span<const Shape> inputs) const;
  Result<void> check_run(std::span<const void* const> inputs, std::span<void* const> outputs) const;
  tl::unexpected<Error> null_port(bool input, size_t port) const;

  BindOptions bind_options() const;
  // Makes `binding` the current one: the arena grows to what it needs, and variables keep their values unless it lays them out
  // otherwise. On failure nothing has changed.
  Result<void> use(const Binding& binding);
  void run_segment(uint32_t begin, uint32_t end);

  // Makes a block as large as is asked for; it never shrinks.
  static Result<void> grow(Block* block, uint64_t* size, uint64_t bytes);

  std::shared_ptr<const LoadedProgram> loaded_;
  SessionOptions options_;
  std::unique_ptr<Team> team_;
  Parallel parallel_;
  std::vector<uint32_t> input_tensors_, output_tensors_;  // by port
  const Binding* current_ = nullptr;
  RunMemory memory_;

 private:
  std::vector<BoundVariable> variables_;  // as the variables region is laid out now
  Block arena_{0}, variable_block_{0};
  uint64_t arena_size_ = 0;
  StepHook hook_;
  bool has_hook_ = false;
};

}  // namespace lathe
