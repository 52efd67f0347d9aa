// Memory that binding takes from its caller: hosts hand over a callback, and free everything at once when the plan goes.
#pragma once
#include <stdint.h>

namespace lathe {

// take() gives `bytes` bytes on 64 bytes, or null.
struct PlanMemory {
  void* (*take)(void* self, uint64_t bytes) = nullptr;
  void* self = nullptr;

  // `count` zeroed Ts; null when there is no memory. T: plain data. count 0 gives a valid pointer.
  template <class T> T* array(uint64_t count) const {
    const uint64_t bytes = (count == 0 ? 1 : count) * sizeof(T);
    void* p = take == nullptr ? nullptr : take(self, bytes);
    if (p != nullptr) __builtin_memset(p, 0, static_cast<size_t_>(bytes));
    return static_cast<T*>(p);
  }

 private:
  using size_t_ = decltype(sizeof(0));
};

}  // namespace lathe
