// Bytes that end where readable memory ends: whoever reads past them is stopped on the spot, vector kernels included. Bare-metal
// targets, which have no pages, get exact bytes on the heap.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace lathe::test {

class GuardedBytes {
 public:
  GuardedBytes(const void* data, size_t n) {
#if defined(__linux__)
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_ = (n + page - 1) / page * page + page;
    void* p = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED && ::mprotect(static_cast<uint8_t*>(p) + size_ - page, page, PROT_NONE) == 0) {
      base_ = static_cast<uint8_t*>(p);
      data_ = base_ + size_ - page - n;
    }
#else
    data_ = new uint8_t[n + 1];
#endif
    if (n != 0 && data_ != nullptr) std::memcpy(data_, data, n);
  }
  ~GuardedBytes() {
#if defined(__linux__)
    if (base_ != nullptr) ::munmap(base_, size_);
#else
    delete[] data_;
#endif
  }
  GuardedBytes(GuardedBytes&& other) noexcept { *this = std::move(other); }
  GuardedBytes& operator=(GuardedBytes&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  const uint8_t* data() const { return data_; }

 private:
  uint8_t *base_ = nullptr, *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lathe::test
