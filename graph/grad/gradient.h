// Reverse-mode differentiation: gradients become nodes of the same graph, which the same executor runs.
//
// The rules stand in graph/grad/rules.inc, one per op. They write backward passes with the ops that there are (the gradient of
// a convolution's input is a transposed convolution), so that passes and lowering see nothing new. Differentiate before
// lowering_passes(); what an imported graph has already fused (clamps, residuals) is differentiated too.
#pragma once
#include <span>
#include <vector>

#include "graph/ir.h"

namespace lathe {

// Appends to `graph` what computes d loss / d v for every v of `of`, which are float32 inputs, variables or temporaries, and
// returns the gradients, each of its value's type; kNoId where the loss does not depend on v. Where an op has a kink (a clamp's
// bounds) the gradient is that of its flat side; of equal maxima the first in a pooling window has all, and those of a
// reduction share.
//
// Requires: `loss` is a float32 value of one element. Errors name node and op: kUnsupported (no rule for it, or not for this
// form), kInvalidArgument (a variable that the graph assigns is read on the way from `of` to the loss: backward nodes would see
// the new value).
Result<std::vector<ValueId>> add_gradients(Graph& graph, ValueId loss, std::span<const ValueId> of);

// Whether `op` has a rule.
bool has_gradient(Op op);

}  // namespace lathe
