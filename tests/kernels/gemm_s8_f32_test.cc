// 8-bit operands, float result: every kernel equals the reference bit for bit, and the reference the formula.
#include "tests/kernels/gemm_problem.h"

namespace lathe::kernels {
namespace {

struct GemmS8F32Problem : GemmS8Operands {
  std::vector<float> row_scale, residual;
  Guarded<float> bias_f32;
  GemmS8F32Args args{};

  GemmS8F32Problem(const GemmCase& gemm_case, Storage s, uint32_t seed)
      : GemmS8Operands(gemm_case, s, seed, seed % 5 == 4),
        row_scale(c.pixels()),
        residual(layout.residual_elems() + 16),
        bias_f32(round_up(c.n, 16) + 16) {
    fill_floats(rng, row_scale.data(), row_scale.size(), 0.001f, 0.1f);
    fill_floats(rng, residual.data(), residual.size(), -1, 1);
    fill_floats(rng, bias_f32.data(), bias_f32.size(), -1, 1);
    const float bound = c.lo == -128 ? INFINITY : 0.05f;
    args = {.geo = layout.geo,
            .a = a_begin(),
            .w = w_begin(),
            .bias = bias_packed.data(),
            .row_scale = row_scale.data(),
            .row_scale_step = seed % 2,
            .scale = scale.data(),
            .bias_f32 = seed % 3 == 0 ? nullptr : bias_f32.data(),
            .y = nullptr,
            .residual = c.residual ? residual.data() : nullptr,
            .lo = -bound,
            .hi = bound};
  }

  float expected(uint32_t p, uint32_t ch) const {
    volatile float v = static_cast<float>(sum(p, ch)) * row_scale[p * args.row_scale_step];
    v = v * scale.data()[ch];
    if (args.bias_f32 != nullptr) v = v + bias_f32.data()[ch];
    if (args.residual != nullptr) v = v + residual[layout.residual_at(p) + ch];
    return std::fmin(std::fmax(v, args.lo), args.hi);
  }
};

GemmCase some_case(uint32_t seed) {
  const uint32_t rows[] = {1, 2, 3, 5, 7, 40}, cols[] = {1, 2, 5, 7, 6, 12, 13}, n[] = {3, 8, 16, 20, 24, 33, 56, 64, 100};
  const uint32_t seg_k[] = {4, 8, 12, 64, 5, 3};
  GemmCase c{.m = cols[seed % 7],
             .n = n[seed % 9],
             .segs = 1 + seed % 3,
             .seg_k = seg_k[seed % 6],
             .residual = seed % 4 == 1,
             .lo = seed % 3 == 1 ? -1 : -128,
             .rows = rows[seed % 6],
             .seg_rows = 1 + seed % 3};
  if (c.seg_k % 4 == 0) c.skip_rows = seed % 2;
  return c;
}

}  // namespace

TEST_CASE("the GEMM reference with a float result computes (float(acc) * s_row) * s_col + bias + residual") {
  for (const Storage storage : {Storage::kS8, Storage::kU8}) {
    const auto fn = reinterpret_cast<GemmS8F32Fn>(select(Family::kGemmS8F32, storage, kIsaScalar)->fn);
    for (uint32_t seed = 0; seed < 60; ++seed) {
      const GemmS8F32Problem p(some_case(seed), storage, seed);
      INFO(p.c << " seed " << seed);
      const auto y = run_guarded<float>(p.layout, p.args, fn, 4);
      for (uint32_t r = 0; r < p.c.pixels(); ++r) {
        for (uint32_t ch = 0; ch < p.c.n; ++ch) REQUIRE(y[p.layout.y_at(r) + ch] == p.expected(r, ch));
      }
    }
  }
}

TEST_CASE("every GEMM kernel with a float result equals the reference bit for bit") {
  const auto check = [](const GemmCase& c, uint32_t seed) {
    for_each_kernel<GemmS8F32Fn>(Family::kGemmS8F32, [&](const Kernel& k, GemmS8F32Fn fn, GemmS8F32Fn reference) {
      const GemmS8F32Problem p(c, k.storage, seed);
      INFO(k.name << " " << c << " seed " << seed);
      const auto got = run_guarded<float>(p.layout, p.args, fn, 4), want = run_guarded<float>(p.layout, p.args, reference, 4);
      REQUIRE(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0);
    });
  };
  for (uint32_t seed = 0; seed < 240; ++seed) check(some_case(seed), seed);
  uint32_t seed = 1;
  for (const uint32_t n : {1, 3, 8, 9, 15, 16, 17, 24, 25, 32, 33, 40, 48, 56, 63, 64, 65, 72, 80, 88, 100, 129}) {
    for (const uint32_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 19, 25}) {
      check({.m = m, .n = n, .segs = 1, .seg_k = 1 + seed % 30, .residual = seed % 2 == 0}, seed);
      ++seed;
    }
  }
}

}  // namespace lathe::kernels
