// What the kernel tests share: which kernels this machine can run, deterministic data, and buffers with guard bytes.
#pragma once
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "lathe/float16.h"

namespace lathe::kernels {

// The instruction sets that this machine and build can run.
inline IsaSet runnable_isa() {
  IsaSet have = kIsaScalar;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) have |= kIsaAvx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    have |= kIsaAvx512;
  if (__builtin_cpu_supports("avx512vnni")) have |= kIsaAvx512Vnni;
#elif defined(__aarch64__)
  have |= kIsaNeon;
  if ((getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0) have |= kIsaDotprod;
#endif
  return have & built_isa();
}

// Calls fn(kernel, reference) for every kernel of `family` that can run here. A reference is compared with itself where nothing
// else is known of it: the tests of its family check it against an independent one.
template <class Fn, class F>
void for_each_kernel(Family family, const F& fn) {
  for (const Kernel& k : all_kernels()) {
    if (k.family != family || k.fn == nullptr || !covers(runnable_isa(), k.needs)) continue;
    const Kernel* reference = select(family, k.storage, kIsaScalar);
    fn(k, reinterpret_cast<Fn>(k.fn), reinterpret_cast<Fn>(reference->fn));
  }
}

// `n` elements that start `offset` bytes past a 64-byte boundary; `tail` more bytes may be read after them, and 64 guard bytes
// stand on both sides of what may be written.
template <class T>
class Guarded {
 public:
  explicit Guarded(size_t n, size_t offset = 0) : n_(n), bytes_(64 + kGuard + offset + n * sizeof(T) + kGuard, kPattern) {
    const uintptr_t at = reinterpret_cast<uintptr_t>(bytes_.data());
    begin_ = (at + kGuard + 63) / 64 * 64 + offset - at;
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + begin_); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data() + begin_); }
  size_t size() const { return n_; }
  // True if no byte outside rows x row_elems, rows `stride` elements apart, was touched.
  bool intact(size_t rows, size_t row_elems, size_t stride) const { return intact(1, rows, row_elems, 0, stride); }
  // The same for rows x cols pixels of `elems`.
  bool intact(size_t rows, size_t cols, size_t elems, size_t row_step, size_t col_step) const {
    std::vector<uint8_t> copy = bytes_;
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < cols; ++j)
        std::memset(copy.data() + begin_ + (i * row_step + j * col_step) * sizeof(T), kPattern, elems * sizeof(T));
    }
    for (const uint8_t b : copy) {
      if (b != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr uint8_t kPattern = 0xa5;
  size_t n_;
  std::vector<uint8_t> bytes_;
  size_t begin_;
};

template <class T, class Rng>
void fill_ints(Rng& rng, T* p, size_t n, int lo, int hi) {
  std::uniform_int_distribution<int> d(lo, hi);
  for (size_t i = 0; i < n; ++i) p[i] = static_cast<T>(d(rng));
}

template <class Rng>
void fill_floats(Rng& rng, float* p, size_t n, float lo, float hi) {
  std::uniform_real_distribution<float> d(lo, hi);
  for (size_t i = 0; i < n; ++i) p[i] = d(rng);
}

// Elements of float kernels: float, or half precision in its bits.
inline float real(float v) { return v; }
inline float real(uint16_t h) { return half_to_float(h); }
template <class Rng>
void fill_reals(Rng& rng, float* p, size_t n, float lo, float hi) {
  fill_floats(rng, p, n, lo, hi);
}
template <class Rng>
void fill_reals(Rng& rng, uint16_t* p, size_t n, float lo, float hi) {
  std::uniform_real_distribution<float> d(lo, hi);
  for (size_t i = 0; i < n; ++i) p[i] = float_to_half(d(rng));
}
// What storing v may add to its error: half a unit in the last of a half's 11 bits.
template <class T>
double storage_error(double v) {
  return sizeof(T) == 2 ? (v < 0 ? -v : v) * 0x1p-11 + 0x1p-25 : 0.0;
}

}  // namespace lathe::kernels
