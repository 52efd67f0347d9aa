// Runs a handful of kernels and a small network once each, for check_counts.py to count their instructions under callgrind.
//
//   LATHE_ISA=avx2 count_driver        prints the instruction set that it uses, then the cases' names in the order it runs them
//
// Only what happens inside counted() counts. Cases are small: valgrind runs fifty times slower.
#include <cstdio>

#include "bench/kernels/kernel_case.h"
#include "runtime/host/cpu.h"
#include "tests/runtime/core_run.h"
#include "tests/runtime/sample_cnn.h"

namespace lathe {
namespace {

using bench::BenchShape;
using bench::ShapeKind;
using kernels::Family;

struct CountedCase {
  Family family;
  BenchShape shape;
};
const CountedCase kCases[] = {
    {Family::kGemmS8, {.kind = ShapeKind::kGemm, .m = 49, .n = 64, .k = 64}},
    {Family::kGemmS8, {.kind = ShapeKind::kGemm, .m = 1, .n = 256, .k = 256}},
    {Family::kGemmS8, {.kind = ShapeKind::kConv, .h = 8, .w = 8, .c = 32, .oc = 32, .kernel = 3, .pad = 1}},
    {Family::kGemmF32, {.kind = ShapeKind::kGemm, .m = 49, .n = 64, .k = 64}},
    {Family::kDwConvS8, {.kind = ShapeKind::kDepthwise, .h = 14, .w = 14, .c = 64, .oc = 64, .kernel = 3, .pad = 1}},
    {Family::kDwConvF32, {.kind = ShapeKind::kDepthwise, .h = 14, .w = 14, .c = 64, .oc = 64, .kernel = 3, .pad = 1}},
    {Family::kMaxPoolS8, {.kind = ShapeKind::kWindow, .h = 14, .w = 14, .c = 64, .oc = 64, .kernel = 3, .stride = 2, .pad = 1}},
    {Family::kBinaryS8, {.kind = ShapeKind::kRows, .m = 49, .n = 144}},
    {Family::kQuantizeF32, {.kind = ShapeKind::kRows, .m = 49, .n = 144}},
    {Family::kSoftmaxS8, {.kind = ShapeKind::kRows, .m = 8, .n = 128}},
};

}  // namespace

// callgrind counts between entry and return of this function, by name.
extern "C" __attribute__((noinline)) void lathe_counted(const std::function<void()>& run) {
  run();
  asm volatile("" ::: "memory");
}

namespace {

void count_kernels(kernels::IsaSet isa) {
  for (const CountedCase& c : kCases) {
    for (const kernels::Kernel& k : kernels::all_kernels()) {
      if (k.family != c.family || !bench::is_selected(k, c.shape, isa)) continue;
      const bench::KernelCase ready = bench::make_case(k, c.shape);
      ready.run();
      std::printf("%s/%s\n", kernels::family_name(k.family), c.shape.text().c_str());
      lathe_counted(ready.run);
    }
  }
}

int count_network(kernels::IsaSet isa, bool quantized) {
  const test::BuiltProgram built = test::SampleCnn(quantized).build();
  Program program;
  test::CoreRun core;
  BindOptions options;
  options.isa = isa;
  options.storage = storage_for(isa);
  options.table = full_exec_table();
  options.index = exec_index;
  const std::vector<float> x(9 * 7 * 3 + 16, 0.25f);
  std::vector<float> y(10 + 16);
  if (!built.open(&program).ok() || !core.bind(program, {test::sample_shape(1)}, options).ok()) return 1;
  const auto run = [&] { core.run({x.data()}, {y.data()}); };
  run();
  std::printf("network %s\n", quantized ? "s8" : "f32");
  lathe_counted(run);
  return 0;
}

}  // namespace
}  // namespace lathe

int main() {
  const auto isa = lathe::machine_isa();
  if (!isa) {
    std::fprintf(stderr, "count_driver: %s\n", isa.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", lathe::isa_text(*isa));
  lathe::count_kernels(*isa);
  return lathe::count_network(*isa, true) | lathe::count_network(*isa, false);
}
