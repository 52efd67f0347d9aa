// A float BatchNorm that no convolution took becomes Mul and Add by constants that broadcast along its axis, which have integer
// forms and take activations. BatchNorm with parameters that are no constants stays.
#include "graph/passes/affine.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

ValueId broadcast_constant(Rewriter& rewriter, const std::string& stem, const std::vector<double>& values, size_t trailing_ones) {
  std::vector<int64_t> dims(1 + trailing_ones, 1);
  dims[0] = static_cast<int64_t>(values.size());
  return new_f32_constant(rewriter, stem, dims, std::vector<float>(values.begin(), values.end()));
}

}  // namespace

Result<void> split_batchnorm(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    const Node node = graph.node(n);
    if (node.dead || node.op != Op::kBatchNorm || !is_float(graph, node.outputs[0])) continue;
    const std::optional<Affine> affine = batchnorm_affine(graph, node);
    if (!affine) continue;
    const size_t trailing =
        graph.value(node.inputs[0]).type.dims.size() - 1 - static_cast<size_t>(std::get<BatchNormAttrs>(node.attrs).axis);
    const ValueId scale = broadcast_constant(rewriter, node.name + ".scale", affine->scale, trailing);
    const ValueId shift = broadcast_constant(rewriter, node.name + ".shift", affine->shift, trailing);
    const ValueId product =
        rewriter.insert(n, Op::kMul, BinaryAttrs{}, {node.inputs[0], scale}, graph.fresh_name(node.name + ".mul"));
    rewriter.substitute(n, Op::kAdd, BinaryAttrs{}, {product, shift});
  }
  return rewriter.ok();
}

}  // namespace lathe::passes
