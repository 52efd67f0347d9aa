#include "prune/slices.h"

#include <algorithm>

namespace lathe::prune {

std::vector<size_t> member_elements(const Graph& graph, const Member& member, size_t channel) {
  const auto& dims = graph.value(member.value).type.dims;
  size_t outer = 1, inner = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto n = static_cast<size_t>(graph.dims().value(dims[d]).value_or(0));
    if (d < member.axis) outer *= n;
    if (d > member.axis) inner *= n;
  }
  const auto length = static_cast<size_t>(graph.dims().value(dims[member.axis]).value_or(0));
  const auto extent = static_cast<int64_t>(length);
  std::vector<size_t> out;
  for (const int64_t index : member.indices[channel]) {
    // A part is as many of the outermost rows, one group's outputs.
    const auto part = static_cast<size_t>(index / extent), at = static_cast<size_t>(index % extent);
    for (size_t o = part * outer / member.parts; o < (part + 1) * outer / member.parts; ++o)
      for (size_t i = 0; i < inner; ++i) out.push_back((o * length + at) * inner + i);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace lathe::prune
