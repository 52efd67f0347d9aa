// Whole networks: every model given, at batch 1 and 8, on 1 and 2 threads.
//
//   bench/networks resnet50.int8.lathe mobilenetv2.int8.lathe --benchmark_repetitions=5 --benchmark_format=json
//
// A model whose batch is fixed is reported as an error at other batches.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "tools/arguments.h"
#include "tools/measured_model.h"

namespace {

void measure(benchmark::State& state, const lathe::tools::MeasureFlags& flags) {
  auto opened = lathe::tools::open_measured(flags);
  if (!opened) return state.SkipWithError(opened.error().message.c_str());
  for (auto _ : state) {
    if (!opened->runner.run()) return state.SkipWithError("run failed");
  }
  state.counters["samples/s"] =
      benchmark::Counter(static_cast<double>(flags.batch) * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> models;
  lathe::tools::MeasureFlags flags;
  lathe::tools::CommandLine line("time whole networks at batch 1 and 8 on 1 and 2 threads");
  lathe::tools::Arguments args = line.arguments();
  args.option("models", models, ".lathe or .onnx files").required();
  args.option("--isa", flags.session.isa, "use no instruction set above this one");
  flags.import.add_to(args);
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  for (const std::string& model : models) {
    for (const uint32_t batch : {1u, 8u}) {
      for (const uint32_t threads : {1u, 2u}) {
        flags.model = model, flags.batch = batch, flags.session.threads = threads;
        const std::string name = std::filesystem::path(model).filename().string() + "/batch:" + std::to_string(batch) +
                                 "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(), measure, flags)->UseRealTime()->Unit(benchmark::kMicrosecond);
      }
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
