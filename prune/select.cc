#include "prune/select.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace lathe::prune {
namespace {

bool is_prunable(size_t g, const std::vector<Group>& groups, const std::vector<Importance>& importance,
                 const SelectOptions& options) {
  return groups[g].frozen.empty() && importance[g].missing.empty() && (options.keep.empty() || !options.keep[g]);
}

// By segment, its channels from the least important on.
std::vector<std::vector<uint32_t>> ranked_segments(const Group& group, const Importance& importance) {
  std::vector<std::vector<uint32_t>> segments(1);
  for (uint32_t c = 0; c < group.channels; ++c) {
    const size_t s = group.segment.empty() ? 0 : group.segment[c];
    if (s >= segments.size()) segments.resize(s + 1);
    segments[s].push_back(c);
  }
  for (auto& s : segments)
    std::stable_sort(s.begin(), s.end(), [&](uint32_t a, uint32_t b) { return importance.values[a] < importance.values[b]; });
  return segments;
}

// What counts of channels of each of `segments` segments are multiples of. Where groups all lose the same share, whole tiles
// would be too coarse for small ones.
uint32_t step_of(uint32_t channels, size_t segments, const SelectOptions& options) {
  const uint32_t tiles = options.uniform ? 4 : 2;
  uint32_t step = channels >= tiles * options.tile ? options.tile : options.part;
  if (channels < 2 * step) step = 1;
  return std::max<uint32_t>(1, step / static_cast<uint32_t>(segments));
}

// What losing `sum` of an importance of `rest` is to a group: log(rest / (rest - sum)), in each of the layers that make its
// channels. A channel weighs more in a narrow layer than in a wide one, more the fewer are left, and more in the sum of many
// blocks than inside one.
double loss(const Group& group, double sum, double rest) {
  if (!(sum > 0)) return 0;
  const auto makers =
      std::count_if(group.members.begin(), group.members.end(), [](const Member& m) { return m.role == MemberRole::kOutput; });
  return -std::log1p(-std::min(sum / rest, 1 - 1e-12)) * static_cast<double>(std::max<std::ptrdiff_t>(makers, 1));
}

// The blocks of one group, first to go first.
void add_blocks(size_t g, const Group& group, const Importance& importance, const SelectOptions& options,
                std::vector<Block>* out) {
  const auto segments = ranked_segments(group, importance);
  size_t shortest = group.channels;
  for (const auto& s : segments) shortest = std::min(shortest, s.size());
  if (shortest == 0) return;
  const auto length = static_cast<uint32_t>(shortest);
  const uint32_t step = group.heads ? 1 : step_of(group.channels, segments.size(), options);
  const auto most = std::min(static_cast<uint32_t>(std::floor(options.max_group_ratio * length + 1e-9)), length - 1);
  double last = 0, rest = std::accumulate(importance.values.begin(), importance.values.end(), 0.0);
  uint32_t gone = 0;
  for (;;) {
    const uint32_t left = length - gone;
    const uint32_t take = left % step == 0 ? step : left % step;
    if (gone + take > most) return;
    Block block;
    block.group = g;
    double sum = 0, shown = 0;
    for (const auto& s : segments)
      for (uint32_t i = gone; i < gone + take; ++i) {
        block.channels.push_back(s[i]);
        sum += importance.values[s[i]];
        shown += importance.shown[s[i]] / (take * static_cast<double>(segments.size()));
        block.highest = std::max(block.highest, importance.shown[s[i]]);
      }
    gone += take;
    std::sort(block.channels.begin(), block.channels.end());
    if (options.uniform)
      block.score = static_cast<double>(gone) / length;
    else if (options.costs.empty())
      block.score = shown;
    else
      block.score = loss(group, sum, rest) / (options.costs[g] * static_cast<double>(block.channels.size()));
    last = block.score = std::max(last, block.score);  // sorting keeps the order within the group
    rest -= sum;
    out->push_back(std::move(block));
  }
}

}  // namespace

std::vector<Block> removal_order(const std::vector<Group>& groups, const std::vector<Importance>& importance,
                                 const SelectOptions& options) {
  std::vector<Block> order;
  for (size_t g = 0; g < groups.size(); ++g)
    if (groups[g].channels > 0 && is_prunable(g, groups, importance, options))
      add_blocks(g, groups[g], importance[g], options, &order);
  std::stable_sort(order.begin(), order.end(), [](const Block& a, const Block& b) { return a.score < b.score; });
  return order;
}

uint64_t prunable_channels(const std::vector<Group>& groups, const std::vector<Importance>& importance,
                           const SelectOptions& options) {
  uint64_t channels = 0;
  for (size_t g = 0; g < groups.size(); ++g)
    if (is_prunable(g, groups, importance, options)) channels += groups[g].channels;
  return channels;
}

size_t blocks_for_ratio(std::span<const Block> order, uint64_t channels, double ratio) {
  const double wanted = ratio * static_cast<double>(channels);
  double gone = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto more = static_cast<double>(order[i].channels.size());
    if (std::fabs(gone + more - wanted) > std::fabs(gone - wanted)) return i;
    gone += more;
  }
  return order.size();
}

std::vector<Block> blocks_below(std::span<const Block> order, double threshold) {
  std::vector<Block> out;
  for (const Block& b : order)
    if (b.highest < threshold) out.push_back(b);
  return out;
}

std::vector<Cut> cuts_of(std::span<const Block> blocks) {
  std::map<size_t, std::vector<uint32_t>> by_group;
  for (const Block& b : blocks) {
    auto& channels = by_group[b.group];
    channels.insert(channels.end(), b.channels.begin(), b.channels.end());
  }
  std::vector<Cut> cuts;
  for (auto& [group, channels] : by_group) {
    std::sort(channels.begin(), channels.end());
    cuts.push_back({group, std::move(channels)});
  }
  return cuts;
}

}  // namespace lathe::prune
