// Every rewrite, one function and one file each (graph/passes/<name>.cc). The ordered lists stand in graph/pass.cc.
//
// A pass edits only through the rewriter and leaves a graph that verify() accepts; it keeps what the graph computes. `true only
// of float` rewrites look at values without quantization parameters, because passes never remove a rounding that a quantized
// graph states.
#pragma once
#include "graph/rewriter.h"

namespace lathe::passes {

// Values whose contents inference knows completely become constants.
Result<void> fold_shapes(Rewriter& rewriter);
// Nodes whose operands are all constants are run once and replaced.
Result<void> fold_constants(Rewriter& rewriter);
// Nodes that return their operand unchanged go.
Result<void> drop_identities(Rewriter& rewriter);
// Transposes are composed, cancelled, and moved through the ops between where that makes them fewer.
Result<void> cancel_transposes(Rewriter& rewriter);
// The same with a bound on its work, in pairs of nodes that are looked at.
Result<void> cancel_transposes_within(Rewriter& rewriter, uint64_t pairs);
// A transpose before flattening goes into the fully connected weights behind it.
Result<void> fold_flatten(Rewriter& rewriter);
// Dequantize, a float op and Quantize become the op on integers.
Result<void> fuse_quantized(Rewriter& rewriter);
// Activations quantized on the fly, and the product of integers behind them, become a DynamicFullyConnected.
Result<void> fuse_dynamic(Rewriter& rewriter);
// Unread nodes and constants go.
Result<void> dead_code(Rewriter& rewriter);

// A constant Add or Sub after a convolution or fully connected op becomes its bias.
Result<void> fuse_bias(Rewriter& rewriter);
// BatchNorm goes into the weights and bias of the convolution or fully connected op before it.
Result<void> fold_batchnorm(Rewriter& rewriter);
// A BatchNorm that is left becomes a multiplication and an addition by constants.
Result<void> split_batchnorm(Rewriter& rewriter);
// Transposes around a MatMul become its permutations.
Result<void> fold_matmul_transposes(Rewriter& rewriter);
// A constant factor around a MatMul becomes its scale.
Result<void> fuse_scale(Rewriter& rewriter);
// Layer normalization, GELU and SiLU that are written with other ops become one.
Result<void> fuse_layer_norm(Rewriter& rewriter);
Result<void> fuse_gelu(Rewriter& rewriter);
Result<void> fuse_silu(Rewriter& rewriter);
// Weights with a zero point become symmetric, in several parts where they need more than 8 bits.
Result<void> split_weights(Rewriter& rewriter);
// Zero padding goes into the convolution or pool that reads it.
Result<void> fuse_pad(Rewriter& rewriter);
// A clamp of a clamp is one clamp.
Result<void> fuse_clamps(Rewriter& rewriter);
// An Add of a convolution's or fully connected op's result becomes its residual operand.
Result<void> fuse_residual(Rewriter& rewriter);
// A clamp goes into the op that makes its operand.
Result<void> fuse_activation(Rewriter& rewriter);

}  // namespace lathe::passes
