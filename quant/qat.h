// Quantization-aware training: a float graph computes as if it were integer, is trained so, and becomes the integer graph.
//
// quant/ inserts and converts, whoever holds both trains between: insert() gives a graph of constants that trains as any other
// (graph/grad/training_form.h, train/trainer.h), and convert() takes it back with the constants that training found. Batch
// normalizations are folded before (lowering_passes()), with the statistics that they have: what is trained is exactly what will
// run, and no statistics move.
#pragma once
#include "graph/ir.h"
#include "quant/ptq.h"

namespace lathe::qat {

// A step size is the calibrated one times a factor that is trained, kept within these: it stays positive whatever the rate.
inline constexpr float kLeastFactor = 1.0f / 16, kLargestFactor = 4.0f;

struct Options {
  bool learn_steps = true;  // else the calibrated scales stay
};

// The graph whose every value that quantize_graph() would make integer goes through a FakeQuant on the grid that it would have: the same
// decisions, weight scales and ranges, borders included. Its factors are vectors or single numbers, which optimizers do not decay.
// Nodes and constants of `graph` keep their names. Tables that become integer row by row stay float until convert().
// Requires: `graph` went through lowering_passes(). Errors: quantize_graph()'s.
Result<Graph> insert(const Graph& graph, const RangeTable& ranges, const QuantizeOptions& quantize, const Options& options = {});

// The integer graph of the same form as quantize_graph()'s, which computes what `trained` computes but for one step in each op. Weights
// are rounded to the trained scales, biases to the products of scales, which grow where a bias does not fit; of `quantize` only
// keep_float counts: what it names stays float. Errors: a graph without grids; weights or biases that are not finite.
struct Converted {
  Graph graph;
  uint32_t widened_channels = 0;
};
Result<Converted> convert(const Graph& trained, const QuantizeOptions& quantize);

}  // namespace lathe::qat
