// Heap memory for plans on hosts: what bind() takes, freed together.
#pragma once
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "runtime/plan/memory.h"

namespace lathe {

// 64-byte aligned memory; data() is null if there was none.
class Block {
 public:
  explicit Block(uint64_t bytes)
      : data_(static_cast<uint8_t*>(::operator new (bytes == 0 ? 1 : bytes, std::align_val_t{64}, std::nothrow))) {}
  Block(Block&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Block() { ::operator delete(data_, std::align_val_t{64}); }
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_;
};

// memory() is valid while the object stays where it is.
class PlanBlocks {
 public:
  PlanMemory memory() { return {&take, this}; }

 private:
  static void* take(void* self, uint64_t bytes) {
    auto& blocks = static_cast<PlanBlocks*>(self)->blocks_;
    blocks.emplace_back(bytes);
    return blocks.back().data();
  }
  std::vector<Block> blocks_;
};

}  // namespace lathe
