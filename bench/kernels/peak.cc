#include "bench/kernels/peak.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "bench/kernels/buffer.h"

namespace lathe::bench {
namespace {

using Clock = std::chrono::steady_clock;

template <class F>
double best_ns(int times, const F& f) {
  double best = 1e30;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  return best;
}

#if defined(__x86_64__)

// Twelve independent chains hide any latency. Inline assembly needs no ISA flags; the registers stand for themselves.
#define LATHE_TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define LATHE_CLOBBERS                                                                                                         \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", \
      "xmm15", "memory"
#define LATHE_VNNI(i) "vpdpbusd %%zmm15, %%zmm14, %%zmm" #i "\n\t"
#define LATHE_FMA512(i) "vfmadd231ps %%zmm15, %%zmm14, %%zmm" #i "\n\t"
#define LATHE_FMA256(i) "vfmadd231ps %%ymm15, %%ymm14, %%ymm" #i "\n\t"
#define LATHE_MADD(i) "vpmaddwd %%ymm15, %%ymm14, %%ymm13\n\tvpaddd %%ymm13, %%ymm" #i ", %%ymm" #i "\n\t"

// Zeroed registers: no denormals, no NaNs.
#define LATHE_LOOP(name, body)                                                           \
  void name(uint32_t n) {                                                                \
    asm volatile("vzeroall" ::: LATHE_CLOBBERS);                                         \
    for (uint32_t i = 0; i < n; ++i) asm volatile(LATHE_TWELVE(body)::: LATHE_CLOBBERS); \
    asm volatile("vzeroupper" ::: LATHE_CLOBBERS);                                       \
  }
LATHE_LOOP(loop_vnni, LATHE_VNNI)
LATHE_LOOP(loop_fma512, LATHE_FMA512)
LATHE_LOOP(loop_fma256, LATHE_FMA256)
LATHE_LOOP(loop_madd, LATHE_MADD)

// The exact 8-bit product that AVX2 has: weights widened to 16 bits from memory, once per six rows; rows are broadcast as pairs.
// Register i holds row i / 2, weights 12 + i % 2.
#define LATHE_ROW(row, even, odd)                                                     \
  "vpbroadcastd " #row                                                                \
  "(%0), %%ymm14\n\t"                                                                 \
  "vpmaddwd %%ymm12, %%ymm14, %%ymm15\n\tvpaddd %%ymm15, %%ymm" #even ", %%ymm" #even \
  "\n\tvpmaddwd %%ymm13, %%ymm14, %%ymm15\n\tvpaddd %%ymm15, %%ymm" #odd ", %%ymm" #odd "\n\t"
void loop_widened(uint32_t n) {
  static const Buffer<uint8_t> memory(4096, 0);
  asm volatile("vzeroall" ::: LATHE_CLOBBERS);
  for (uint32_t i = 0; i < n; ++i) {
    const uint8_t* at = memory.data() + i % 64 * 32;
    asm volatile("vpmovsxbw (%0), %%ymm12\n\tvpmovsxbw 16(%0), %%ymm13\n\t" LATHE_ROW(0, 0, 1) LATHE_ROW(4, 2, 3)
                     LATHE_ROW(8, 4, 5) LATHE_ROW(12, 6, 7) LATHE_ROW(16, 8, 9) LATHE_ROW(20, 10, 11)::"r"(at)
                 : LATHE_CLOBBERS);
  }
  asm volatile("vzeroupper" ::: LATHE_CLOBBERS);
}

// Rounds of twelve instructions of `ops` operations each.
template <void (*loop)(uint32_t), int ops>
double measured_gops() {
  static const double gops = [] {
    constexpr uint32_t kRounds = 100000;
    return 12.0 * kRounds * ops / best_ns(15, [] { loop(kRounds); });
  }();
  return gops;
}

const std::vector<Probe> kProbes = {
    {"avx512vnni_s8", "vpdpbusd zmm", ProbeUse::kS8, kernels::kIsaAvx512Vnni, measured_gops<loop_vnni, 128>},
    {"avx2_s8", "vpmovsxbw, vpmaddwd and vpaddd ymm, 6 rows", ProbeUse::kS8, kernels::kIsaAvx2, measured_gops<loop_widened, 32>},
    {"avx2_s16", "vpmaddwd and vpaddd ymm", ProbeUse::kNone, kernels::kIsaAvx2, measured_gops<loop_madd, 32>},
    {"avx512_f32", "vfmadd231ps zmm", ProbeUse::kF32, kernels::kIsaAvx512, measured_gops<loop_fma512, 32>},
    {"avx2_f32", "vfmadd231ps ymm", ProbeUse::kF32, kernels::kIsaAvx2, measured_gops<loop_fma256, 16>},
};

// 256 bytes a round, four independent loads of a cache line.
void read_all(const uint8_t* p, uint64_t bytes) {
  for (const uint8_t* end = p + bytes; p < end; p += 256)
    asm volatile(
        "vmovdqa (%0), %%ymm0\n\tvmovdqa 32(%0), %%ymm1\n\tvmovdqa 64(%0), %%ymm2\n\tvmovdqa 96(%0), %%ymm3\n\t"
        "vmovdqa 128(%0), %%ymm4\n\tvmovdqa 160(%0), %%ymm5\n\tvmovdqa 192(%0), %%ymm6\n\tvmovdqa 224(%0), %%ymm7" ::"r"(p)
        : LATHE_CLOBBERS);
  asm volatile("vzeroupper" ::: LATHE_CLOBBERS);
}
bool can_read() { return __builtin_cpu_supports("avx2"); }

#else

const std::vector<Probe> kProbes;

void read_all(const uint8_t* p, uint64_t bytes) {
  uint64_t sum[4] = {};
  const auto* at = reinterpret_cast<const uint64_t*>(p);
  for (uint64_t i = 0; i < bytes / 8; i += 4)
    for (int k = 0; k < 4; ++k) sum[k] += at[i + static_cast<uint64_t>(k)];
  for (const uint64_t s : sum) asm volatile("" ::"r"(s));
}
bool can_read() { return true; }

#endif

struct Level {
  const char* name;
  uint64_t size;   // bytes that this level holds
  uint64_t probe;  // bytes that are read to measure it
  double gb_per_s = 0;
};

std::vector<Level> known_levels() {
  std::vector<Level> out;
  const struct {
    const char* name;
    int key;
  } kKeys[] = {{"L1", _SC_LEVEL1_DCACHE_SIZE}, {"L2", _SC_LEVEL2_CACHE_SIZE}, {"L3", _SC_LEVEL3_CACHE_SIZE}};
  for (const auto& k : kKeys) {
    const long size = sysconf(k.key);
    if (size > 0)
      out.push_back({k.name, static_cast<uint64_t>(size), std::min<uint64_t>(static_cast<uint64_t>(size) / 2, 8u << 20)});
  }
  // Some guests report their host's cache; a few hundred MiB leave any share of it.
  out.push_back({"DRAM", UINT64_MAX, 256u << 20});
  return out;
}

double measured_bandwidth(uint64_t bytes) {
  if (!can_read()) return 0;
  bytes = bytes / 256 * 256;
  const Buffer<uint8_t> memory(bytes, 1);
  const uint64_t passes = std::max<uint64_t>(1, (32u << 20) / bytes);
  const double ns = best_ns(7, [&] {
    for (uint64_t i = 0; i < passes; ++i) read_all(memory.data(), bytes);
  });
  return static_cast<double>(bytes * passes) / ns;
}

// The level that holds `bytes`, measured.
const Level& level_for(uint64_t bytes) {
  static std::vector<Level> levels = known_levels();
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  Level* level = &levels[0];
  while (level->size < bytes) ++level;
  if (level->gb_per_s == 0) level->gb_per_s = measured_bandwidth(level->probe);
  return *level;
}

}  // namespace

const std::vector<Probe>& probes() { return kProbes; }

double peak_gops(kernels::IsaSet needs, ProbeUse use) {
  for (const Probe& p : kProbes)
    if (p.use == use && kernels::covers(needs, p.needs)) return p.gops();
  return 0;
}

double read_gb_per_s(uint64_t bytes) { return level_for(bytes).gb_per_s; }

std::vector<CacheLevel> cache_levels() {
  std::vector<CacheLevel> out;
  for (const Level& level : known_levels()) {
    const bool dram = level.size == UINT64_MAX;
    out.push_back({level.name, dram ? level.probe : level.size, read_gb_per_s(level.size)});
  }
  return out;
}

}  // namespace lathe::bench
