// Kernel benchmarks, from the same list as the tests: every kernel that this machine runs, on the shapes of
// bench/kernels/shapes.inc. GOPS counts two operations per multiply-add; `peak` is the share of what bench/kernels/peak.h
// measures.
//
//   bench/bench_kernels --benchmark_filter=vnni --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include "bench/kernels/kernel_case.h"
#include "tests/kernels/under_test.h"

namespace lathe::bench {
namespace {

void measure(benchmark::State& state, const kernels::Kernel& kernel, const BenchShape& shape) {
  const KernelCase c = make_case(kernel, shape);
  for (auto _ : state) c.run();
  const auto rate = [&](double amount) {
    return benchmark::Counter(amount * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  };
  if (c.ops > 0) state.counters["GOPS"] = rate(c.ops / 1e9);
  state.counters["GB/s"] = rate(c.bytes / 1e9);
  if (const double share = share_of_peak(c, 1); share > 0) state.counters["peak"] = rate(share / 1e9);
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  using namespace lathe;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  for (const auto& k : kernels::all_kernels()) {
    if (k.fn == nullptr || !kernels::covers(kernels::runnable_isa(), k.needs)) continue;
    for (const bench::BenchShape& s : bench::shapes_of(k.family)) {
      const std::string name = std::string(k.name) + "/" + s.text();
      benchmark::RegisterBenchmark(name.c_str(), [&k, s](benchmark::State& state) { bench::measure(state, k, s); });
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
