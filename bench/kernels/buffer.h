// Memory of a benchmark: on a 64-byte boundary, 64 readable bytes behind it, reproducible contents.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <type_traits>

namespace lathe::bench {

template <class T>
class Buffer {
 public:
  // Integers over their whole range, floats in [-1, 1).
  explicit Buffer(size_t n) : n_(n), data_(static_cast<T*>(::operator new (n * sizeof(T) + 64, std::align_val_t{64}))) {
    std::minstd_rand rng(1);
    const size_t all = n + 64 / sizeof(T);
    for (size_t i = 0; i < all; ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        data_[i] = static_cast<T>(rng() % 2048) / 1024 - 1;
      } else {
        data_[i] = static_cast<T>(rng() >> 8);
      }
    }
  }
  Buffer(size_t n, T value) : Buffer(n) {
    for (size_t i = 0; i < n; ++i) data_[i] = value;
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t size() const { return n_; }

 private:
  struct Delete {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  size_t n_;
  std::unique_ptr<T[], Delete> data_;
};

}  // namespace lathe::bench
