// Binds and runs a program with the freestanding core alone, as firmware would: for tests of the planner and of exec functions.
#pragma once
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/executor.h"
#include "runtime/plan/bind.h"
#include "tests/runtime/program_builder.h"

namespace lathe::test {

// Memory for one binding, freed with it.
class HeapPlanMemory {
 public:
  PlanMemory memory() { return {&take, this}; }

 private:
  static void* take(void* self, uint64_t bytes) {
    auto& blocks = static_cast<HeapPlanMemory*>(self)->blocks_;
    blocks.push_back(aligned_bytes(bytes));
    return blocks.back().get();
  }
  std::vector<Aligned<uint8_t>> blocks_;
};

// A bound program with its memory. Arena and variables end with guard-free exact sizes, so that AddressSanitizer sees what a step
// does outside of them.
class CoreRun {
 public:
  Status bind(const Program& program, const std::vector<Shape>& inputs, const BindOptions& options) {
    options_ = options;
    BoundDims dims;
    Status s = evaluate_dims(program, inputs.data(), heap_.memory(), &dims);
    if (s.ok()) s = lathe::bind(program, dims, options, heap_.memory(), &binding);
    if (!s.ok()) return s;
    arena_ = exact(binding.plan.arena_bytes);
    variables_ = exact(binding.plan.variable_bytes);
    std::memset(arena_.get(), 0xa5, binding.plan.arena_bytes);
    std::memset(variables_.get(), 0, binding.plan.variable_bytes + 1);
    external_.assign(binding.plan.input_count + binding.plan.output_count, nullptr);
    memory = {arena_.get(), program.weights().data, variables_.get(), external_.data()};
    reset_variables(binding.plan, memory);
    return {};
  }
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs, const StepHook* hook = nullptr,
           const Parallel& parallel = {}) {
    for (size_t i = 0; i < inputs.size(); ++i) external_[i] = static_cast<uint8_t*>(const_cast<void*>(inputs[i]));
    for (size_t i = 0; i < outputs.size(); ++i) external_[inputs.size() + i] = static_cast<uint8_t*>(outputs[i]);
    load_inputs(binding.plan, memory, inputs.data());
    run_steps(binding.plan, options_.table, memory, parallel, hook, 0, binding.plan.step_count);
    store_outputs(binding.plan, memory, outputs.data());
  }

  Binding binding;
  RunMemory memory;

 private:
  static Aligned<uint8_t> exact(uint32_t bytes) {
    return Aligned<uint8_t>(static_cast<uint8_t*>(::operator new (bytes + 1, std::align_val_t{64})));
  }

  BindOptions options_;
  HeapPlanMemory heap_;
  Aligned<uint8_t> arena_, variables_;
  std::vector<uint8_t*> external_;
};

}  // namespace lathe::test
