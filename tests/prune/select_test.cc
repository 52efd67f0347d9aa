// Which channels go first: tiles, caps, segments, targets.
#include "prune/select.h"

#include <doctest/doctest.h>

namespace lathe::prune {
namespace {

Group group_of(uint32_t channels) {
  Group g;
  g.name = "g";
  g.channels = channels;
  return g;
}

// Channel c matters first + c * step.
Importance rising(uint32_t channels, double first = 0, double step = 1) {
  Importance out;
  for (uint32_t c = 0; c < channels; ++c) out.values.push_back(first + step * c);
  out.shown = out.values;
  return out;
}

size_t gone_from(std::span<const Block> order, size_t group) {
  size_t n = 0;
  for (const Block& b : order) n += b.group == group ? b.channels.size() : 0;
  return n;
}

TEST_CASE("the least important channels go first, in blocks that leave whole tiles, up to the cap") {
  const std::vector<Group> groups{group_of(40)};
  const std::vector<Importance> importance{rising(40)};
  SelectOptions options;
  options.tile = 16;
  options.part = 4;
  const auto order = removal_order(groups, importance, options);
  REQUIRE(order.size() == 2);  // 40 -> 32 -> 16; 0 is never reached
  CHECK(order[0].channels == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(order[1].channels.size() == 16);
  CHECK(order[1].channels.front() == 8);
  CHECK(order[1].highest == 23);
}

TEST_CASE("groups below two tiles go by parts, and tiny ones channel by channel") {
  SelectOptions options;
  options.tile = 16;
  options.part = 4;
  const auto small = removal_order({group_of(16)}, {rising(16)}, options);
  CHECK(small.size() == 3);  // 12, 8, 4: the cap of 0.9 leaves 2
  CHECK(small[0].channels.size() == 4);
  const auto tiny = removal_order({group_of(5)}, {rising(5)}, options);
  CHECK(tiny.size() == 4);  // 0.9 * 5 = 4.5
}

TEST_CASE("no group loses its last channel, even without a cap") {
  SelectOptions options;
  options.max_group_ratio = 1;
  for (const uint32_t n : {1u, 2u, 7u}) {
    INFO(n << " channels");
    CHECK(gone_from(removal_order({group_of(n)}, {rising(n)}, options), 0) == n - 1);
  }
}

TEST_CASE("every segment of a grouped convolution loses as many channels, its own least important") {
  Group g = group_of(8);
  g.segment = {0, 0, 1, 1, 2, 2, 3, 3};
  Importance i = rising(8);
  i.values = {5, 1, 9, 2, 8, 3, 7, 4};
  const auto order = removal_order({g}, {i}, {});
  REQUIRE(order.size() == 1);  // of two channels a segment keeps one
  CHECK(order[0].channels == std::vector<uint32_t>{1, 3, 5, 7});
}

TEST_CASE("an expensive group goes before a cheap one of equal importance, and costs can be left out") {
  const std::vector<Group> groups{group_of(8), group_of(8)};
  const std::vector<Importance> importance{rising(8, 1, 0.1), rising(8, 1, 0.1)};
  SelectOptions options;
  options.costs = {1, 10};
  const auto order = removal_order(groups, importance, options);
  CHECK(gone_from(std::span(order).first(7), 1) == 7);
  options.costs.clear();
  const auto plain = removal_order(groups, importance, options);
  CHECK(gone_from(std::span(plain).first(6), 1) == 3);  // ties take turns
}

TEST_CASE("a channel that many layers make outweighs one that a single layer makes, at the same cost") {
  std::vector<Group> groups{group_of(8), group_of(8)};
  groups[0].members = {{0, 0, {}, MemberRole::kOutput}, {1, 0, {}, MemberRole::kOutput}, {2, 0, {}, MemberRole::kInput}};
  groups[1].members = {{3, 0, {}, MemberRole::kOutput}};
  SelectOptions options;
  options.costs = {1, 1};
  const auto order = removal_order(groups, {rising(8, 5), rising(8, 5)}, options);
  CHECK(gone_from(std::span(order).first(3), 1) == 3);
}

TEST_CASE("costs weigh what a group loses of what it has left: a wide one goes before a narrow one") {
  SelectOptions options;
  options.costs = {1, 1};
  const auto order = removal_order({group_of(4), group_of(16)}, {rising(4, 1, 0), rising(16, 1, 0)}, options);
  CHECK(gone_from(std::span(order).first(10), 1) == 10);
  CHECK(gone_from(order, 0) == 3);
}

TEST_CASE("uniform takes the same share of every group") {
  const std::vector<Group> groups{group_of(64), group_of(128)};
  SelectOptions options;
  options.uniform = true;
  options.tile = 16;
  options.part = 4;
  const std::vector<Importance> importance{rising(64, 100), rising(128)};
  const auto order = removal_order(groups, importance, options);
  const auto first = std::span(order).first(blocks_for_ratio(order, prunable_channels(groups, importance, options), 0.25));
  CHECK(gone_from(first, 0) == 16);
  CHECK(gone_from(first, 1) == 32);
}

TEST_CASE("frozen, kept and unranked groups stay whole and do not count") {
  std::vector<Group> groups{group_of(8), group_of(8), group_of(8), group_of(8)};
  groups[0].frozen = "feeds an output";
  std::vector<Importance> importance{rising(8), rising(8), rising(8), rising(8)};
  importance[1] = {{}, {}, "no batch normalization"};
  SelectOptions options;
  options.keep = {false, false, true, false};
  const auto order = removal_order(groups, importance, options);
  CHECK(gone_from(order, 3) == order.size());
  CHECK(order.size() == 7);
  CHECK(prunable_channels(groups, importance, options) == 8);
}

TEST_CASE("a ratio takes the blocks that come nearest to it") {
  const auto order = removal_order({group_of(32)}, {rising(32)}, {});
  CHECK(blocks_for_ratio(order, 32, 0.25) == 8);
  SelectOptions tiles;
  tiles.tile = tiles.part = 8;
  const auto coarse = removal_order({group_of(32)}, {rising(32)}, tiles);
  CHECK(blocks_for_ratio(coarse, 32, 0.1) == 0);
  CHECK(blocks_for_ratio(coarse, 32, 0.2) == 1);
  CHECK(blocks_for_ratio(coarse, 32, 0.99) == 3);
}

TEST_CASE("a threshold takes only blocks that lie below it whole, wherever they stand in the order") {
  SelectOptions options;
  options.costs = {1, 100};
  options.tile = options.part = 4;
  const auto order = removal_order({group_of(16), group_of(16)}, {rising(16), rising(16, 10)}, options);
  const auto below = blocks_below(order, 9.5);
  CHECK(gone_from(below, 0) == 8);  // 0 ... 7; the next block holds 9.5 and more
  CHECK(gone_from(below, 1) == 0);
}

TEST_CASE("blocks become one sorted cut per group, and the order is the same every time") {
  const std::vector<Group> groups{group_of(9), group_of(6)};
  Importance mixed = rising(9);
  mixed.values = mixed.shown = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  const std::vector<Importance> importance{mixed, rising(6, 2)};
  const auto order = removal_order(groups, importance, {}), again = removal_order(groups, importance, {});
  const auto cuts = cuts_of(std::span(order).first(4));
  REQUIRE(cuts.size() == 2);
  CHECK(cuts[0].group == 0);
  CHECK(cuts[0].channels == std::vector<uint32_t>{1, 3, 6});
  CHECK(cuts[1].channels == std::vector<uint32_t>{0});
  REQUIRE(order.size() == again.size());
  for (size_t i = 0; i < order.size(); ++i) CHECK(order[i].channels == again[i].channels);
}

}  // namespace
}  // namespace lathe::prune
