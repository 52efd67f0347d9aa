#include "prune/blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "graph/lineage.h"
#include "graph/rewriter.h"

namespace lathe::prune {
namespace {

// Calls fn(block, element of w) for every element. Blocks are numbered by panel, segment and quad.
template <class F>
void for_each_element(const kernels::SparseShape& s, const F& fn) {
  size_t at = 0;
  for (uint32_t c = 0; c < s.n; ++c) {
    for (uint32_t seg = 0; seg < s.segs; ++seg) {
      const size_t first = (size_t{c / kernels::kGemmPanel} * s.segs + seg) * s.quads();
      for (uint32_t k = 0; k < s.seg_k; ++k) fn(first + k / kernels::kGemmQuad, at++);
    }
  }
}

double energy(std::span<const float> w) {
  double sum = 0;
  for (const float v : w) sum += double{v} * v;
  return sum;
}

}  // namespace

uint64_t zero_smallest_blocks(std::span<float> w, const kernels::SparseShape& shape, double ratio) {
  std::vector<double> norm(shape.blocks());
  for_each_element(shape, [&](size_t block, size_t at) { norm[block] += double{w[at]} * w[at]; });
  for (double& v : norm)
    if (std::isnan(v)) v = std::numeric_limits<double>::infinity();
  std::vector<size_t> order(norm.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return norm[a] < norm[b]; });
  const auto most = static_cast<size_t>(std::llround(ratio * static_cast<double>(norm.size())));
  std::vector<bool> zero(norm.size());
  for (size_t i = 0; i < norm.size(); ++i) zero[order[i]] = i < most || norm[order[i]] == 0;
  for_each_element(shape, [&](size_t block, size_t at) {
    if (zero[block]) w[at] = 0;
  });
  return static_cast<uint64_t>(std::count(zero.begin(), zero.end(), true));
}

Result<Blocked> zero_blocks(const Graph& graph, double ratio) {
  if (!(ratio > 0 && ratio < 1))
    return fail(Code::kInvalidArgument, "a share of blocks must be between 0 and 1, is " + std::to_string(ratio));
  Blocked out{graph, {}};
  std::set<ValueId> seen;
  Rewriter rewriter(out.graph);
  for (const NodeId n : rewriter.nodes()) {
    const Node& node = graph.node(n);
    const std::optional<WeightBlocks> blocks = weight_blocks(graph, node);
    if (!blocks || !seen.insert(blocks->weight).second) continue;
    const Value& weight = graph.value(blocks->weight);
    if (weight.type.dtype != DType::kF32)
      return fail(Code::kInvalidArgument,
                  "the model is quantized already ('" + weight.name + "'): prune the float model first, then quantize");
    const std::span<const float> elements = weight.constant.as<float>();
    std::vector<float> w(elements.begin(), elements.end());
    BlockRow row{node.name, weight.name, blocks->shape.blocks(), zero_smallest_blocks(w, blocks->shape, ratio), false, 0};
    row.pruned = blocks->pays(row.blocks - row.zeros);
    if (row.pruned) {
      const double before = energy(elements);
      row.energy = before > 0 ? 1 - energy(w) / before : 0;
      rewriter.set_constant(blocks->weight, Constant::of(w));
    } else {
      w.assign(elements.begin(), elements.end());
      row.zeros = zero_smallest_blocks(w, blocks->shape, 0);
    }
    out.rows.push_back(std::move(row));
  }
  LATHE_CHECK_OK(rewriter.ok());
  set_lineage(graph, &out.graph);
  return out;
}

}  // namespace lathe::prune
