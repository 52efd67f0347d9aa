// Sessions on hosts: memory, threads and plans around the freestanding executor.
//
// LoadedProgram (immutable, shared between threads) -> HostSession (arena, variables, plans; one thread at a time).
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/isa.h"
#include "lathe/shape.h"
#include "runtime/bound.h"
#include "runtime/program.h"

namespace lathe {

// A program and whatever keeps its bytes alive (a mapped file, or an image that lowering made).
struct LoadedProgram {
  std::shared_ptr<const void> owner;
  Program program;
  std::vector<std::string> input_names, output_names;
  std::vector<std::string> step_names, step_ops;  // may be empty (stripped file)
  std::vector<std::string> symbol_names;          // may be empty
  std::vector<std::string> variable_names;        // by port; empty for a program from a file
};

struct SessionOptions {
  kernels::IsaSet isa = kernels::kIsaScalar;  // machine_isa() of runtime/host/cpu.h, or a lower level
  uint32_t threads = 1;   // of the kernel team; results do not depend on it
  bool padded_inputs = false;  // input arrays may be read up to 63 bytes past their ends, which saves copying them
  bool elide = true;           // false: every tensor is dense and every step writes its own, for observers
};

class HostSession {
 public:
  static Result<std::unique_ptr<HostSession>> create(std::shared_ptr<const LoadedProgram> program, const SessionOptions& options);
  virtual ~HostSession() = default;

  // Makes or finds (cache of 32, least recently used goes) the plan for these input shapes. Errors name the input and both
  // numbers.
  virtual Result<void> bind(std::span<const Shape> input_shapes) = 0;
  // The plan in use. Requires: bind() succeeded.
  virtual const BoundPlan& plan() const = 0;
  virtual const Shape& tensor_shape(uint32_t tensor) const = 0;
  virtual const Shape& output_shape(uint32_t output) const = 0;
  // The kernel names of a step, for reports; "elided" if it has nothing to do.
  virtual std::string kernel_names(uint32_t step) const = 0;
  virtual uint64_t step_macs(uint32_t step) const = 0;

  // Whether the shape of an output depends on data: it is known when run() has been, its dims are -1 before. Such outputs are read
  // with output_data(); what run() is given for them is not used.
  virtual bool is_open(uint32_t) const { return false; }
  // Dense bytes of an output that is open, valid until the next run. Requires: is_open() and a run.
  virtual const uint8_t* output_data(uint32_t) const { return nullptr; }

  // One run: pointers to dense row-major data of the bound shapes, in the program's dtypes (8-bit quantized values as s8). No
  // allocation, unless shapes depend on data and are new.
  virtual Result<void> run(std::span<const void* const> inputs, std::span<void* const> outputs) = 0;
  virtual void set_hook(const StepHook& hook) = 0;
  // Where a tensor's bytes lie in the current plan, valid inside a hook while the tensor is alive. Null if they are not dense,
  // which SessionOptions::elide = false rules out.
  virtual const uint8_t* tensor_data(uint32_t tensor) const = 0;
  // Variables back to their initial values.
  virtual void reset() = 0;
  // A variable by port (LoadedProgram::variable_names), dense, in the program's dtype. Requires: bind() succeeded, the port exists,
  // the span has variable_size() bytes.
  virtual uint64_t variable_size(uint32_t port) const = 0;
  virtual void read_variable(uint32_t port, std::span<std::byte> to) const = 0;
  virtual void write_variable(uint32_t port, std::span<const std::byte> from) = 0;
  virtual uint64_t arena_bytes() const = 0;
  virtual uint64_t variable_bytes() const = 0;
};

}  // namespace lathe
