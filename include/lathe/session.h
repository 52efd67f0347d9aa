// Running a model: memory, threads and kernels for one stream of requests.
//
// Ownership: a Session keeps its Model alive and owns its arena and variables; input and output arrays stay the caller's.
// Thread-safety: one Session, one thread at a time. For parallel requests make several sessions of one Model: they share the
// weights. Errors: as in lathe/model.h.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lathe/model.h"

namespace lathe {

class HostSession;

struct SessionConfig {
  // Threads that one run may use. Results do not depend on it, bit for bit. 0: as many as this process may use CPUs.
  uint32_t threads = 1;
  // The highest instruction set to use, by name: scalar, avx2, avx512, avx512vnni, neon, dotprod. Empty: the machine's, capped by
  // environment variable LATHE_ISA. 8-bit results do not depend on it.
  std::string isa;
  // Promises that every input array may be read, though not used, up to 63 bytes past its end: its memory is there. Inputs that a
  // kernel reads in whole vectors then need no copy. Others, such as floats that are quantized first, are never copied.
  bool padded_inputs = false;
};

class Session {
 public:
  // Chooses kernels. If the model leaves no dim open the session is bound and can run at once. Errors: an unknown instruction
  // set, a plan that this build cannot run.
  static std::optional<Session> create(const Model& model, const SessionConfig& config = {}, std::string* error = nullptr);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  // Prepares for these input shapes, one per input. Shapes seen before cost nothing (the last 32 are kept). Errors name the input
  // and both numbers; the shapes in use stay then.
  bool bind(const std::vector<Shape>& input_shapes, std::string* error = nullptr);
  // Shapes of the outputs for the bound inputs. Requires: bound. Where a shape depends on data (found objects, unique values) its
  // dims are -1 until run() has been; such an output is read with output_data(), and run() takes a null pointer for it.
  const Shape& output_shape(std::size_t output) const;
  // Dense bytes of an output whose shape depends on data, valid until the next run; null for all others.
  const void* output_data(std::size_t output) const;

  // One run over dense row-major arrays of the bound shapes in the types that Model says; 8-bit quantized values are int8. An
  // output array must not overlap an input. Allocates nothing. Error: not bound, or a null pointer.
  bool run(const void* const* inputs, void* const* outputs, std::string* error = nullptr);

  // Recurrent and streaming state back to its initial values.
  void reset();

  // Memory of this session, without the weights: scratch and intermediate results; and state that lives from run to run.
  uint64_t arena_bytes() const;
  uint64_t variable_bytes() const;

 private:
  explicit Session(std::unique_ptr<HostSession> session, std::size_t inputs, std::size_t outputs);
  std::unique_ptr<HostSession> session_;
  std::size_t inputs_, outputs_;
};

}  // namespace lathe
