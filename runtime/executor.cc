#include "runtime/executor.h"

namespace lathe {

void copy_port(uint8_t* to, const uint8_t* from, uint32_t bytes, PortMode mode) {
  if (mode == PortMode::kCopy) {
    __builtin_memcpy(to, from, bytes);
    return;
  }
  for (uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<uint8_t>(from[i] ^ 0x80);
}

namespace {

bool copied(const BoundPort& port) { return (port.mode == PortMode::kCopy || port.mode == PortMode::kFlip) && port.bytes != 0; }

}  // namespace

void load_inputs(const BoundPlan& plan, const RunMemory& memory, const void* const* inputs) {
  for (uint32_t i = 0; i < plan.input_count; ++i) {
    const BoundPort& port = plan.ports[i];
    if (copied(port))
      copy_port(memory.at(plan.tensors[port.tensor]), static_cast<const uint8_t*>(inputs[i]), port.bytes, port.mode);
  }
}

void store_outputs(const BoundPlan& plan, const RunMemory& memory, void* const* outputs) {
  for (uint32_t i = 0; i < plan.output_count; ++i) {
    const BoundPort& port = plan.ports[plan.input_count + i];
    if (copied(port)) copy_port(static_cast<uint8_t*>(outputs[i]), memory.at(plan.tensors[port.tensor]), port.bytes, port.mode);
  }
}

void reset_variables(const BoundPlan& plan, const RunMemory& memory) {
  for (uint32_t i = 0; i < plan.variable_count; ++i) {
    const BoundVariable& v = plan.variables[i];
    uint8_t* to = memory.variables + v.offset;
    if (v.source != kNoTensor) {
      copy_port(to, memory.weights + v.source, v.bytes, v.mode);
    } else {
      __builtin_memset(to, v.mode == PortMode::kFlip ? 0x80 : 0, v.bytes);
    }
  }
}

void run_steps(const BoundPlan& plan, const ExecEntry* table, const RunMemory& memory, const Parallel& parallel,
               const StepHook* hook, uint32_t begin, uint32_t end) {
  const RunContext context(plan, memory, parallel);
  for (uint32_t i = begin; i < end; ++i) {
    if (hook != nullptr && hook->before != nullptr) hook->before(hook->self, i);
    table[plan.steps[i].exec].run(context, plan.steps[i]);
    if (hook != nullptr && hook->after != nullptr) hook->after(hook->self, i);
  }
}

}  // namespace lathe
