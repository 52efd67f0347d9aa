// Damaged plans with the real operators: whatever the bytes say, a plan is refused or runs inside its memory. AddressSanitizer
// sees what goes astray.
#include <doctest/doctest.h>

#include "tests/machine.h"
#include "tests/runtime/core_run.h"
#include "tests/runtime/sample_cnn.h"

using namespace lathe;
using lathe::test::BuiltProgram;
using lathe::test::CoreRun;
using lathe::test::kSmallMachine;
using lathe::test::SampleCnn;

namespace {

struct Outcome {
  int refused = 0, ran = 0;
};

// Larger runs prove nothing more and take long.
constexpr uint64_t kMaxElems = 1u << 20;

bool small_enough(const Program& p, const BoundDims& dims) {
  uint64_t elems = 0;
  for (uint32_t t = 0; t < p.tensor_count(); ++t) elems += dims.shapes[t].elems();
  return elems < kMaxElems;
}

void try_program(const BuiltProgram& built, kernels::Storage storage, Outcome* outcome) {
  ++outcome->refused;
  Program p;
  if (!built.open(&p).ok() || p.header().input_count != 1) return;
  const Shape shape = test::sample_shape(2);
  test::HeapPlanMemory heap;
  BoundDims dims;
  if (!evaluate_dims(p, &shape, heap.memory(), &dims).ok() || !small_enough(p, dims)) return;
  BindOptions options;
  options.table = full_exec_table();
  options.index = &exec_index;
  options.storage = storage;
  CoreRun run;
  if (!run.bind(p, {shape}, options).ok() || run.binding.plan.arena_bytes > 64 * kMaxElems) return;
  std::vector<std::vector<uint8_t>> out;
  std::vector<void*> out_data;
  for (uint32_t i = 0; i < run.binding.plan.output_count; ++i)
    out.emplace_back(run.binding.plan.ports[run.binding.plan.input_count + i].bytes);
  for (auto& o : out) out_data.push_back(o.data());
  const std::vector<float> x = test::sample_input(2);
  if (run.binding.plan.ports[0].bytes > x.size() * sizeof(float)) return;
  run.run({x.data()}, out_data);
  --outcome->refused;
  ++outcome->ran;
}

void flip_everywhere(bool quantized, kernels::Storage storage) {
  BuiltProgram built = SampleCnn(quantized).build();
  Outcome outcome;
  try_program(built, storage, &outcome);
  REQUIRE(outcome.ran == 1);
  const uint8_t patterns[] = {0x01, 0x02, 0x08, 0x80, 0xff};
  for (size_t i = 0; i < built.plan_bytes; ++i)
    for (const uint8_t pattern : patterns) {
      built.plan_data()[i] ^= pattern;
      try_program(built, storage, &outcome);
      built.plan_data()[i] ^= pattern;
    }
  MESSAGE(outcome.refused << " refused, " << outcome.ran << " ran");
  CHECK(outcome.refused > 100);
  CHECK(outcome.ran > 100);
}

}  // namespace

TEST_CASE("flipped bits of a float plan end in an error or in a run inside its memory" * doctest::skip(kSmallMachine)) {
  flip_everywhere(false, kernels::Storage::kS8);
}
TEST_CASE("flipped bits of an 8-bit plan end in an error or in a run inside its memory" * doctest::skip(kSmallMachine)) {
  flip_everywhere(true, kernels::Storage::kS8);
}
TEST_CASE("flipped bits of an 8-bit plan under u8 end in an error or in a run inside its memory" * doctest::skip(kSmallMachine)) {
  flip_everywhere(true, kernels::Storage::kU8);
}
