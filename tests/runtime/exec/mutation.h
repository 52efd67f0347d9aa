// Programs of one step with wrong bytes: attributes, dims, types and quantization parameters are changed at random. Each must be
// refused or run within its memory; with AddressSanitizer a step that reads or writes outside fails here.
#pragma once
#include "tests/machine.h"
#include "tests/runtime/exec/op_run.h"

namespace lathe::test {

inline constexpr uint64_t kMutationSeed = 20240611;

// A number that is likely to be wrong in an interesting way.
template <class Rng> uint32_t odd_number(Rng& rng) {
  const uint32_t numbers[] = {0, 1, 2, 3, 7, 8, 64, 255, 0x7fffffff, 0x80000000u, 0xffffffffu, 0xfffffffeu, 65536, 1u << 28};
  return rng() % 3 == 0 ? static_cast<uint32_t>(rng()) : numbers[rng() % (sizeof(numbers) / sizeof(numbers[0]))];
}

struct Mutated {
  int refused = 0, ran = 0;
};

// Binds the changed bytes and, if that succeeds, runs them with buffers of exactly the declared size.
inline void try_run(const BuiltProgram& built, const BindOptions& o, Mutated* count) {
  Program program;
  if (!built.open(&program).ok()) {
    ++count->refused;
    return;
  }
  std::vector<Shape> shapes(program.header().input_count);
  std::vector<std::vector<uint8_t>> buffers(program.header().input_count + program.header().output_count);
  for (uint32_t i = 0; i < program.tensor_count(); ++i) {
    const ProgramTensor& t = program.tensor(i);
    if (t.kind != TensorKind::kInput && t.kind != TensorKind::kOutput) continue;
    Shape s;
    s.rank = t.rank;
    for (uint32_t d = 0; d < t.rank; ++d) s.dims[d] = program.dim(t.dims[d]).op == DimOp::kConst ? program.dim(t.dims[d]).a : 1;
    uint32_t n = 0;
    if (!checked_elems(s, dtype_bytes(t.dtype), &n) || n > 1u << 17) {
      ++count->refused;
      return;
    }
    buffers[t.kind == TensorKind::kInput ? t.port : program.header().input_count + t.port].assign(n * dtype_bytes(t.dtype), 0x81);
    if (t.kind == TensorKind::kInput) shapes[t.port] = s;
  }
  CoreRun run;
  if (!run.bind(program, shapes, o).ok()) {
    ++count->refused;
    return;
  }
  std::vector<const void*> in;
  std::vector<void*> out;
  for (size_t i = 0; i < shapes.size(); ++i) in.push_back(buffers[i].data());
  for (size_t i = shapes.size(); i < buffers.size(); ++i) out.push_back(buffers[i].data());
  run.run(in, out, nullptr, {run_backwards, nullptr, o.threads});
  ++count->ran;
}

// Changes one to three 32-bit words of dims, tensors, steps or attributes.
template <class Rng> void mutate(Rng& rng, BuiltProgram* built) {
  const ProgramHeader h = *reinterpret_cast<const ProgramHeader*>(built->plan_data());
  uint32_t* words = reinterpret_cast<uint32_t*>(built->plan_data());
  for (uint32_t k = rng() % 3 + 1; k > 0; --k) {
    const struct {
      uint32_t at, bytes;
    } areas[] = {{h.dim_at, h.dim_count * h.dim_bytes},
                 {h.tensor_at, h.tensor_count * h.tensor_bytes},
                 {h.step_at, h.step_count * h.step_bytes},
                 {h.attr_at, h.attr_total},
                 {h.attr_at, h.attr_total}};
    const auto& area = areas[rng() % 5];
    if (area.bytes < 4) continue;
    const uint32_t word = area.at / 4 + static_cast<uint32_t>(rng() % (area.bytes / 4));
    words[word] = rng() % 2 == 0 ? odd_number(rng) : words[word] + static_cast<uint32_t>(rng() % 3) - 1;
  }
}

template <class A> void mutate_op(const OpCase& c, const A& attrs, Mutated* count) {
  std::mt19937 rng(kMutationSeed + static_cast<uint32_t>(c.op));
  const std::vector<BindOptions> options = all_options();
  for (int i = 0; i < 400; ++i) {
    BuiltProgram built = build_op(c, attrs);
    if (i > 0) mutate(rng, &built);
    try_run(built, options[rng() % options.size()], count);
  }
}

}  // namespace lathe::test
