// Kernel benchmarks, from the same list as the tests: every GEMM and depthwise kernel that this machine runs, on the shapes of
// the peers' table in the design's KERNELS.md. GOPS counts two operations per multiply-add; `peak` is the share of what
// bench/peak.h measures.
//
//   bench/bench_kernels --benchmark_filter=vnni --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <string>

#include "bench/peak.h"
#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/gemm.h"
#include "tests/kernels/under_test.h"

namespace lathe::bench {
namespace {

using namespace lathe::kernels;

struct GemmShape {
  uint32_t m, n, k;
};
constexpr GemmShape kGemmShapes[] = {{1, 1024, 1024}, {8, 1024, 1024}, {128, 384, 384}, {256, 256, 256}, {1024, 1024, 1024},
                                     {3136, 64, 64},  {196, 256, 256}, {12544, 96, 16}, {3136, 24, 144}, {49, 1280, 320},
                                     {1024, 16, 144}, {256, 32, 288},  {784, 16, 12},   {784, 16, 16}};

struct DwShape {
  uint32_t size, n, stride;
};
constexpr DwShape kDwShapes[] = {{112, 32, 1}, {56, 144, 1}, {56, 144, 2}, {14, 384, 1}, {25, 64, 1}};

void report(benchmark::State& state, const Kernel& k, double macs, bool quantized) {
  const double ops = 2 * macs * static_cast<double>(state.iterations());
  state.counters["GOPS"] = benchmark::Counter(ops / 1e9, benchmark::Counter::kIsRate);
  if (const double peak = peak_gops(k.needs, quantized); peak > 0)
    state.counters["peak"] = benchmark::Counter(ops / 1e9 / peak, benchmark::Counter::kIsRate);
}

void gemm_s8(benchmark::State& state, const Kernel& k, GemmShape s) {
  std::vector<uint8_t> a(static_cast<size_t>(s.m) * s.k + 64, 3), y(static_cast<size_t>(s.m) * s.n);
  Guarded<int8_t> w(gemm_s8_packed_bytes(s.n, 1, s.k) + 64);
  Guarded<int32_t> bias(round_up(s.n, 16) + 16);
  Guarded<float> scale(round_up(s.n, 16) + 16);
  std::fill(scale.data(), scale.data() + scale.size(), 1e-3f);
  const GemmS8Args g{.geo = gemm_s8_matrix(s.m, s.n, s.k, s.k, s.n),
                     .a = a.data(),
                     .w = w.data(),
                     .bias = bias.data(),
                     .scale = scale.data(),
                     .y = y.data(),
                     .residual = nullptr,
                     .residual_scale = 0,
                     .residual_zero = 0,
                     .zero_point = 128,
                     .lo = 0,
                     .hi = 255};
  const auto fn = reinterpret_cast<GemmS8Fn>(k.fn);
  for (auto _ : state) fn(g);
  report(state, k, static_cast<double>(s.m) * s.n * s.k, true);
}

void gemm_f32(benchmark::State& state, const Kernel& k, GemmShape s) {
  std::vector<float> a(static_cast<size_t>(s.m) * s.k + 16, 0.5f), y(static_cast<size_t>(s.m) * s.n);
  Guarded<float> w(gemm_f32_packed_elems(s.n, 1, s.k) + 16);
  std::fill(w.data(), w.data() + w.size(), 0.25f);
  const GemmF32Args g{.geo = gemm_f32_matrix(s.m, s.n, s.k, s.k, s.n),
                      .a = a.data(),
                      .w = w.data(),
                      .bias = nullptr,
                      .y = y.data(),
                      .residual = nullptr,
                      .lo = 0,
                      .hi = 6};
  const auto fn = reinterpret_cast<GemmF32Fn>(k.fn);
  for (auto _ : state) fn(g);
  report(state, k, static_cast<double>(s.m) * s.n * s.k, false);
}

// 3x3 with one pixel of padding.
template <class Args>
void set_dw(const DwShape& s, Args* d) {
  const uint32_t out = s.size / s.stride;
  d->in.rows = d->in.cols = s.size;
  d->in.row_step = s.size * s.n;
  d->in.col_step = s.n;
  d->in.row0 = d->in.col0 = -1;
  d->in.stride_h = d->in.stride_w = s.stride;
  d->in.dilation_h = d->in.dilation_w = 1;
  d->in.kh = d->in.kw = 3;
  d->y_row_step = out * s.n;
  d->y_col_step = s.n;
  d->rows = d->cols = out;
  d->n = s.n;
  d->multiplier = 1;
}

void dw_s8(benchmark::State& state, const Kernel& k, DwShape s) {
  Guarded<uint8_t> a(static_cast<size_t>(s.size) * s.size * s.n + 64), pad(s.size * s.n + 64),
      y(static_cast<size_t>(s.size) * s.size * s.n);
  Guarded<int8_t> w(dwconv_s8_packed_bytes(s.n, 3, 3) + 64);
  Guarded<int32_t> bias(round_up(s.n, 16) + 16);
  Guarded<float> scale(round_up(s.n, 16) + 16);
  std::fill(scale.data(), scale.data() + scale.size(), 1e-2f);
  DwConvS8Args d{};
  set_dw(s, &d);
  d.in.a = a.data(), d.in.pad_row = pad.data(), d.w = w.data(), d.bias = bias.data(), d.scale = scale.data(), d.y = y.data();
  d.zero_point = 128, d.lo = 0, d.hi = 255;
  const auto fn = reinterpret_cast<DwConvS8Fn>(k.fn);
  for (auto _ : state) fn(d);
  report(state, k, static_cast<double>(d.rows) * d.cols * s.n * 9, true);
}

void dw_f32(benchmark::State& state, const Kernel& k, DwShape s) {
  Guarded<float> a(static_cast<size_t>(s.size) * s.size * s.n + 16), pad(s.size * s.n + 16),
      y(static_cast<size_t>(s.size) * s.size * s.n);
  std::fill(a.data(), a.data() + a.size(), 0.5f);
  Guarded<float> w(dwconv_f32_packed_elems(s.n, 3, 3) + 16);
  std::fill(w.data(), w.data() + w.size(), 0.25f);
  DwConvF32Args d{};
  set_dw(s, &d);
  d.in.a = a.data(), d.in.pad_row = pad.data(), d.w = w.data(), d.y = y.data(), d.lo = 0, d.hi = 6;
  const auto fn = reinterpret_cast<DwConvF32Fn>(k.fn);
  for (auto _ : state) fn(d);
  report(state, k, static_cast<double>(d.rows) * d.cols * s.n * 9, false);
}

void add_gemm(const Kernel& k, void (*run)(benchmark::State&, const Kernel&, GemmShape)) {
  for (const GemmShape& s : kGemmShapes) {
    const std::string name =
        std::string(k.name) + "/" + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
    benchmark::RegisterBenchmark(name.c_str(), [&k, s, run](benchmark::State& state) { run(state, k, s); });
  }
}

void add_dw(const Kernel& k, void (*run)(benchmark::State&, const Kernel&, DwShape)) {
  for (const DwShape& s : kDwShapes) {
    const std::string name = std::string(k.name) + "/" + std::to_string(s.size) + "x" + std::to_string(s.size) + "x" +
                             std::to_string(s.n) + "s" + std::to_string(s.stride);
    benchmark::RegisterBenchmark(name.c_str(), [&k, s, run](benchmark::State& state) { run(state, k, s); });
  }
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  using namespace lathe;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const auto& k : kernels::all_kernels()) {
    if (k.fn == nullptr || !kernels::covers(kernels::runnable_isa(), k.needs)) continue;
    if (k.family == kernels::Family::kGemmS8) bench::add_gemm(k, bench::gemm_s8);
    if (k.family == kernels::Family::kGemmF32) bench::add_gemm(k, bench::gemm_f32);
    if (k.family == kernels::Family::kDwConvS8) bench::add_dw(k, bench::dw_s8);
    if (k.family == kernels::Family::kDwConvF32) bench::add_dw(k, bench::dw_f32);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
