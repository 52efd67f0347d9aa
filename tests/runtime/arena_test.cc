#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/plan/arena.h"
#include "tests/runtime/core_run.h"

using namespace lathe;
using lathe::test::HeapPlanMemory;

namespace {

ArenaSize pack(std::vector<ArenaItem>& items, uint32_t align = 64) {
  HeapPlanMemory heap;
  ArenaSize size;
  const Status s = pack_arena(items.data(), static_cast<uint32_t>(items.size()), align, heap.memory(), &size);
  CHECK(s.ok());
  return size;
}

uint32_t up(uint32_t v, uint32_t align) { return (v + align - 1) / align * align; }

void check_packing(const std::vector<ArenaItem>& items, const ArenaSize& size, uint32_t align) {
  uint32_t last = 0, end = 0;
  for (const ArenaItem& i : items) {
    last = std::max(last, i.last);
    end = std::max(end, i.offset + up(i.bytes, align));
    CHECK(i.offset % align == 0);
  }
  CHECK(size.bytes == end);
  uint32_t bound = 0;
  for (uint32_t s = 0; s <= last; ++s) {
    uint32_t sum = 0;
    for (const ArenaItem& i : items) sum += i.first <= s && s <= i.last ? up(i.bytes, align) : 0;
    bound = std::max(bound, sum);
  }
  CHECK(size.lower_bound == bound);
  CHECK(size.bytes >= bound);
  for (size_t a = 0; a < items.size(); ++a)
    for (size_t b = a + 1; b < items.size(); ++b) {
      const ArenaItem &x = items[a], &y = items[b];
      const bool alive_together = x.first <= y.last && y.first <= x.last;
      const bool apart = x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
      CHECK_MESSAGE((!alive_together || apart), "items " << a << " and " << b);
    }
}

}  // namespace

TEST_CASE("buffers alive at the same step never overlap and the arena is between its bound and a little more") {
  const uint32_t seed = 17;
  INFO("seed " << seed);
  std::mt19937 rng(seed);
  double ratio = 0;
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t count = 1 + rng() % 60, steps = 1 + rng() % 40, align = round % 2 == 0 ? 64 : 8;
    std::vector<ArenaItem> items(count);
    for (ArenaItem& i : items) {
      i.bytes = rng() % 10 == 0 ? 0 : rng() % 5000;
      i.first = rng() % steps;
      i.last = std::min(steps - 1, i.first + static_cast<uint32_t>(rng() % 6));
    }
    const ArenaSize size = pack(items, align);
    check_packing(items, size, align);
    ratio += size.lower_bound == 0 ? 1.0 : double(size.bytes) / size.lower_bound;
  }
  CHECK(ratio / kRounds < 1.06);
}

TEST_CASE("a chain of layers packs into the two largest neighbours") {
  std::vector<ArenaItem> items;
  const uint32_t bytes[] = {64, 640, 1280, 320, 3200, 64};
  for (uint32_t i = 0; i < 6; ++i) items.push_back({bytes[i], i, i + 1, 0});
  const ArenaSize size = pack(items);
  CHECK(size.lower_bound == 3520);
  CHECK(size.bytes == 3520);
}

TEST_CASE("an arena over 2 GiB is refused with its size") {
  std::vector<ArenaItem> items = {{0x50000000, 0, 1, 0}, {0x50000000, 1, 2, 0}};
  HeapPlanMemory heap;
  ArenaSize size;
  const Status s = pack_arena(items.data(), 2, 64, heap.memory(), &size);
  CHECK(s.code == Code::kOutOfMemory);
  CHECK(s.needed == 0xa0000000u);
}

TEST_CASE("packing says so when it is given no memory") {
  std::vector<ArenaItem> items = {{64, 0, 1, 0}};
  ArenaSize size;
  CHECK(pack_arena(items.data(), 1, 64, PlanMemory{}, &size).code == Code::kOutOfMemory);
}
