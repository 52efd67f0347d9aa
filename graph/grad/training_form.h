// From a network as it is imported to the one that is trained: parameters become variables, and batch normalization uses the
// statistics of the batch and keeps running ones.
#pragma once
#include <vector>

#include "graph/ir.h"

namespace lathe {

// A constant of the imported graph and the variable that stands for it.
struct Trained {
  std::string constant;  // its name
  ValueId variable;
};
struct TrainingForm {
  std::vector<Trained> parameters;  // what gradients are taken of
  std::vector<Trained> statistics;  // running means and variances, which each run assigns
};

// Parameters are constant float32 operands that the op table calls weights, biases and scales, of batch normalization its scale
// and bias, of MatMul its constant operand, and tables whose rows a Gather reads. A constant with several readers is one
// variable. After a run a running statistic s of a batch's b is (1 - momentum) s + momentum b, the variance of the batch
// unbiased (n / (n - 1)). Errors: kInvalidArgument (momentum outside (0, 1]; nothing to train).
Result<TrainingForm> make_training_form(Graph& graph, float momentum = 0.1f);

}  // namespace lathe
