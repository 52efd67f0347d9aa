// Runs a float graph on one sample at a time, so that every activation can be looked at or changed on the way.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "graph/ir.h"
#include "graph/lower/lower.h"
#include "runtime/host/session.h"

namespace lathe {

// Samples made by the caller from a data set. fill(i, inputs) writes sample i: one dense buffer per graph input, of its own
// element type (batch 1, sizes as the bound shapes say). Errors are returned unchanged.
struct SampleSource {
  uint64_t count = 0;
  std::function<Result<void>(uint64_t index, const std::vector<void*>& inputs)> fill;
  std::function<void(uint64_t done)> on_progress;  // may be empty
};

class SampleRunner {
 public:
  // Called for every input before a run and for every result when its step has run. Float32 values may be changed.
  using Visitor = std::function<void(uint32_t tensor, std::span<float> values)>;

  // What visitors see: float32 activations, or beside them copies of quantized 8-bit and half-precision ones as real values.
  enum class Sees : uint8_t { kFloat, kReal };

  // Symbolic dims are 1. Errors: lowering's.
  static Result<SampleRunner> create(const Graph& graph, const SessionOptions& options, Sees sees = Sees::kFloat);

  // Activations that visitors see by tensor of the program: the value of the graph that each is, kNoId for all others.
  std::span<const ValueId> activations() const { return activations_; }
  // Elements of the last axis. Requires: a rank of at least 1.
  size_t row(uint32_t tensor) const;
  const Shape& shape(uint32_t tensor) const;

  // Runs sample `index`; `visit` sees float activations in the order of the program. Errors: the source's, the session's.
  Result<void> run(const SampleSource& source, uint64_t index, const Visitor& visit);
  // Float outputs of the last run, in order; those of other types are empty.
  std::vector<std::span<const float>> outputs() const;

 private:
  struct State;
  explicit SampleRunner(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
  std::vector<ValueId> activations_;
};

}  // namespace lathe
