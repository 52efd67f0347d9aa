// LinearAttention: one task per batch and key head, which walks through the sequence with its state S [dk, dv]:
//
//   S *= exp(decay) (a row at a time);  v' = beta (v - S^T k) where there is a beta, else v;  S += k v'^T;  y = scale S^T q
//
// for every query head that shares the key head.
#include "kernels/math/math.h"
#include "runtime/exec/checks.h"

namespace lathe {
namespace {

enum Operand : uint32_t { kQ, kK, kV, kState, kDecay, kBeta };

struct LinearAttentionParams {
  uint32_t batch, steps, q_heads, kv_heads, dk, dv;
  uint32_t decay_width, beta_width;  // values per step; 0: missing
  float scale;
};

// The task's head of one sequence at step 0, and how far it is to the next step.
struct Head {
  const float *q, *k, *v, *decay, *beta;
  float *y, *state, *value;
  uint32_t decay_step;  // 1: one factor per row of the state, 0: one for all
};

void decay_state(const LinearAttentionParams& p, const Head& h) {
  for (uint32_t d = 0; d < p.dk; ++d) {
    const float f = kernels::exp_f32(h.decay[d * h.decay_step]);
    for (uint32_t m = 0; m < p.dv; ++m) h.state[d * p.dv + m] *= f;
  }
}

// y = S^T x.
void read_state(const LinearAttentionParams& p, const float* state, const float* x, float* y) {
  for (uint32_t m = 0; m < p.dv; ++m) y[m] = 0;
  for (uint32_t d = 0; d < p.dk; ++d)
    for (uint32_t m = 0; m < p.dv; ++m) y[m] += x[d] * state[d * p.dv + m];
}

void run_step(const LinearAttentionParams& p, const Head& h) {
  if (h.decay != nullptr) decay_state(p, h);
  if (h.beta != nullptr) {
    read_state(p, h.state, h.k, h.value);
    for (uint32_t m = 0; m < p.dv; ++m) h.value[m] = *h.beta * (h.v[m] - h.value[m]);
  } else {
    __builtin_memcpy(h.value, h.v, p.dv * sizeof(float));
  }
  for (uint32_t d = 0; d < p.dk; ++d)
    for (uint32_t m = 0; m < p.dv; ++m) h.state[d * p.dv + m] += h.k[d] * h.value[m];
  for (uint32_t g = 0; g < p.q_heads / p.kv_heads; ++g) {
    float* y = h.y + g * p.dv;
    read_state(p, h.state, h.q + g * p.dk, y);
    for (uint32_t m = 0; m < p.dv; ++m) y[m] *= p.scale;
  }
}

// Operand i is float32 of these dims.
bool has_dims(const PrepareInput& in, uint32_t i, uint32_t rank, uint32_t d0, uint32_t d1, uint64_t d2, uint32_t d3 = 0) {
  const Shape& s = in.shape(i);
  const uint64_t dims[4] = {d0, d1, d2, d3};
  bool same = is_f32(in, i) && s.rank == rank;
  for (uint32_t a = 0; same && a < rank; ++a) same = static_cast<uint64_t>(s.dims[a]) == dims[a];
  return same;
}

uint32_t optional_width(const PrepareInput& in, uint32_t i) {
  if (i >= in.step->n_in || !in.has(i)) return 0;
  const Shape& s = in.shape(i);
  return s.rank == 3 ? static_cast<uint32_t>(s.dims[2]) : 0xffffffffu;
}

bool sizes_fit(const PrepareInput& in, const LinearAttentionParams& p) {
  const auto width = [](uint32_t heads, uint32_t size) { return static_cast<uint64_t>(heads) * size; };
  const bool has_state = in.step->n_in > kState && in.has(kState);
  return has_dims(in, kQ, 3, p.batch, p.steps, width(p.q_heads, p.dk)) &&
         has_dims(in, kK, 3, p.batch, p.steps, width(p.kv_heads, p.dk)) &&
         has_dims(in, kV, 3, p.batch, p.steps, width(p.kv_heads, p.dv)) &&
         (!has_state || has_dims(in, kState, 4, p.batch, p.kv_heads, p.dk, p.dv)) &&
         (p.decay_width == 0 || ((p.decay_width == p.kv_heads || p.decay_width == width(p.kv_heads, p.dk)) &&
                                 has_dims(in, kDecay, 3, p.batch, p.steps, p.decay_width))) &&
         (p.beta_width == 0 ||
          ((p.beta_width == p.kv_heads || p.beta_width == 1) && has_dims(in, kBeta, 3, p.batch, p.steps, p.beta_width))) &&
         has_dims(in, in.out(0), 3, p.batch, p.steps, width(p.q_heads, p.dv)) &&
         has_dims(in, in.out(1), 4, p.batch, p.kv_heads, p.dk, p.dv);
}

}  // namespace

Status prepare_LinearAttention(const PrepareInput& in, Prepared* out) {
  const LinearAttentionAttrs a = in.program->attrs<LinearAttentionAttrs>(*in.step);
  if (a.q_heads < 1 || a.kv_heads < 1 || a.q_heads % a.kv_heads != 0) return refuse(in, Code::kInvalidArgument);
  if (in.shape(kQ).rank != 3 || in.shape(kV).rank != 3) return refuse(in, Code::kInvalidArgument, 3, in.shape(kQ).rank);
  LinearAttentionParams& p = out->make<LinearAttentionParams>();
  p.scale = a.scale;
  p.q_heads = static_cast<uint32_t>(a.q_heads);
  p.kv_heads = static_cast<uint32_t>(a.kv_heads);
  p.batch = static_cast<uint32_t>(in.shape(kQ).dims[0]);
  p.steps = static_cast<uint32_t>(in.shape(kQ).dims[1]);
  p.dk = static_cast<uint32_t>(in.shape(kQ).dims[2]) / p.q_heads;
  p.dv = static_cast<uint32_t>(in.shape(kV).dims[2]) / p.kv_heads;
  p.decay_width = optional_width(in, kDecay);
  p.beta_width = optional_width(in, kBeta);
  if (!sizes_fit(in, p)) return refuse(in, Code::kInvalidArgument, p.q_heads, p.kv_heads);
  const uint64_t bytes = static_cast<uint64_t>(p.dv) * sizeof(float) * in.threads;
  if (bytes > 0x7fffffff) return refuse(in, Code::kOutOfMemory, 0x7fffffff, p.dv);
  out->scratch_bytes = static_cast<uint32_t>(bytes);
  out->exact_input_mask = 0x3f;
  return {};
}

void run_LinearAttention(const RunContext& ctx, const BoundStep& step) {
  const LinearAttentionParams& p = ctx.params<LinearAttentionParams>(step);
  const uint32_t group = p.q_heads / p.kv_heads, state = p.dk * p.dv;
  const float *decay = ctx.in<float>(step, kDecay), *beta = ctx.in<float>(step, kBeta), *before = ctx.in<float>(step, kState);
  ctx.parallel(p.batch * p.kv_heads, [&](uint32_t task, uint32_t slot) {
    const uint32_t b = task / p.kv_heads, head = task % p.kv_heads;
    const bool row_decay = p.decay_width != p.kv_heads || p.dk == 1;
    Head h{};
    h.decay_step = row_decay ? 1 : 0;
    h.value = reinterpret_cast<float*>(ctx.scratch(step)) + slot * p.dv;
    h.state = ctx.out<float>(step, 1) + static_cast<uint64_t>(task) * state;
    if (before != nullptr) __builtin_memcpy(h.state, before + static_cast<uint64_t>(task) * state, state * sizeof(float));
    else __builtin_memset(h.state, 0, state * sizeof(float));
    for (uint32_t t = 0; t < p.steps; ++t) {
      const uint64_t row = static_cast<uint64_t>(b) * p.steps + t;
      h.q = ctx.in<float>(step, kQ) + (row * p.q_heads + head * group) * p.dk;
      h.k = ctx.in<float>(step, kK) + (row * p.kv_heads + head) * p.dk;
      h.v = ctx.in<float>(step, kV) + (row * p.kv_heads + head) * p.dv;
      h.y = ctx.out<float>(step, 0) + (row * p.q_heads + head * group) * p.dv;
      if (decay != nullptr) h.decay = decay + row * p.decay_width + (row_decay ? head * p.dk : head);
      if (beta != nullptr) h.beta = beta + row * p.beta_width + (p.beta_width == 1 ? 0 : head);
      run_step(p, h);
    }
  });
}

}  // namespace lathe
