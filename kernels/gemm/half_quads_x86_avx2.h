// The exact products of the AVX2 GEMM kernels: quads of k taken apart into their even and odd bytes, widened to 16 bits for
// vpmaddwd. For the AVX2 files of the gemm and gemm_sparse families only.
#pragma once
#include <immintrin.h>
#include <stdint.h>

namespace lathe::kernels {
namespace {

// acc += a w over pairs of words. One piece of assembly, because g++ 12 spills when it schedules 12 accumulators itself.
inline __attribute__((always_inline)) void dot(__m256i& acc, __m256i a, __m256i w) {
  __m256i product;
  asm("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0" : "+x"(acc), "=&x"(product) : "x"(a), "x"(w));
}

// One half of four k of 8 channels each: bytes 0 and 2 (kOdd: 1 and 3) of every quad, sign-extended.
template <bool kOdd>
inline __attribute__((always_inline)) __m256i half_quads(const int8_t* w) {
  const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(w));
  return _mm256_srai_epi16(kOdd ? v : _mm256_slli_epi16(v, 8), 8);
}

}  // namespace
}  // namespace lathe::kernels
