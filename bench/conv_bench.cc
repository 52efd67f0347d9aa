// Whole convolution layers through prepare() and run(), padding and task splitting included, on every ISA level: the layers of
// ResNet-20 and others.
//
//   bench/bench_conv --benchmark_filter=avx512vnni
#include <benchmark/benchmark.h>

#include <string>

#include "bench/peak.h"
#include "tests/conv/conv_problem.h"

namespace lathe::bench {
namespace {

using test::ConvCase;

struct Layer {
  const char* name;
  ConvCase c;
};
const Layer kLayers[] = {
    {"3x3_28x28x1_16", {.h = 28, .w = 28, .ic = 1, .oc = 16}},
    {"3x3_28x28x16_16", {.h = 28, .w = 28, .ic = 16, .oc = 16}},
    {"3x3_32x32x3_16", {.h = 32, .w = 32, .ic = 3, .oc = 16}},
    {"3x3_32x32x16_16", {.h = 32, .w = 32, .ic = 16, .oc = 16, .residual = true}},
    {"3x3_32x32x16_32_s2", {.h = 32, .w = 32, .ic = 16, .oc = 32, .stride_h = 2, .stride_w = 2}},
    {"1x1_32x32x16_32_s2",
     {.h = 32,
      .w = 32,
      .ic = 16,
      .oc = 32,
      .kh = 1,
      .kw = 1,
      .stride_h = 2,
      .stride_w = 2,
      .top = 0,
      .left = 0,
      .bottom = 0,
      .right = 0}},
    {"3x3_16x16x32_32", {.h = 16, .w = 16, .ic = 32, .oc = 32, .residual = true}},
    {"3x3_8x8x64_64", {.h = 8, .w = 8, .ic = 64, .oc = 64, .residual = true}},
    {"3x3_56x56x64_64", {.h = 56, .w = 56, .ic = 64, .oc = 64}},
    {"3x3_28x28x128_128", {.h = 28, .w = 28, .ic = 128, .oc = 128}},
    {"3x3_14x14x256_256", {.h = 14, .w = 14, .ic = 256, .oc = 256}},
    {"3x3_7x7x512_512", {.h = 7, .w = 7, .ic = 512, .oc = 512}},
    {"1x1_56x56x144_24", {.h = 56, .w = 56, .ic = 144, .oc = 24, .kh = 1, .kw = 1, .top = 0, .left = 0, .bottom = 0, .right = 0}},
    {"dw3x3_56x56x144", {.h = 56, .w = 56, .ic = 144, .oc = 144, .groups = 144}},
    {"dw3x3_25x5x64", {.h = 25, .w = 5, .ic = 64, .oc = 64, .groups = 64}},
    {"10x4_49x10x1_64_s2",
     {.h = 49,
      .w = 10,
      .ic = 1,
      .oc = 64,
      .kh = 10,
      .kw = 4,
      .stride_h = 2,
      .stride_w = 2,
      .top = 4,
      .left = 1,
      .bottom = 5,
      .right = 1}},
};

template <class Problem, class T>
void layer(benchmark::State& state, const ConvCase& c, kernels::IsaSet isa, bool quantized) {
  const Problem problem(c, 1);
  test::Bound<T> bound(problem, {isa, 1});
  for (auto _ : state) bound.run();
  const double ops = 2.0 * static_cast<double>(problem.macs()) * static_cast<double>(state.iterations());
  state.counters["GOPS"] = benchmark::Counter(ops / 1e9, benchmark::Counter::kIsRate);
  if (const double peak = peak_gops(isa, quantized); peak > 0)
    state.counters["peak"] = benchmark::Counter(ops / 1e9 / peak, benchmark::Counter::kIsRate);
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  using namespace lathe;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const auto& level : kernels::kIsaLevels) {
    if (!kernels::covers(kernels::runnable_isa(), level.set)) continue;
    for (const auto& l : bench::kLayers) {
      const std::string name = std::string(l.name) + "/" + level.name;
      benchmark::RegisterBenchmark(("s8/" + name).c_str(), [&l, &level](benchmark::State& s) {
        bench::layer<test::QuantizedConv, int8_t>(s, l.c, level.set, true);
      });
      benchmark::RegisterBenchmark(("f32/" + name).c_str(), [&l, &level](benchmark::State& s) {
        bench::layer<test::FloatConv, float>(s, l.c, level.set, false);
      });
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
