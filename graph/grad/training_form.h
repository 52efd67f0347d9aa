// From a network as it is imported to the one that is trained: parameters become variables, and batch normalization uses the
// statistics of the batch and keeps running ones.
#pragma once
#include <vector>

#include "graph/ir.h"

namespace lathe {

// What a parameter does: a product's weight, rows that are looked up, what is added, and what normalizations multiply by.
enum class ParameterRole : uint8_t { kWeight, kTable, kBias, kScale };

// A constant of the imported graph and the variable that stands for it.
struct Trained {
  std::string constant;  // its name
  ValueId variable;
  ParameterRole role = ParameterRole::kWeight;
  bool batch_norm = false;   // of a batch normalization, whose scale can switch its channel off
  int64_t fan_in = 1;        // kWeight: how many products make one result
  ValueId next = kNoId;      // statistics: what the run assigns
};
struct TrainingForm {
  std::vector<Trained> parameters;  // what gradients are taken of
  std::vector<Trained> statistics;  // running means (kBias) and variances (kScale), which each run assigns
};

// Parameters are constant float32 operands that the op table calls weights, biases and scales, of batch normalization its scale
// and bias, of MatMul its constant operand, and tables whose rows a Gather reads. A weight may stand behind a
// FakeQuant, whose factors (operands of StepSize) are parameters (kScale), too. Behind those, a constant operand of Add or Mul is
// one too if it is a vector (one axis longer than 1: a bias, a layer's scale), and one of Add also if it is a table over the
// channels (positions) that is neither added to what a softmax reads nor a mask (only 0 and 1, or a value of 1e4 and more). So
// scalars, masks, rotary tables and what normalizes the model's input stay constants. A constant with several readers is one
// variable. After a run a running statistic s of a batch's b is (1 - momentum) s + momentum b, the variance of the batch
// unbiased (n / (n - 1)). Errors: kInvalidArgument (momentum outside (0, 1]; nothing to
// train; a quantized network).
Result<TrainingForm> make_training_form(Graph& graph, float momentum = 0.1f);

// What `output` is a softmax of along its last axis, or else `output` itself: losses want logits.
ValueId logits_of(const Graph& graph, ValueId output);

}  // namespace lathe
