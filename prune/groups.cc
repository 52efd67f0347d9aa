#include "prune/groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "prune/positions.h"

namespace lathe::prune {
namespace {

using Place = std::pair<ValueId, uint32_t>;  // value, axis

// One set of positions on its way to be a channel.
struct Channel {
  uint32_t set = 0;
  NodeId maker = kNoId;                                         // the first node whose weight makes it
  std::vector<std::pair<size_t, std::vector<int64_t>>> places;  // index into Builder::places_, indices along it
};

// Equal counts must go from each segment of one axis.
struct Constraint {
  std::string node;
  std::map<uint32_t, std::vector<int64_t>> counts;  // by set: positions in each segment
  int64_t segments = 0;
};

class Builder {
 public:
  Builder(const Graph& graph, const GroupOptions& options) : graph_(graph), positions_(graph, options.inner) {}

  std::vector<Group> build() {
    collect_roles();
    for (const auto& n : positions_.nodes()) {
      const Node& node = graph_.node(n->id);
      for (const ValueId v : node.inputs)
        if (v != kNoId && graph_.value(v).producer == kNoId) visit(v, n->id);
      for (const ValueId v : node.outputs) visit(v, n->id);
    }
    collect_constraints();
    freeze_spread();
    std::vector<Group> groups = grouped();
    for (Group& group : groups) finish(group);
    return groups;
  }

 private:
  // The strongest role of each axis, over all readers.
  void collect_roles() {
    for (const auto& n : positions_.nodes()) {
      const Node& node = graph_.node(n->id);
      for (const RoleLink& link : n->links.roles()) {
        if (link.at.result) continue;
        LinkRole& role = roles_[{node.inputs[link.at.index], link.at.axis}];
        role = std::max(role, link.role);
      }
    }
  }

  // Notes the positions of a value, first met at `node`.
  void visit(ValueId v, NodeId node) {
    if (!visited_.insert(v).second) return;
    for (uint32_t axis = 0; axis < graph_.value(v).type.dims.size(); ++axis) {
      const auto role = roles_.find({v, axis});
      const bool stored = graph_.value(v).producer == kNoId;
      const bool makes =
          stored && graph_.value(v).kind != ValueKind::kInput && role != roles_.end() && role->second == LinkRole::kOutput;
      const size_t place = places_.size();
      places_.emplace_back(v, axis);
      for (int64_t i = 0; i < positions_.count(v, axis); ++i) {
        const uint32_t set = positions_.set_of(v, axis, i);
        const auto [at, fresh] = by_set_.emplace(set, channels_.size());
        if (fresh) channels_.push_back({set, kNoId, {}});
        Channel& channel = channels_[at->second];
        if (makes && channel.maker == kNoId) {
          channel.maker = node;
          made_.push_back(at->second);
        }
        if (channel.places.empty() || channel.places.back().first != place) channel.places.push_back({place, {}});
        channel.places.back().second.push_back(i);
      }
    }
  }

  void collect_constraints() {
    for (const auto& n : positions_.nodes()) {
      const Node& node = graph_.node(n->id);
      for (const SegmentLink& link : n->links.segment_links()) {
        Constraint c{.node = node.name, .counts = {}, .segments = link.segments};
        const ValueId v = positions_.value_at(node, link.at);
        const int64_t size = positions_.count(v, link.at.axis) / link.segments;
        for (int64_t i = 0; size > 0 && i < size * link.segments; ++i) {
          std::vector<int64_t>& counts = c.counts[positions_.set_of(v, link.at.axis, i)];
          counts.resize(static_cast<size_t>(link.segments));
          ++counts[static_cast<size_t>(i / size)];
        }
        constraints_.push_back(std::move(c));
      }
    }
  }

  static bool even(const std::vector<int64_t>& counts) {
    return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
  }
  static int64_t segments_hit(const std::vector<int64_t>& counts) {
    return std::count_if(counts.begin(), counts.end(), [](int64_t n) { return n > 0; });
  }

  // A channel of some groups of a grouped layer, but not of all, cannot go alone.
  void freeze_spread() {
    for (const Constraint& c : constraints_)
      for (const auto& [set, counts] : c.counts)
        if (!even(counts) && segments_hit(counts) > 1)
          positions_.freeze(set, "its channels lie in several groups of '" + c.node + "'");
  }

  // Channels that touch the same axes are one group; what differs in being frozen or heads is apart.
  std::vector<Group> grouped() {
    std::map<std::vector<size_t>, size_t> index;
    std::vector<Group> groups;
    std::map<std::string, int> names;
    for (const size_t at : made_) {
      const Channel& channel = channels_[at];
      const std::string* frozen = positions_.frozen(channel.set);
      std::vector<size_t> key{frozen ? 1 + reasons_.emplace(*frozen, reasons_.size()).first->second : 0,
                              positions_.heads(channel.set), positions_.averaged(channel.set)};
      for (const auto& [place, indices] : channel.places) key.push_back(place);
      const auto [found, fresh] = index.emplace(std::move(key), groups.size());
      if (fresh) {
        Group group;
        const std::string& maker = graph_.node(channel.maker).name;
        const int number = ++names[maker];
        group.name = number == 1 ? maker : maker + "#" + std::to_string(number);
        group.frozen = frozen ? *frozen : "";
        group.heads = positions_.heads(channel.set);
        group.averaged = positions_.averaged(channel.set);
        groups.push_back(std::move(group));
        sets_.emplace_back();
      }
      add(groups[found->second], channel);
      sets_[found->second].push_back(channel.set);
    }
    for (size_t g = 0; g < groups.size(); ++g) assign_segments(groups[g], sets_[g]);
    return groups;
  }

  void add(Group& group, const Channel& channel) {
    const bool fresh = group.channels == 0;
    ++group.channels;
    size_t member = 0, activation = 0;
    for (const auto& [place, indices] : channel.places) {
      const auto [v, axis] = places_[place];
      const bool stored = graph_.value(v).producer == kNoId;
      std::vector<Member>& list = stored ? group.members : group.activations;
      size_t& at = stored ? member : activation;
      if (fresh) {
        const auto role = roles_.find({v, axis});
        list.push_back({.value = v,
                        .axis = axis,
                        .indices = {},
                        .role = stored && role != roles_.end() ? role->second : LinkRole::kVector,
                        .parts = positions_.parts(v, axis)});
      }
      list[at++].indices.push_back(indices);
    }
  }

  // Segments of all constraints together: channels with the same segment in each.
  void assign_segments(Group& group, const std::vector<uint32_t>& sets) {
    std::vector<std::vector<size_t>> keys(sets.size());
    for (const Constraint& c : constraints_) {
      std::vector<int64_t> total(static_cast<size_t>(c.segments));
      bool part = false;
      for (size_t i = 0; i < sets.size(); ++i) {
        const auto found = c.counts.find(sets[i]);
        if (found == c.counts.end()) continue;
        part = true;
        for (size_t s = 0; s < total.size(); ++s) total[s] += found->second[s];
        const auto first = std::find_if(found->second.begin(), found->second.end(), [](int64_t n) { return n > 0; });
        keys[i].push_back(even(found->second) ? 0 : 1 + static_cast<size_t>(first - found->second.begin()));
      }
      if (part && !even(total) && group.frozen.empty())
        group.frozen = "shares the groups of '" + c.node + "' with other channels";
    }
    std::map<std::vector<size_t>, uint32_t> numbers;
    for (const auto& key : keys)
      group.segment.push_back(numbers.emplace(key, static_cast<uint32_t>(numbers.size())).first->second);
    if (numbers.size() < 2) group.segment.clear();
    if (group.channels < 2 * std::max<size_t>(1, numbers.size()) && group.frozen.empty())
      group.frozen = numbers.size() > 1 ? "has one channel in each group" : "its channels go only all together";
  }

  void finish(Group& group) {
    if (group.channels == 1 && group.frozen.empty()) group.frozen = "has one channel only";
  }

  const Graph& graph_;
  Positions positions_;
  std::map<Place, LinkRole> roles_;
  std::set<ValueId> visited_;
  std::vector<Place> places_;
  std::vector<Channel> channels_;
  std::vector<size_t> made_;  // channels that a weight makes, in order
  std::map<uint32_t, size_t> by_set_;
  std::vector<Constraint> constraints_;
  std::map<std::string, size_t> reasons_;
  std::vector<std::vector<uint32_t>> sets_;  // by group
};

std::string channels_text(size_t count) { return std::to_string(count) + (count == 1 ? " channel" : " channels"); }

Result<void> check_cut(const Group& group, const Cut& cut) {
  const auto wrong = [&](const std::string& what) { return fail(Code::kInvalidArgument, "group '" + group.name + "': " + what); };
  if (!group.frozen.empty() && !cut.channels.empty()) return wrong("is frozen: " + group.frozen);
  if (std::adjacent_find(cut.channels.begin(), cut.channels.end(), std::greater_equal<>()) != cut.channels.end())
    return wrong("channels to cut are not sorted, or one is there twice");
  if (!cut.channels.empty() && cut.channels.back() >= group.channels)
    return wrong("channel " + std::to_string(cut.channels.back()) + " is none of its " + std::to_string(group.channels));
  if (cut.channels.size() >= group.channels) return wrong("no channel would stay of " + std::to_string(group.channels));
  if (group.segment.empty()) return {};
  std::map<uint32_t, size_t> gone;
  for (const uint32_t segment : group.segment) gone[segment];
  for (const uint32_t c : cut.channels) ++gone[group.segment[c]];
  for (const auto& [segment, count] : gone)
    if (count != gone.begin()->second)
      return wrong(channels_text(gone.begin()->second) + " would go from segment " + std::to_string(gone.begin()->first) +
                   " and " + std::to_string(count) + " from segment " + std::to_string(segment) +
                   "; a grouped layer loses as many of each");
  return {};
}

}  // namespace

Result<std::vector<Group>> find_groups(const Graph& graph, const GroupOptions& options) {
  for (ValueId v = 0; v < graph.value_count(); ++v)
    if (!graph.value(v).dead && graph.value(v).quant)
      return fail(Code::kInvalidArgument,
                  "the model is quantized already ('" + graph.value(v).name + "'): prune the float model first, then quantize");
  return Builder(graph, options).build();
}

Result<void> check_cuts(std::span<const Group> groups, std::span<const Cut> cuts) {
  std::set<size_t> seen;
  for (const Cut& cut : cuts) {
    if (cut.group >= groups.size())
      return fail(Code::kInvalidArgument,
                  "there is no group " + std::to_string(cut.group) + " of " + std::to_string(groups.size()));
    if (!seen.insert(cut.group).second)
      return fail(Code::kInvalidArgument, "group '" + groups[cut.group].name + "' is cut twice");
    LATHE_CHECK_OK(check_cut(groups[cut.group], cut));
  }
  return {};
}

std::vector<uint32_t> allowed_cut(const Group& group, std::span<const uint32_t> ranked, size_t count) {
  if (!group.frozen.empty()) return {};
  const auto segment_of = [&](uint32_t c) { return group.segment.empty() ? 0 : group.segment[c]; };
  std::map<uint32_t, size_t> size;
  for (uint32_t c = 0; c < group.channels; ++c) ++size[segment_of(c)];
  std::map<uint32_t, std::vector<uint32_t>> chosen;
  for (const uint32_t c : ranked) chosen[segment_of(c)].push_back(c);
  size_t each = count / size.size();
  for (const auto& [segment, total] : size) each = std::min({each, total - 1, chosen[segment].size()});
  std::vector<uint32_t> cut;
  for (const auto& [segment, list] : chosen)
    cut.insert(cut.end(), list.begin(), list.begin() + static_cast<std::ptrdiff_t>(each));
  std::sort(cut.begin(), cut.end());
  return cut;
}

}  // namespace lathe::prune
