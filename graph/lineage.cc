#include "graph/lineage.h"

#include <algorithm>
#include <map>
#include <vector>

namespace lathe {

Hash128 content_hash(const Graph& graph) {
  Graph bare = graph;
  bare.metadata.clear();
  const std::string text = print(bare);
  std::vector<std::string_view> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
  std::sort(lines.begin(), lines.end());
  Hasher hasher;
  for (const std::string_view line : lines) hasher.update(line).update("\n");
  std::map<std::string_view, std::span<const std::byte>> constants;
  for (ValueId v = 0; v < graph.value_count(); ++v) {
    const Value& value = graph.value(v);
    if (!value.dead && value.constant.valid()) constants.emplace(value.name, value.constant.bytes);
  }
  for (const auto& [name, bytes] : constants) hasher.update(name).update(bytes);
  return hasher.finish();
}

std::string lineage_root(const Graph& graph) {
  const auto stored = graph.metadata.find(kRootKey);
  return stored != graph.metadata.end() ? stored->second : to_hex(content_hash(graph));
}

void set_lineage(const Graph& parent, Graph* child) { child->metadata[kRootKey] = lineage_root(parent); }

}  // namespace lathe
