#include <tuple>

#include "tests/kernels/gemm_problem.h"

namespace lathe::kernels {
namespace {

// One 8-bit problem and what the formula says, in 64-bit and double arithmetic.
struct GemmS8Problem : GemmS8Operands {
  std::vector<uint8_t> residual;
  GemmS8Args args{};

  GemmS8Problem(const GemmCase& gemm_case, Storage s, uint32_t seed, bool extreme = false)
      : GemmS8Operands(gemm_case, s, seed, extreme), residual(1 + layout.residual_elems() + 63) {
    fill_ints(rng, residual.data(), residual.size(), 0, 255);
    const int32_t shift = storage_shift(storage);
    args = {.geo = layout.geo,
            .a = a_begin(),
            .w = w_begin(),
            .bias = bias_packed.data(),
            .scale = scale.data(),
            .y = nullptr,
            .residual = c.residual ? residual.data() + 1 : nullptr,
            .residual_scale = 0.37f,
            .residual_zero = (seed % 4 < 2 ? -128 : -7) + shift,
            .zero_point = c.zero_point + shift,
            .lo = c.lo + shift,
            .hi = c.hi + shift};
  }

  // ARITHMETIC.md's formula, independent of the library's code. `zeros`: the weights have zero points.
  int expected(uint32_t p, uint32_t ch, bool zeros) const {
    volatile float v = static_cast<float>(sum(p, ch, zeros ? w_zero.data()[ch] : 0)) * scale.data()[ch];
    if (c.residual) {
      volatile float res =
          static_cast<float>(value(residual, 1 + layout.residual_at(p) + ch) - args.residual_zero) * args.residual_scale;
      v = v + res;
    }
    const double rounded = std::nearbyint(static_cast<double>(v)) + args.zero_point;
    return static_cast<int>(std::fmin(std::fmax(rounded, args.lo), args.hi));
  }
};

GemmS8ZwArgs with_zeros(const GemmS8Problem& p) { return {p.args, p.w_zero.data()}; }

std::vector<uint8_t> run(GemmS8Problem& p, GemmS8Fn fn) { return run_guarded<uint8_t>(p.layout, p.args, fn, 5); }
std::vector<uint8_t> run(GemmS8Problem& p, GemmS8ZwFn fn) {
  // y belongs to the inner arguments.
  Guarded<uint8_t> y(p.layout.y_elems(), 5);
  GemmS8ZwArgs args = with_zeros(p);
  args.s8.y = y.data();
  fn(args);
  REQUIRE(y.intact(args.s8.geo.rows, args.s8.geo.cols, args.s8.geo.n, args.s8.geo.y_row_step, args.s8.geo.y_col_step));
  return {y.data(), y.data() + y.size()};
}

template <class Fn>
void check_family(Family family, const GemmCase& c, uint32_t seed, bool extreme) {
  for_each_kernel<Fn>(family, [&](const Kernel& k, Fn fn, Fn reference) {
    GemmS8Problem p(c, k.storage, seed, extreme);
    INFO(k.name << " " << c << " seed " << seed);
    const auto got = run(p, fn), want = run(p, reference);
    REQUIRE(got == want);
  });
}

void check_same(const GemmCase& c, uint32_t seed, bool extreme = false) {
  check_family<GemmS8Fn>(Family::kGemmS8, c, seed, extreme);
  check_family<GemmS8ZwFn>(Family::kGemmS8Zw, c, seed, extreme);
}

template <class Fn>
void check_reference(Family family, bool zeros) {
  for (const Storage storage : {Storage::kS8, Storage::kU8}) {
    const auto fn = reinterpret_cast<Fn>(select(family, storage, kIsaScalar)->fn);
    for (uint32_t seed = 0; seed < 60; ++seed) {
      const uint32_t skip = seed % 3 == 2 ? 1 : 0;
      const GemmCase c{.m = 1 + seed % 4,
                       .n = 1 + seed * 5 % 37,
                       .segs = 1 + seed % 3,
                       .seg_k = skip != 0 ? 4 * (1 + seed % 3) : 1 + seed % 13,
                       .residual = seed % 2 == 1,
                       .lo = seed % 3 == 0 ? 3 : -128,
                       .rows = 1 + seed / 2 % 3,
                       .seg_rows = 1 + seed / 3 % 3,
                       .skip_rows = skip,
                       .skip_cols = skip,
                       .backwards = seed % 7 == 3};
      GemmS8Problem p(c, storage, seed, seed % 5 == 4);
      INFO(c << " seed " << seed);
      const auto y = run(p, fn);
      for (uint32_t r = 0; r < c.pixels(); ++r) {
        for (uint32_t ch = 0; ch < c.n; ++ch) {
          const uint8_t raw = y[p.layout.y_at(r) + ch];
          REQUIRE((storage == Storage::kU8 ? raw : static_cast<int8_t>(raw)) == p.expected(r, ch, zeros));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("the 8-bit GEMM reference computes the formula of ARITHMETIC.md") {
  check_reference<GemmS8Fn>(Family::kGemmS8, false);
}

TEST_CASE("the 8-bit GEMM reference for weights with zero points computes sums of a (w - zero)") {
  check_reference<GemmS8ZwFn>(Family::kGemmS8Zw, true);
}

TEST_CASE("every 8-bit GEMM kernel equals the reference at tile edges") {
  uint32_t seed = 1;
  for (const uint32_t n : {1,  3,  8,  9,  10, 15, 16, 17, 20, 24, 25, 32,  33,
                           40, 47, 48, 49, 56, 63, 64, 65, 72, 80, 88, 100, 129}) {
    for (const uint32_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19, 23, 25, 31, 33}) {
      const uint32_t seg_k[] = {1, 3, 4, 9, 16, 27};
      // -128 is stored as 0 in u8, which with an open clamp makes the simplest finish.
      check_same({.m = m,
                  .n = n,
                  .segs = 1 + seed % 3,
                  .seg_k = seg_k[seed % 6],
                  .residual = seed % 3 == 0,
                  .zero_point = seed % 2 == 0 ? -128 : 3,
                  .lo = seed % 5 == 0 ? -120 : -128},
                 seed);
      ++seed;
    }
  }
}

TEST_CASE("every 8-bit GEMM kernel equals the reference for every length of a segment") {
  for (uint32_t seg_k = 1; seg_k <= 40; ++seg_k) check_same({.m = 7, .n = 20, .segs = 1 + seg_k % 4, .seg_k = seg_k}, seg_k);
  for (const uint32_t seg_k : {509u, 512u, 513u, 1100u, 2304u})
    check_same({.m = 8, .n = 70, .segs = 1, .seg_k = seg_k, .residual = true}, seg_k);
  check_same({.m = 13, .n = 33, .segs = 7, .seg_k = 301}, 7);
}

TEST_CASE("every 8-bit GEMM kernel equals the reference over many rows, for k in one piece and in several") {
  for (const uint32_t m : {18u, 35u, 36u, 37u, 73u, 150u, 700u}) {
    check_same({.m = m, .n = 25, .segs = 1, .seg_k = 16}, m);
    check_same({.m = m, .n = 72, .segs = 3, .seg_k = 260, .residual = m % 2 == 0}, m);
    check_same({.m = m, .n = 72, .segs = 3, .seg_k = 260, .skip_rows = 1, .skip_cols = 1}, m);
    check_same({.m = m, .n = 40, .segs = 2, .seg_k = 24, .residual = m % 2 == 1, .a_stride = 8}, m);
  }
}

TEST_CASE("every 8-bit GEMM kernel takes pixels that overlap") {
  uint32_t seed = 1;
  for (const auto& [stride, seg_k] :
       {std::pair{1u, 3u}, {2u, 5u}, {16u, 48u}, {3u, 9u}, {32u, 96u}, {63u, 64u}, {256u, 768u}, {200u, 600u}}) {
    for (const uint32_t m : {1, 2, 5, 6, 7, 13, 28}) {
      check_same(
          {.m = m, .n = 16 + seed % 20, .segs = 1 + seed % 5, .seg_k = seg_k, .residual = seed % 2 == 0, .a_stride = stride},
          seed);
      ++seed;
    }
  }
}

TEST_CASE("every 8-bit GEMM kernel takes rows of pixels and of segments, some left out, forwards and backwards") {
  for (uint32_t seed = 0; seed < 240; ++seed) {
    const uint32_t rows[] = {1, 2, 3, 5, 7, 40}, cols[] = {1, 2, 5, 7, 6, 12, 13}, n[] = {3, 8, 16, 20, 24, 33, 56, 64, 100};
    const uint32_t seg_k[] = {4, 8, 12, 64, 5, 3};
    GemmCase c{.m = cols[seed % 7],
               .n = n[seed % 9],
               .segs = seed % 4,
               .seg_k = seg_k[seed % 6],
               .residual = seed % 3 == 0,
               .zero_point = seed % 2 == 0 ? -128 : 3,
               .a_stride = seed % 5 == 0 ? 2 : 0u,
               .rows = rows[seed % 6],
               .seg_rows = 1 + seed % 3,
               .backwards = seed % 3 == 1};
    if (c.seg_k % 4 == 0) c.skip_rows = seed % 2, c.skip_cols = seed / 2 % 3;
    check_same(c, seed);
  }
}

TEST_CASE("an 8-bit GEMM without segments is its bias, without pixels nothing") {
  check_same({.m = 3, .n = 20, .segs = 2, .seg_k = 8, .rows = 2, .seg_rows = 0, .skip_rows = 1}, 5);
  for_each_kernel<GemmS8Fn>(Family::kGemmS8, [&](const Kernel& k, GemmS8Fn fn, GemmS8Fn) {
    GemmS8Problem p({.m = 3, .n = 20, .segs = 1, .seg_k = 8, .rows = 2}, k.storage, 5);
    Guarded<uint8_t> y(1);
    p.args.y = y.data();
    p.args.geo.rows = 0;
    fn(p.args);
    p.args.geo.rows = 2, p.args.geo.cols = 0;
    fn(p.args);
    CHECK(y.intact(0, 0, 0));
  });
}

TEST_CASE("8-bit GEMM kernels are exact for -128 x -128 and -128 x 127") {
  for (const uint32_t n : {10, 16, 64}) {
    for (const uint32_t seg_k : {3u, 64u, 999u})
      check_same({.m = 9, .n = n, .segs = 2, .seg_k = seg_k, .residual = n == 16}, n + seg_k, true);
  }
}

TEST_CASE("8-bit GEMM kernels agree for every zero point and clamp") {
  for (int z = -128; z <= 127; ++z) {
    check_same({.m = 5, .n = 17, .segs = 1, .seg_k = 5, .residual = z % 2 == 0, .zero_point = z}, static_cast<uint32_t>(z + 200));
    check_same({.m = 5, .n = 17, .segs = 1, .seg_k = 5, .zero_point = z}, static_cast<uint32_t>(z + 200));
    check_same({.m = 5, .n = 17, .segs = 1, .seg_k = 5, .zero_point = z, .lo = z, .hi = z + (127 - z) / 2},
               static_cast<uint32_t>(z + 200));
  }
}

TEST_CASE("8-bit GEMM kernels clamp before they convert, so that huge products do not wrap") {
  // 0.32 and 0.34 times up to 1.5: on both sides of the bound below which a kernel may clamp after converting.
  for (const float scale : {0.32f, 0.34f, 0.7f, 1e3f, 1e6f, 1e12f, 1e-12f}) {
    for (const uint32_t n : {16, 33, 64})
      check_same({.m = 7, .n = n, .segs = 1, .seg_k = 9, .residual = n == 33, .lo = -100, .hi = 101, .scale = scale}, n);
  }
}

TEST_CASE("packing 8-bit GEMM weights is undone by unpacking") {
  for (const auto& [n, segs, seg_k] : {std::tuple{1u, 1u, 1u}, {17u, 3u, 5u}, {16u, 1u, 64u}, {33u, 9u, 7u}}) {
    std::mt19937 rng(n);
    std::vector<int8_t> w(n * segs * seg_k), back(w.size()), packed(gemm_s8_packed_bytes(n, segs, seg_k));
    fill_ints(rng, w.data(), w.size(), -128, 127);
    gemm_s8_pack(w.data(), n, segs, seg_k, packed.data());
    gemm_s8_unpack(packed.data(), n, segs, seg_k, back.data());
    CHECK(w == back);
  }
}

}  // namespace lathe::kernels
