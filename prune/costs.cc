#include "prune/costs.h"

#include <algorithm>
#include <map>

namespace lathe::prune {
namespace {

// Of the value's extent along the member's axis, the share that one channel has.
double channel_share(const Graph& graph, const Group& group, const Member& member) {
  const auto length = graph.dims().value(graph.value(member.value).type.dims[member.axis]).value_or(0);
  if (length == 0 || group.channels == 0) return 0;
  size_t indices = 0;
  for (const auto& of_channel : member.indices) indices += of_channel.size();
  return static_cast<double>(indices) / static_cast<double>(length) / member.parts / group.channels;
}

}  // namespace

std::vector<double> channel_parameters(const Graph& graph, const std::vector<Group>& groups) {
  std::vector<double> out;
  for (const Group& group : groups) {
    double& parameters = out.emplace_back(0);
    for (const Member& m : group.members) {
      const Value& v = graph.value(m.value);
      const auto elems = static_cast<double>(v.constant.bytes.size() / dtype_bytes(v.type.dtype));
      parameters += channel_share(graph, group, m) * elems;
    }
  }
  return out;
}

std::vector<double> channel_times(const Graph& graph, const std::vector<Group>& groups,
                                  const std::function<double(const Node&)>& node_us) {
  std::vector<double> out;
  for (const Group& group : groups) {
    // A node has several values of a group (weight, bias, result), which shrink together; making and reading are two savings.
    std::map<std::pair<NodeId, bool>, double> shares;
    const auto note = [&](NodeId n, const Member& m) {
      double& share = shares[{n, m.role == MemberRole::kInput}];
      share = std::max(share, channel_share(graph, group, m));
    };
    for (const Member& m : group.members)
      for (const NodeId n : graph.consumers(m.value)) note(n, m);
    for (const Member& m : group.activations)
      if (graph.value(m.value).producer != kNoId) note(graph.value(m.value).producer, m);
    double& time = out.emplace_back(0);
    for (const auto& [key, share] : shares) time += share * node_us(graph.node(key.first));
  }
  double least = 0;
  for (const double t : out)
    if (t > 0 && (least == 0 || t < least)) least = t;
  for (double& t : out)
    if (!(t > 0)) t = least > 0 ? least : 1;
  return out;
}

}  // namespace lathe::prune
