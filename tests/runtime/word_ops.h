// A small exec table over 32-bit words for tests of the planner and the executor: every operator scrambles its inputs in its own
// way, and makes wrong sharing of memory visible: scratch is filled before an input is read, and a step that allows no sharing
// destroys its output first.
#pragma once
#include <cstdint>

#include "runtime/exec/exec.h"

namespace lathe::test {

struct WordParams {
  uint32_t n_out, n_a, n_b, scratch_words;
};

inline Status prepare_words(const PrepareInput& in, Prepared* out, uint32_t scratch_words, uint32_t share, bool alias) {
  auto& p = out->make<WordParams>();
  p.n_out = in.shape(in.out()).elems();
  p.n_a = in.shape(0).elems();
  p.n_b = in.step->n_in > 1 ? in.shape(1).elems() : 0;
  p.scratch_words = scratch_words;
  out->scratch_bytes = scratch_words * 4;
  out->share_input_mask = share;
  out->alias_input0 = alias;
  return {};
}

// y[i] = a[i] * 31 + b[i % n_b]; in place with a, and with b where it is as large.
inline Status prepare_add(const PrepareInput& in, Prepared* out) { return prepare_words(in, out, 0, 3, false); }
inline void run_add(const RunContext& c, const BoundStep& s) {
  const auto& p = c.params<WordParams>(s);
  const auto *a = c.in<uint32_t>(s, 0), *b = c.in<uint32_t>(s, 1);
  auto* y = c.out<uint32_t>(s, 0);
  c.parallel(p.n_out, [&](uint32_t i, uint32_t) { y[i] = a[i] * 31 + b[i % p.n_b]; });
}

// y[i] = x[(i * 7) % n_a] + 1, by way of scratch; never in place.
inline Status prepare_softmax(const PrepareInput& in, Prepared* out) {
  return prepare_words(in, out, in.shape(0).elems(), 0, false);
}
inline void run_softmax(const RunContext& c, const BoundStep& s) {
  const auto& p = c.params<WordParams>(s);
  const auto* x = c.in<uint32_t>(s, 0);
  auto* y = c.out<uint32_t>(s, 0);
  auto* t = reinterpret_cast<uint32_t*>(c.scratch(s));
  for (uint32_t i = 0; i < p.scratch_words; ++i) t[i] = 0xdeadbeef;
  for (uint32_t i = 0; i < p.n_out; ++i) y[i] = 0xdeadbeef;
  for (uint32_t i = 0; i < p.n_a; ++i) t[i] = x[i * 7u % p.n_a];
  for (uint32_t i = 0; i < p.n_out; ++i) y[i] = t[i % p.n_a] + 1;
}

inline Status prepare_reshape(const PrepareInput& in, Prepared* out) { return prepare_words(in, out, 0, 0, true); }
inline void run_reshape(const RunContext& c, const BoundStep& s) {
  const auto* x = c.in<uint32_t>(s, 0);
  auto* y = c.out<uint32_t>(s, 0);
  if (x == y) return;
  for (uint32_t i = 0; i < c.params<WordParams>(s).n_out; ++i) y[i] = x[i];
}

// variable += value.
inline Status prepare_assign(const PrepareInput& in, Prepared* out) {
  auto& p = out->make<WordParams>();
  p.n_out = in.shape(0).elems();
  p.n_a = in.shape(1).elems();
  return {};
}
inline void run_assign(const RunContext& c, const BoundStep& s) {
  const auto& p = c.params<WordParams>(s);
  auto* v = reinterpret_cast<uint32_t*>(c.operand(s, 0));
  const auto* x = c.in<uint32_t>(s, 1);
  for (uint32_t i = 0; i < p.n_out; ++i) v[i] += x[i % p.n_a];
}

inline const ExecEntry kWordTable[] = {
    {prepare_add, run_add}, {prepare_softmax, run_softmax}, {prepare_reshape, run_reshape}, {prepare_assign, run_assign}};
inline uint32_t word_index(uint16_t op) {
  switch (static_cast<Op>(op)) {
    case Op::kAdd: return 0;
    case Op::kSoftmax: return 1;
    case Op::kReshape: return 2;
    case Op::kAssign: return 3;
    default: return kNoTensor;
  }
}

inline BindOptions word_options() {
  BindOptions o;
  o.table = kWordTable;
  o.index = &word_index;
  return o;
}

}  // namespace lathe::test
