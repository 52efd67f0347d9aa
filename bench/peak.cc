#include "bench/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace lathe::bench {
namespace {

#if defined(__x86_64__)

// Twelve independent chains hide any latency. Inline assembly needs no ISA flags; the registers stand for themselves.
#define LATHE_TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define LATHE_CLOBBERS                                                                                                         \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", \
      "xmm15"
#define LATHE_VNNI(i) "vpdpbusd %%zmm15, %%zmm14, %%zmm" #i "\n\t"
#define LATHE_FMA512(i) "vfmadd231ps %%zmm15, %%zmm14, %%zmm" #i "\n\t"
#define LATHE_FMA256(i) "vfmadd231ps %%ymm15, %%ymm14, %%ymm" #i "\n\t"
#define LATHE_MADD(i) "vpmaddwd %%ymm15, %%ymm14, %%ymm13\n\tvpaddd %%ymm13, %%ymm" #i ", %%ymm" #i "\n\t"

// Zeroed registers: no denormals, no NaNs.
#define LATHE_LOOP(name, body)                                              \
  void name(uint32_t n) {                                                   \
    asm volatile("vzeroall" ::: LATHE_CLOBBERS);                            \
    for (uint32_t i = 0; i < n; ++i) asm volatile(body ::: LATHE_CLOBBERS); \
    asm volatile("vzeroupper" ::: LATHE_CLOBBERS);                          \
  }
LATHE_LOOP(loop_vnni, LATHE_TWELVE(LATHE_VNNI))
LATHE_LOOP(loop_fma512, LATHE_TWELVE(LATHE_FMA512))
LATHE_LOOP(loop_fma256, LATHE_TWELVE(LATHE_FMA256))
LATHE_LOOP(loop_madd, LATHE_TWELVE(LATHE_MADD))

double measure(void (*loop)(uint32_t), double ops_per_instruction) {
  constexpr uint32_t kRounds = 200000;
  double best = 0;
  for (int i = 0; i < 9; ++i) {
    const auto start = std::chrono::steady_clock::now();
    loop(kRounds);
    const std::chrono::duration<double, std::nano> ns = std::chrono::steady_clock::now() - start;
    best = std::max(best, 12.0 * kRounds * ops_per_instruction / ns.count());
  }
  return best;
}

#endif

}  // namespace

double peak_gops(kernels::IsaSet needs, bool quantized) {
#if defined(__x86_64__)
  if (quantized && kernels::covers(needs, kernels::kIsaAvx512Vnni)) {
    static const double peak = measure(loop_vnni, 128);
    return peak;
  }
  if (quantized && kernels::covers(needs, kernels::kIsaAvx2)) {
    static const double peak = measure(loop_madd, 32);
    return peak;
  }
  if (!quantized && kernels::covers(needs, kernels::kIsaAvx512)) {
    static const double peak = measure(loop_fma512, 32);
    return peak;
  }
  if (!quantized && kernels::covers(needs, kernels::kIsaAvx2)) {
    static const double peak = measure(loop_fma256, 16);
    return peak;
  }
#endif
  (void)needs;
  (void)quantized;
  return 0;
}

}  // namespace lathe::bench
