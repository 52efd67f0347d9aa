// The values of an activation that count for its range.
//
// What cannot change a result must not widen a range: where only a softmax reads a tensor, values far below the largest of their
// row count as if they lay where they begin to matter. Not thread-safe.
#pragma once
#include <span>
#include <vector>

#include "graph/ir.h"
#include "quant/sample_runner.h"

namespace lathe {

class CountedValues {
 public:
  // Both must outlive the object.
  CountedValues(const Graph& graph, const SampleRunner& runner);
  // `values` themselves, or a copy that lives until the next call. Requires: `tensor` is an activation of the runner.
  std::span<const float> of(uint32_t tensor, std::span<const float> values);

 private:
  std::span<const float> lifted(std::span<const float> values, size_t row, float reach);

  const SampleRunner& runner_;
  std::vector<float> reach_;  // by tensor; 0: the whole range counts
  std::vector<float> scratch_;
};

// Whether none is NaN or infinite.
bool all_finite(std::span<const float> values);

}  // namespace lathe
