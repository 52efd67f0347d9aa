#include "graph/import/onnx/node_order.h"

#include <functional>
#include <map>
#include <queue>
#include <string>

namespace lathe::onnx {
namespace {

using Makers = std::map<std::string_view, size_t>;

Result<Makers> find_makers(const GraphProto& graph, const std::set<std::string_view>& given) {
  Makers makers;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::string_view name : graph.nodes[i].outputs) {
      if (name.empty()) continue;
      const auto [it, is_new] = makers.emplace(name, i);
      if (!is_new)
        return fail(Code::kInvalidArgument, "value '" + std::string(name) + "' is made twice, by " +
                                                node_label(graph.nodes[it->second]) + " and " + node_label(graph.nodes[i]));
      if (given.contains(name))
        return fail(Code::kInvalidArgument, "value '" + std::string(name) + "' is an input or initializer, and " +
                                                node_label(graph.nodes[i]) + " makes it too");
    }
  return makers;
}

}  // namespace

std::string node_label(const NodeProto& node) {
  if (!node.name.empty()) return "node '" + std::string(node.name) + "'";
  if (!node.outputs.empty()) return "the node of '" + std::string(node.outputs[0]) + "'";
  return "a node without name";
}

Result<std::vector<size_t>> node_order(const GraphProto& graph, const std::set<std::string_view>& given,
                                       const std::set<std::string_view>& fixed) {
  LATHE_TRY(const Makers makers, find_makers(graph, given));
  std::vector<std::vector<size_t>> readers(graph.nodes.size());
  std::vector<size_t> waits_for(graph.nodes.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::string_view name : graph.nodes[i].inputs) {
      if (name.empty() || given.contains(name) || fixed.contains(name)) continue;
      const auto maker = makers.find(name);
      if (maker == makers.end())
        return fail(Code::kInvalidArgument,
                    node_label(graph.nodes[i]) + " reads '" + std::string(name) + "', which nothing makes");
      readers[maker->second].push_back(i);
      ++waits_for[i];
    }

  // The lowest index that waits for nothing goes first: a sorted file keeps its order.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (waits_for[i] == 0) ready.push(i);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (size_t r : readers[i])
      if (--waits_for[r] == 0) ready.push(r);
  }
  if (order.size() == graph.nodes.size()) return order;
  for (size_t i = 0;; ++i)
    if (waits_for[i] != 0)
      return fail(Code::kInvalidArgument, "the graph has a cycle: " + node_label(graph.nodes[i]) + " waits for its own result");
}

}  // namespace lathe::onnx
