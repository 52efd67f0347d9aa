// Losses as nodes of the graph, each a mean over the batch, one f32. Logits are [batch, classes], labels s32 or s64 [batch].
//
// Functions append to `graph` and return the loss. Errors: kInvalidArgument (shapes and types that do not fit, both named; a
// parameter outside its range).
#pragma once
#include "graph/ir.h"

namespace lathe::train {

// Which class every row is of. With mixup (Zhang, Cisse, Dauphin, Lopez-Paz 2018) a row is `mix` (f32 [batch], in [0, 1]) of class
// `labels` and 1 - mix of class `mixed`.
struct Labels {
  Labels(ValueId labels) : labels(labels) {}
  Labels(ValueId labels, ValueId mixed, ValueId mix) : labels(labels), mixed(mixed), mix(mix) {}
  ValueId labels, mixed = kNoId, mix = kNoId;
};

// -mean sum_c t_c log softmax(logits)_c, t the labels' one-hot vector, of which `smoothing` (0 <= smoothing < 1) is spread over
// all classes.
Result<ValueId> cross_entropy(Graph& graph, ValueId logits, const Labels& labels, float smoothing = 0.0f);

// mean (y - target)^2 over all elements.
Result<ValueId> mean_squared(Graph& graph, ValueId y, ValueId target);

// Hinton, Vinyals, Dean, "Distilling the Knowledge in a Neural Network" (2015), with a factor T^2 that keeps the gradients' size:
//   (1 - alpha) cross_entropy + alpha T^2 mean sum_c p_t (log p_t - log p_s),  p = softmax(logits / T)
// The teacher's logits are an input like any other: only gradients that are asked for are made.
struct Distillation {
  float alpha = 0.5f;        // in [0, 1]
  float temperature = 4.0f;  // above 0
  float smoothing = 0.0f;
};
Result<ValueId> distillation(Graph& graph, ValueId logits, ValueId teacher_logits, const Labels& labels, const Distillation& options);

}  // namespace lathe::train
