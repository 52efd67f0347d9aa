// A bound plan: a program with every dim known, kernels chosen and memory laid out. What the executor runs.
//
// Hosts make one per session and shape (runtime/plan/bind.h); for firmware `lathe embed` makes it offline and prints it as
// constant tables, so that start-up does no work. Plain records of 32-bit fields, equal on every target. Immutable while it runs.
#pragma once
#include <stdint.h>

#include "kernels/kernel.h"
#include "lathe/shape.h"
#include "lathe/status.h"
#include "runtime/op.h"

namespace lathe {

// Memory regions an operand can lie in; RunMemory has a base pointer for each. Inputs and outputs of the caller are regions of
// their own.
enum class Region : uint32_t {
  kNone = 0,
  kArena = 1,
  kWeights = 2,
  kVariables = 3,
  kExternal = 4,  // kExternal + i: i-th input, then outputs
};

struct BoundTensor {
  uint32_t region = 0;
  uint32_t offset = 0;  // bytes from the region's base
};

struct BoundStep {
  uint16_t exec;      // index in the exec table that the plan was made with (hosts: position of the op in ops.def)
  uint16_t n_in;
  uint32_t operands;  // first of n_in inputs and then the outputs in BoundPlan::operands; kNoTensor for none
  uint32_t params;    // byte offset in BoundPlan::params, 8-aligned: the op's own Params struct as prepare() left it
  uint32_t kernel;    // index in BoundPlan::kernels of the first of the step's kernels
  uint32_t scratch;   // byte offset in the arena, valid if the step asked for scratch
};

// How the caller's i-th input or output meets the plan. kDirect: the plan works on the caller's memory, region kExternal + i.
// kCopy, kFlip: on memory of its own, copied before or after the steps; kFlip turns the top bit of every byte, between s8 outside
// and u8 storage inside. kUnused: no step reads it.
enum class PortMode : uint32_t { kDirect = 0, kCopy = 1, kFlip = 2, kUnused = 3 };
struct BoundPort {
  uint32_t tensor;
  uint32_t bytes;
  PortMode mode;
};

// A variable's initial value: `bytes` at `offset` of the variables region, from `source` in WEIGHTS (kNoTensor: zeros), flipped
// as PortMode says.
struct BoundVariable {
  uint32_t offset;
  uint32_t bytes;
  uint32_t source;
  PortMode mode;
};

struct BoundPlan {
  const BoundTensor* tensors = nullptr;
  const BoundStep* steps = nullptr;
  const uint32_t* operands = nullptr;
  const uint8_t* params = nullptr;
  const kernels::AnyFn* kernels = nullptr;
  const BoundPort* ports = nullptr;  // inputs, then outputs
  const BoundVariable* variables = nullptr;
  uint32_t tensor_count = 0, step_count = 0;
  uint32_t input_count = 0, output_count = 0, variable_count = 0;
  uint32_t arena_bytes = 0, variable_bytes = 0;
  // Largest sum of bytes alive at one step; arena_bytes adds the readable tail behind the last row.
  uint32_t arena_lower_bound = 0;
  kernels::Storage storage = kernels::Storage::kS8;
};

// Runs fn(arg, task, slot) for task in [0, n), in any order, on at most `threads` threads; slot < threads names the one that runs
// it, for scratch.
struct Parallel {
  // Null: a plain loop.
  void (*run)(void* team, uint32_t n, void (*fn)(void* arg, uint32_t task, uint32_t slot), void* arg) = nullptr;
  void* team = nullptr;
  uint32_t threads = 1;
};

// Called before and after every step; serves profiler, observers and checks. Must not allocate if the caller counts on it.
struct StepHook {
  void (*before)(void* self, uint32_t step) = nullptr;
  void (*after)(void* self, uint32_t step) = nullptr;
  void* self = nullptr;
};

struct RunMemory {
  uint8_t* arena = nullptr;           // arena_bytes, 64-byte aligned on hosts, 8 in firmware
  const uint8_t* weights = nullptr;
  uint8_t* variables = nullptr;
  uint8_t* const* external = nullptr;  // inputs, then outputs

  uint8_t* at(const BoundTensor& t) const {
    if (t.region == static_cast<uint32_t>(Region::kArena)) return arena + t.offset;  // nearly all of them
    switch (static_cast<Region>(t.region)) {
      case Region::kNone: return nullptr;
      case Region::kWeights: return const_cast<uint8_t*>(weights) + t.offset;
      case Region::kVariables: return variables + t.offset;
      default: return external[t.region - static_cast<uint32_t>(Region::kExternal)] + t.offset;
    }
  }
};

// What an exec entry's run() sees.
class RunContext {
 public:
  RunContext(const BoundPlan& plan, const RunMemory& memory, const Parallel& parallel)
      : plan_(plan), memory_(memory), parallel_(parallel) {}

  // Operand i of the step (inputs, then outputs), or null if it is missing.
  uint8_t* operand(const BoundStep& s, uint32_t i) const {
    const uint32_t t = plan_.operands[s.operands + i];
    return t == 0xffffffffu ? nullptr : memory_.at(plan_.tensors[t]);
  }
  // Input i, or null if it is missing; programs drop trailing missing ones.
  template <class T>
  const T* in(const BoundStep& s, uint32_t i) const {
    return i < s.n_in ? reinterpret_cast<const T*>(operand(s, i)) : nullptr;
  }
  template <class T> T* out(const BoundStep& s, uint32_t i) const { return reinterpret_cast<T*>(operand(s, s.n_in + i)); }
  template <class P> const P& params(const BoundStep& s) const { return *reinterpret_cast<const P*>(plan_.params + s.params); }
  // The i-th kernel that the step's prepare() chose, as the family's function type.
  template <class Fn>
  Fn kernel(const BoundStep& s, uint32_t i = 0) const {
    return reinterpret_cast<Fn>(plan_.kernels[s.kernel + i]);
  }
  kernels::Storage storage() const { return plan_.storage; }
  uint8_t* scratch(const BoundStep& s) const { return memory_.arena + s.scratch; }
  // Runs fn(task, slot) for every task in [0, n); F is a lambda that outlives the call.
  template <class F> void parallel(uint32_t n, const F& fn) const {
    if (parallel_.run == nullptr || n <= 1) {
      for (uint32_t i = 0; i < n; ++i) fn(i, 0u);
      return;
    }
    parallel_.run(parallel_.team, n, [](void* arg, uint32_t task, uint32_t slot) { (*static_cast<const F*>(arg))(task, slot); },
                  const_cast<void*>(static_cast<const void*>(&fn)));
  }

 private:
  const BoundPlan& plan_;
  const RunMemory& memory_;
  const Parallel& parallel_;
};

}  // namespace lathe
