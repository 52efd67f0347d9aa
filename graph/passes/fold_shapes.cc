// Values whose contents inference knows as numbers become constants, so that shape subgraphs vanish. Contents with symbols stay:
// their readers take them from inference, and lowering does not run what only feeds shapes.
#include <limits>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace lathe::passes {
namespace {

template <class T>
std::optional<Constant> as_constant(const std::vector<int64_t>& numbers) {
  std::vector<T> out;
  for (int64_t n : numbers) {
    if (n < std::numeric_limits<T>::min() || n > std::numeric_limits<T>::max()) return std::nullopt;
    out.push_back(static_cast<T>(n));
  }
  return Constant::of(out);
}

std::optional<Constant> known_contents(const Graph& graph, const Value& value) {
  if (!value.contents || value.quant) return std::nullopt;
  std::vector<int64_t> numbers;
  for (Dim d : *value.contents) {
    const std::optional<int64_t> n = graph.dims().value(d);
    if (!n) return std::nullopt;
    numbers.push_back(*n);
  }
  if (value.type.dtype == DType::kS64) return as_constant<int64_t>(numbers);
  if (value.type.dtype == DType::kS32) return as_constant<int32_t>(numbers);
  return std::nullopt;
}

}  // namespace

Result<void> fold_shapes(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId n : rewriter.nodes()) {
    for (ValueId out : std::vector<ValueId>(graph.node(n).outputs)) {
      if (graph.is_output(out) || graph.consumers(out).empty()) continue;
      std::optional<Constant> contents = known_contents(graph, graph.value(out));
      if (!contents) continue;
      rewriter.replace(out,
                       rewriter.constant(graph.fresh_name(graph.value(out).name), graph.value(out).type, std::move(*contents)));
    }
  }
  rewriter.sweep();
  return rewriter.ok();
}

}  // namespace lathe::passes
