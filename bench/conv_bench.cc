// Whole convolution layers through prepare() and run(), padding and task splitting included, on every ISA level: the
// convolutions of bench/kernels/shapes.inc.
//
//   bench/bench_conv --benchmark_filter=avx512vnni
#include <benchmark/benchmark.h>

#include "bench/kernels/peak.h"
#include "bench/kernels/shape.h"
#include "tests/conv/conv_problem.h"

namespace lathe::bench {
namespace {

test::ConvCase layer(const BenchShape& s) {
  const auto i = [](uint32_t v) { return static_cast<int>(v); };
  test::ConvCase c;
  c.h = i(s.h), c.w = i(s.w), c.ic = i(s.c), c.oc = i(s.oc), c.kh = c.kw = i(s.kernel), c.stride_h = c.stride_w = i(s.stride);
  c.top = c.left = c.bottom = c.right = i(s.pad);
  c.groups = s.kind == ShapeKind::kDepthwise ? c.ic : 1;
  return c;
}

template <class Problem, class T>
void measure(benchmark::State& state, const BenchShape& s, kernels::IsaSet isa, kernels::Family family) {
  const Problem problem(layer(s), 1);
  test::Bound<T> bound(problem, {isa, 1});
  for (auto _ : state) bound.run();
  const double gop = 2.0 * static_cast<double>(problem.macs()) * static_cast<double>(state.iterations()) / 1e9;
  state.counters["GOPS"] = benchmark::Counter(gop, benchmark::Counter::kIsRate);
  const bool quantized = std::is_same_v<T, int8_t>;
  const auto* kernel = kernels::select(family, quantized ? storage_for(isa) : kernels::Storage::kS8, isa);
  if (const double peak = peak_gops(kernel->needs, quantized ? ProbeUse::kS8 : ProbeUse::kF32); peak > 0)
    state.counters["peak"] = benchmark::Counter(gop / peak, benchmark::Counter::kIsRate);
}

void add_layers(const kernels::IsaLevel& level, ShapeKind kind, kernels::Family s8, kernels::Family f32) {
  for (const BenchShape& s : listed_shapes(kind)) {
    const std::string name = (kind == ShapeKind::kDepthwise ? "dw_" : "") + s.text() + "/" + level.name;
    benchmark::RegisterBenchmark(("s8/" + name).c_str(), [s, &level, s8](benchmark::State& state) {
      measure<test::QuantizedConv, int8_t>(state, s, level.set, s8);
    });
    benchmark::RegisterBenchmark(("f32/" + name).c_str(), [s, &level, f32](benchmark::State& state) {
      measure<test::FloatConv, float>(state, s, level.set, f32);
    });
  }
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  using namespace lathe;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const auto& level : kernels::kIsaLevels) {
    if (!kernels::covers(kernels::runnable_isa(), level.set)) continue;
    bench::add_layers(level, bench::ShapeKind::kConv, kernels::Family::kGemmS8, kernels::Family::kGemmF32);
    bench::add_layers(level, bench::ShapeKind::kDepthwise, kernels::Family::kDwConvS8, kernels::Family::kDwConvF32);
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
