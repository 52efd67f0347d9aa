// Lstm, Gru, Rnn: sequences of the batch are tasks of their own; a task walks through its steps.
//
// With p the row of x at a step, h the state and P = bias + h R:
//   Rnn:  h = f(p + P)
//   Gru:  z, r = f(p + P) of their gates; the candidate is g(p + r * P), or g(p + bias + (r * h) R); h = (1 - z) candidate + z h
//   Lstm: i, forget, candidate = f, f, g(p + P), peepholes add their share of the cell state c; c = forget c + i candidate;
//         o = f(p + P), its peephole sees the new c; h = o h(c)
#include "kernels/math/math.h"
#include "runtime/exec/checks.h"

namespace lathe {
namespace {

enum Operand : uint32_t { kX, kR, kBias, kState, kLengths, kCell, kPeepholes };
enum Gate : uint32_t { kLstmI, kLstmO, kLstmF, kLstmC };

struct RecurrentParams {
  uint32_t gates, steps, batch, n, width;  // width: gates * n
  uint32_t scratch;                        // floats per task
  RecurrentAttrs a;
};

struct Function {
  CellFunction kind;
  float a, b, clip;
};

float apply(CellFunction kind, float a, float b, float x) {
  switch (kind) {
    case CellFunction::kSigmoid: return kernels::sigmoid_f32(x);
    case CellFunction::kTanh: return kernels::tanh_f32(x);
    case CellFunction::kRelu: return x > 0 ? x : 0.0f;
    case CellFunction::kAffine: return a * x + b;
    case CellFunction::kLeakyRelu: return x < 0 ? a * x : x;
    case CellFunction::kThresholdedRelu: return x > a ? x : 0.0f;
    case CellFunction::kScaledTanh: return a * kernels::tanh_f32(b * x);
    case CellFunction::kHardSigmoid: return max_f32(0.0f, min_f32(1.0f, a * x + b));
    case CellFunction::kElu: return x < 0 ? a * (kernels::exp_f32(x) - 1.0f) : x;
    case CellFunction::kSoftsign: return x / (1.0f + (x < 0 ? -x : x));
  }
  return x;
}

void apply_all(const Function& f, float* x, uint32_t n) {
  if (f.clip > 0)
    for (uint32_t i = 0; i < n; ++i) x[i] = max_f32(-f.clip, min_f32(f.clip, x[i]));
  for (uint32_t i = 0; i < n; ++i) x[i] = apply(f.kind, f.a, f.b, x[i]);
}

// y[j] += sum_k x[k] r[k, j] over `n` rows of r, which are `stride` apart; `columns` of them. Four rows at a time: y stays in
// cache, r is read once and in order.
void add_product(const float* x, const float* r, uint32_t n, uint32_t columns, uint32_t stride, float* y) {
  uint32_t k = 0;
  for (; k + 4 <= n; k += 4) {
    const float x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
    const float *r0 = r + static_cast<uint64_t>(k) * stride, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
    for (uint32_t j = 0; j < columns; ++j) y[j] += (x0 * r0[j] + x1 * r1[j]) + (x2 * r2[j] + x3 * r3[j]);
  }
  for (; k < n; ++k)
    for (uint32_t j = 0; j < columns; ++j) y[j] += x[k] * r[static_cast<uint64_t>(k) * stride + j];
}

// One sequence of the batch; x and y are its rows at step 0.
struct Sequence {
  const float *x, *r, *bias, *peepholes;
  float *y, *h, *c;
  float *gates, *rest;  // scratch: width and n floats
  uint32_t length;
};

// gates = p + bias + h R in columns [from, to).
void sum_gates(const RecurrentParams& p, const Sequence& s, const float* x, const float* h, uint32_t from, uint32_t to) {
  for (uint32_t j = from; j < to; ++j) s.gates[j] = x[j] + (s.bias != nullptr ? s.bias[j] : 0.0f);
  add_product(h, s.r + from, p.n, to - from, p.width, s.gates + from);
}

void step_rnn(const RecurrentParams& p, const Sequence& s, const float* x) {
  sum_gates(p, s, x, s.h, 0, p.n);
  apply_all({static_cast<CellFunction>(p.a.functions[0]), p.a.f_a, p.a.f_b, p.a.clip}, s.gates, p.n);
  __builtin_memcpy(s.h, s.gates, p.n * sizeof(float));
}

void step_gru(const RecurrentParams& p, const Sequence& s, const float* x) {
  const uint32_t n = p.n, at = 2 * n;
  float *z = s.gates, *r = s.gates + n, *candidate = s.gates + at;
  sum_gates(p, s, x, s.h, 0, at);
  apply_all({static_cast<CellFunction>(p.a.functions[0]), p.a.f_a, p.a.f_b, p.a.clip}, z, at);
  if (p.a.reset_after != 0) {
    for (uint32_t j = 0; j < n; ++j) s.rest[j] = s.bias != nullptr ? s.bias[at + j] : 0.0f;
    add_product(s.h, s.r + at, n, n, p.width, s.rest);
    for (uint32_t j = 0; j < n; ++j) candidate[j] = x[at + j] + r[j] * s.rest[j];
  } else {
    for (uint32_t j = 0; j < n; ++j) s.rest[j] = r[j] * s.h[j];
    sum_gates(p, s, x, s.rest, at, p.width);
  }
  apply_all({static_cast<CellFunction>(p.a.functions[1]), p.a.g_a, p.a.g_b, p.a.clip}, candidate, n);
  for (uint32_t j = 0; j < n; ++j) s.h[j] = (1.0f - z[j]) * candidate[j] + z[j] * s.h[j];
}

void add_peephole(const Sequence& s, uint32_t which, float* gate, uint32_t n) {
  if (s.peepholes == nullptr) return;
  for (uint32_t j = 0; j < n; ++j) gate[j] += s.peepholes[which * n + j] * s.c[j];
}

void step_lstm(const RecurrentParams& p, const Sequence& s, const float* x) {
  const uint32_t n = p.n;
  float *in = s.gates + kLstmI * n, *out = s.gates + kLstmO * n, *forget = s.gates + kLstmF * n,
        *candidate = s.gates + kLstmC * n;
  const Function f{static_cast<CellFunction>(p.a.functions[0]), p.a.f_a, p.a.f_b, p.a.clip};
  sum_gates(p, s, x, s.h, 0, p.width);
  add_peephole(s, kLstmI, in, n);
  add_peephole(s, kLstmF, forget, n);
  apply_all(f, in, n);
  apply_all(f, forget, n);
  if (p.a.coupled_gates != 0)
    for (uint32_t j = 0; j < n; ++j) forget[j] = 1.0f - in[j];
  apply_all({static_cast<CellFunction>(p.a.functions[1]), p.a.g_a, p.a.g_b, p.a.clip}, candidate, n);
  for (uint32_t j = 0; j < n; ++j) s.c[j] = forget[j] * s.c[j] + in[j] * candidate[j];
  add_peephole(s, kLstmO, out, n);
  apply_all(f, out, n);
  __builtin_memcpy(s.h, s.c, n * sizeof(float));
  apply_all({static_cast<CellFunction>(p.a.functions[2]), p.a.h_a, p.a.h_b, 0}, s.h, n);
  for (uint32_t j = 0; j < n; ++j) s.h[j] *= out[j];
}

void run_sequence(const RecurrentParams& p, const Sequence& s) {
  for (uint32_t i = 0; i < p.steps; ++i) {
    const uint32_t t = p.a.reverse != 0 ? p.steps - 1 - i : i;
    float* y = s.y + static_cast<uint64_t>(t) * p.batch * p.n;
    if (t >= s.length) {
      __builtin_memset(y, 0, p.n * sizeof(float));
      continue;
    }
    const float* x = s.x + static_cast<uint64_t>(t) * p.batch * p.width;
    if (p.gates == 1) step_rnn(p, s, x);
    else if (p.gates == 3) step_gru(p, s, x);
    else step_lstm(p, s, x);
    __builtin_memcpy(y, s.h, p.n * sizeof(float));
  }
}

// The state of sequence `at` before its first step.
float* initial(const float* from, float* to, uint64_t at, uint32_t n) {
  if (from != nullptr) __builtin_memcpy(to + at, from + at, n * sizeof(float));
  else __builtin_memset(to + at, 0, n * sizeof(float));
  return to + at;
}

uint32_t clamped_length(const int32_t* lengths, uint32_t i, uint32_t steps) {
  if (lengths == nullptr || lengths[i] > static_cast<int32_t>(steps)) return steps;
  return lengths[i] < 0 ? 0 : static_cast<uint32_t>(lengths[i]);
}

void run_recurrent(const RunContext& ctx, const BoundStep& step) {
  const RecurrentParams& p = ctx.params<RecurrentParams>(step);
  ctx.parallel(p.batch, [&](uint32_t i, uint32_t slot) {
    const uint64_t at = static_cast<uint64_t>(i) * p.n;
    Sequence s{};
    s.x = ctx.in<float>(step, kX) + static_cast<uint64_t>(i) * p.width;
    s.r = ctx.in<float>(step, kR);
    s.bias = ctx.in<float>(step, kBias);
    s.y = ctx.out<float>(step, 0) + at;
    s.h = initial(ctx.in<float>(step, kState), ctx.out<float>(step, 1), at, p.n);
    s.length = clamped_length(ctx.in<int32_t>(step, kLengths), i, p.steps);
    s.gates = reinterpret_cast<float*>(ctx.scratch(step)) + static_cast<uint64_t>(slot) * p.scratch;
    s.rest = s.gates + p.width;
    if (p.gates == 4) {
      s.c = initial(ctx.in<float>(step, kCell), ctx.out<float>(step, 2), at, p.n);
      s.peepholes = ctx.in<float>(step, kPeepholes);
    }
    run_sequence(p, s);
  });
}

// Operand i, if it is there, is dense with these dims.
bool has_dims(const PrepareInput& in, uint32_t i, DType dtype, uint32_t rank, uint32_t d0, uint32_t d1 = 0, uint32_t d2 = 0) {
  if (i < in.step->n_in && !in.has(i)) return true;
  const Shape& s = in.shape(i);
  const uint32_t dims[3] = {d0, d1, d2};
  bool same = in.tensor(i).dtype == dtype && is_plain(in, i) && s.rank == rank;
  for (uint32_t a = 0; same && a < rank; ++a) same = static_cast<uint32_t>(s.dims[a]) == dims[a];
  return same;
}

Status prepare_recurrent(const PrepareInput& in, uint32_t gates, Prepared* out) {
  if (in.shape(kX).rank != 3 || in.shape(kR).rank != 2) return refuse(in, Code::kInvalidArgument, 3, in.shape(kX).rank);
  RecurrentParams& p = out->make<RecurrentParams>();
  p.a = in.program->attrs<RecurrentAttrs>(*in.step);
  for (int32_t f : p.a.functions)
    if (f < 0 || f >= kCellFunctions) return refuse(in, Code::kInvalidArgument, kCellFunctions, static_cast<uint32_t>(f));
  p.gates = gates;
  p.steps = static_cast<uint32_t>(in.shape(kX).dims[0]);
  p.batch = static_cast<uint32_t>(in.shape(kX).dims[1]);
  p.n = static_cast<uint32_t>(in.shape(kR).dims[0]);
  const uint64_t width = static_cast<uint64_t>(p.n) * gates;
  if (width > 0x1000000) return refuse(in, Code::kUnsupported, 0x1000000, p.n);
  p.width = static_cast<uint32_t>(width);
  const bool fits[] = {has_dims(in, kX, DType::kF32, 3, p.steps, p.batch, p.width),
                       has_dims(in, kR, DType::kF32, 2, p.n, p.width),
                       in.step->n_in <= kBias || has_dims(in, kBias, DType::kF32, 1, p.width),
                       in.step->n_in <= kState || has_dims(in, kState, DType::kF32, 2, p.batch, p.n),
                       in.step->n_in <= kLengths || has_dims(in, kLengths, DType::kS32, 1, p.batch),
                       in.step->n_in <= kCell || has_dims(in, kCell, DType::kF32, 2, p.batch, p.n),
                       in.step->n_in <= kPeepholes || has_dims(in, kPeepholes, DType::kF32, 1, 3 * p.n),
                       has_dims(in, in.out(0), DType::kF32, 3, p.steps, p.batch, p.n),
                       has_dims(in, in.out(1), DType::kF32, 2, p.batch, p.n),
                       gates != 4 || has_dims(in, in.out(2), DType::kF32, 2, p.batch, p.n)};
  for (uint32_t i = 0; i < sizeof fits / sizeof fits[0]; ++i)
    if (!fits[i]) return refuse(in, Code::kInvalidArgument, i, p.n);
  p.scratch = p.width + p.n;
  const uint64_t bytes = static_cast<uint64_t>(p.scratch) * sizeof(float) * in.threads;
  if (bytes > 0x7fffffff) return refuse(in, Code::kOutOfMemory, 0x7fffffff, p.n);
  out->scratch_bytes = static_cast<uint32_t>(bytes);
  out->exact_input_mask = 0x7f;
  return {};
}

}  // namespace

Status prepare_Lstm(const PrepareInput& in, Prepared* out) { return prepare_recurrent(in, 4, out); }
void run_Lstm(const RunContext& ctx, const BoundStep& step) { run_recurrent(ctx, step); }
Status prepare_Gru(const PrepareInput& in, Prepared* out) { return prepare_recurrent(in, 3, out); }
void run_Gru(const RunContext& ctx, const BoundStep& step) { run_recurrent(ctx, step); }
Status prepare_Rnn(const PrepareInput& in, Prepared* out) { return prepare_recurrent(in, 1, out); }
void run_Rnn(const RunContext& ctx, const BoundStep& step) { run_recurrent(ctx, step); }

}  // namespace lathe
