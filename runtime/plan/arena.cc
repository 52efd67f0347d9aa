// Greedy best fit: items are placed one by one, each in the tightest gap between the placed items that it meets in time. How well
// that does depends on the order only, so several are tried: by size, by size times lifetime, by how crowded the item's steps
// are, by start. From the best one a short search moves the item that sits on top to the front, which frees it from the gaps that
// were left to it. Every order stops early at the lower bound.
#include "runtime/plan/arena.h"

namespace lathe {
namespace {

constexpr uint64_t kMaxArena = 0x7fffffffu;
constexpr uint32_t kSearchMoves = 200;
constexpr uint32_t kSearchItems = 1024;  // larger plans take the best of the fixed orders

uint64_t align_up(uint64_t v, uint64_t align) { return (v + align - 1) & ~(align - 1); }

class Packer {
 public:
  Packer(ArenaItem* items, uint32_t count, uint32_t align) : items_(items), count_(count), align_(align) {}

  bool reserve(const PlanMemory& m) {
    order_ = m.array<uint32_t>(count_);
    spare_ = m.array<uint32_t>(count_);
    placed_ = m.array<uint32_t>(count_);
    offsets_ = m.array<uint64_t>(count_);
    best_ = m.array<uint64_t>(count_);
    keys_ = m.array<uint64_t>(count_);
    crowd_ = m.array<uint64_t>(steps());
    return order_ && spare_ && placed_ && offsets_ && best_ && keys_ && crowd_;
  }

  uint64_t lower_bound() {
    uint64_t most = 0;
    for (uint32_t i = 0; i < count_; ++i)
      for (uint32_t s = items_[i].first; s <= items_[i].last; ++s) crowd_[s] += size(i);
    for (uint32_t s = 0; s < steps(); ++s) most = crowd_[s] > most ? crowd_[s] : most;
    return most;
  }

  uint64_t pack(uint64_t bound) {
    best_bytes_ = ~0ull;
    for (uint32_t kind = 0; kind < 4 && best_bytes_ > bound; ++kind) {
      sort_by(kind);
      keep_if_better(place());
    }
    if (count_ <= kSearchItems) search(bound);
    for (uint32_t i = 0; i < count_; ++i) items_[i].offset = static_cast<uint32_t>(best_[i]);
    return best_bytes_;
  }

 private:
  uint64_t size(uint32_t i) const { return align_up(items_[i].bytes, align_); }
  uint32_t steps() const {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count_; ++i) n = items_[i].last >= n ? items_[i].last + 1 : n;
    return n;
  }
  bool meet(uint32_t i, uint32_t j) const { return items_[i].first <= items_[j].last && items_[j].first <= items_[i].last; }

  uint64_t key(uint32_t kind, uint32_t i) const {
    const ArenaItem& item = items_[i];
    uint64_t crowd = 0;
    switch (kind) {
      case 0: return size(i);
      case 1: return size(i) * (item.last - item.first + 1);
      case 2:
        for (uint32_t s = item.first; s <= item.last; ++s) crowd = crowd_[s] > crowd ? crowd_[s] : crowd;
        return crowd;
      default: return ~static_cast<uint64_t>(item.first);
    }
  }

  // Descending by key, then by size, then by index. Shell sort: no memory, and counts are small.
  void sort_by(uint32_t kind) {
    for (uint32_t i = 0; i < count_; ++i) {
      order_[i] = i;
      keys_[i] = key(kind, i);
    }
    const auto before = [&](uint32_t a, uint32_t b) {
      if (keys_[a] != keys_[b]) return keys_[a] > keys_[b];
      if (items_[a].bytes != items_[b].bytes) return items_[a].bytes > items_[b].bytes;
      return a < b;
    };
    for (uint32_t gap = count_ / 2; gap > 0; gap /= 2)
      for (uint32_t i = gap; i < count_; ++i) {
        const uint32_t v = order_[i];
        uint32_t j = i;
        for (; j >= gap && before(v, order_[j - gap]); j -= gap) order_[j] = order_[j - gap];
        order_[j] = v;
      }
  }

  // Places all items in order_; `placed_` is kept sorted by offset. Returns the highest end, and in top_ the position of the item
  // that has it.
  uint64_t place() {
    uint64_t high = 0;
    for (uint32_t k = 0; k < count_; ++k) {
      const uint32_t i = order_[k];
      const uint64_t need = size(i);
      uint64_t end = 0, best_gap = ~0ull, at = ~0ull;  // end: of what was met so far, going up
      for (uint32_t p = 0; p < k; ++p) {
        const uint32_t j = placed_[p];
        if (!meet(i, j)) continue;
        if (offsets_[j] > end && offsets_[j] - end >= need && offsets_[j] - end < best_gap) {
          best_gap = offsets_[j] - end;
          at = end;
        }
        const uint64_t j_end = offsets_[j] + size(j);
        end = j_end > end ? j_end : end;
      }
      offsets_[i] = at == ~0ull ? end : at;
      uint32_t p = k;
      for (; p > 0 && offsets_[placed_[p - 1]] > offsets_[i]; --p) placed_[p] = placed_[p - 1];
      placed_[p] = i;
      if (offsets_[i] + need > high) {
        high = offsets_[i] + need;
        top_ = k;
      }
    }
    return high;
  }

  bool keep_if_better(uint64_t bytes) {
    if (bytes >= best_bytes_) return false;
    best_bytes_ = bytes;
    best_top_ = top_;
    for (uint32_t i = 0; i < count_; ++i) {
      best_[i] = offsets_[i];
      spare_[i] = order_[i];
    }
    return true;
  }

  // Moves the topmost item to ever earlier places of the best order; a move that helps becomes the new start.
  void search(uint64_t bound) {
    uint32_t to = 0;
    for (uint32_t moves = 0; moves < kSearchMoves && best_bytes_ > bound; ++moves) {
      if (to >= best_top_) return;
      for (uint32_t i = 0; i < count_; ++i) order_[i] = spare_[i];
      const uint32_t item = order_[best_top_];
      for (uint32_t i = best_top_; i > to; --i) order_[i] = order_[i - 1];
      order_[to] = item;
      to = keep_if_better(place()) ? 0 : to + 1;
    }
  }

  ArenaItem* items_;
  uint32_t count_, align_;
  uint32_t *order_ = nullptr, *spare_ = nullptr, *placed_ = nullptr;
  uint64_t *offsets_ = nullptr, *best_ = nullptr, *keys_ = nullptr, *crowd_ = nullptr;
  uint64_t best_bytes_ = 0;
  uint32_t top_ = 0, best_top_ = 0;
};

}  // namespace

Status pack_arena(ArenaItem* items, uint32_t count, uint32_t align, const PlanMemory& memory, ArenaSize* out) {
  *out = {};
  if (count == 0) return {};
  Packer packer(items, count, align);
  if (!packer.reserve(memory)) return {Code::kOutOfMemory, 0, count, 0};
  const uint64_t bound = packer.lower_bound();
  const uint64_t bytes = bound > kMaxArena ? bound : packer.pack(bound);
  if (bytes > kMaxArena)
    return {Code::kOutOfMemory, 0, bytes > 0xffffffffu ? 0xffffffffu : static_cast<uint32_t>(bytes),
            static_cast<uint32_t>(kMaxArena)};
  out->bytes = static_cast<uint32_t>(bytes);
  out->lower_bound = static_cast<uint32_t>(bound);
  return {};
}

}  // namespace lathe
