// Gradients against central differences of the graph's own results, element by element.
#pragma once
#include <string>
#include <vector>

#include "graph/ir.h"
#include "kernels/isa.h"
#include "lathe/shape.h"

namespace lathe::test {

// Values of one input: evenly spaced in [lo, hi] in a random order, so that no two are closer than a difference step and none
// lies on a middle kink.
struct Range {
  float lo = -2.0f, hi = 2.0f;
};

// Dims of a value, symbols as 3.
Shape input_shape(const Graph& graph, ValueId v);

// `loss`, one f32, is the sum of the elements of `terms` (which may be the loss itself) and is differentiated by all float
// inputs; the differences are of the sum in double. Integer inputs are 0, 1, 2, ... modulo `modulus`. Returns what is wrong, or
// an empty text.
std::string check_gradients(Graph graph, ValueId terms, ValueId loss, const Range& range, int64_t modulus = 3);

// All outputs of one run on such inputs.
Result<std::vector<std::vector<float>>> run_on_range(const Graph& graph, const Range& range, kernels::IsaSet isa,
                                                     uint32_t threads);

}  // namespace lathe::test
