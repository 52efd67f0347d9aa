// Optimizers as nodes: they read parameters (variables) and their gradients, keep their state in variables of the graph, and
// assign all of them at the end of a run, so that one run of the program is one step. They return what each parameter becomes.
//
// `rate`, the learning rate, is an f32 of one element: an input for schedules. Weight decay leaves vectors alone, which are
// biases and the parameters of normalizations. Errors: kInvalidArgument (a parameter that is no variable, a gradient of another
// type, an option out of range).
#pragma once
#include <span>
#include <vector>

#include "graph/ir.h"

namespace lathe::train {

struct Parameter {
  ValueId variable;
  ValueId gradient;
};

// Stochastic gradient descent with momentum: v = momentum v + g + decay w; w -= rate v, or with `nesterov` w -= rate (g + decay
// w + momentum v).
struct SgdOptions {
  float momentum = 0.9f;  // in [0, 1)
  float weight_decay = 0.0f;
  bool nesterov = false;
  float clip_norm = 0.0f;  // gradients together are scaled down to this Euclidean norm; 0: never
};
Result<std::vector<ValueId>> add_sgd(Graph& graph, std::span<const Parameter> parameters, ValueId rate, const SgdOptions& options);

// Loshchilov, Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2, with the rate as its schedule: m and v are
// moving averages of g and g^2, divided by 1 - beta^t; w -= rate (m / (sqrt v + epsilon) + decay w).
struct AdamWOptions {
  float beta1 = 0.9f, beta2 = 0.999f;  // in [0, 1)
  float epsilon = 1e-8f;               // above 0
  float weight_decay = 0.01f;
  float clip_norm = 0.0f;
};
Result<std::vector<ValueId>> add_adamw(Graph& graph, std::span<const Parameter> parameters, ValueId rate,
                                       const AdamWOptions& options);

// A moving average of a variable that becomes `next` in every run: average = decay average + (1 - decay) next, from the initial
// value on. `decay`: f32 of one element, for example an input. Returns the average's variable.
Result<ValueId> add_average(Graph& graph, ValueId variable, ValueId next, ValueId decay);

// The gradient of amount * sum |w| added to one of w: what makes scales small (Liu et al., "Learning Efficient Convolutional
// Networks through Network Slimming", 2017).
Result<ValueId> add_shrinkage(Graph& graph, const Parameter& parameter, float amount);

}  // namespace lathe::train
