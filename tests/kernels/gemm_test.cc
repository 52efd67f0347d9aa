#include <doctest/doctest.h>

#include <Eigen/Core>
#include <cmath>

#include "kernels/gemm/gemm.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

struct GemmCase {
  uint32_t m, n, segs, seg_k;
  bool residual = false;
  int32_t zero_point = 3, lo = -128, hi = 127;  // in s8 terms
  float scale = 0;                              // 0: chosen so that results spread over the range
  uint32_t a_stride = 0;  // less than seg_k: rows overlap, as neighbouring pixels of a convolution do; 0: they do not
};

// Elements from one segment to the next, from one row to the next, and of all of `a`.
struct Spacing {
  uint32_t segment, row;
  size_t elems;
  Spacing(const GemmCase& c, uint32_t seed) {
    const uint32_t gap = 1 + seed % 3;
    segment = c.a_stride == 0 ? c.seg_k + gap : (c.m - 1) * c.a_stride + c.seg_k + gap;
    row = c.a_stride == 0 ? c.segs * segment + seed % 5 : c.a_stride;
    elems = static_cast<size_t>(c.m - 1) * row + static_cast<size_t>(c.segs) * segment;
  }
};

// One 8-bit problem: operands in memory as `storage` has them, and what the formula says, in 64-bit and double arithmetic.
struct GemmS8Problem {
  GemmCase c;
  Storage storage;
  std::vector<uint8_t> a, residual;
  std::vector<int32_t> offsets, bias;
  Guarded<int8_t> w;
  Guarded<int32_t> bias_packed;
  Guarded<float> scale;
  std::vector<int8_t> w_plain;
  GemmS8Args args{};

  GemmS8Problem(const GemmCase& gemm_case, Storage s, uint32_t seed, bool extreme = false)
      : c(gemm_case),
        storage(s),
        w(gemm_s8_packed_bytes(c.n, c.segs, c.seg_k) + 64),
        bias_packed(round_up(c.n, 16) + 16),
        scale(round_up(c.n, 16) + 16) {
    std::mt19937 rng(seed);
    const Spacing spacing(c, seed);
    a.resize(1 + spacing.elems + 63);
    residual.resize(1 + static_cast<size_t>(c.m) * (c.n + 2) + 63);
    fill_ints(rng, a.data(), a.size(), 0, 255);
    fill_ints(rng, residual.data(), residual.size(), 0, 255);
    w_plain.resize(static_cast<size_t>(c.n) * c.segs * c.seg_k);
    fill_ints(rng, w_plain.data(), w_plain.size(), -128, 127);
    if (extreme) {
      for (auto& v : a) v = storage == Storage::kU8 ? (v & 1 ? 255 : 0) : (v & 1 ? 127 : 128);
      for (auto& v : w_plain) v = v & 1 ? 127 : -128;
    }
    for (uint32_t i = 0; i < c.segs; ++i) offsets.push_back(static_cast<int32_t>(i * spacing.segment));
    bias.resize(c.n);
    fill_ints(rng, bias.data(), bias.size(), -40000, 40000);
    std::memset(w.data(), 0, w.size());
    std::memset(bias_packed.data(), 0, bias_packed.size() * sizeof(int32_t));
    std::memset(scale.data(), 0, scale.size() * sizeof(float));
    gemm_s8_pack(w_plain.data(), c.n, c.segs, c.seg_k, w.data());
    const float spread = c.scale != 0 ? c.scale : 60.0f / (127.0f * 74.0f * std::sqrt(static_cast<float>(c.segs * c.seg_k)));
    for (uint32_t i = 0; i < c.n; ++i) {
      bias_packed.data()[i] = bias[i];
      scale.data()[i] = spread * (0.5f + static_cast<float>(rng() % 1000) / 1000.0f);
    }
    const int32_t shift = storage_shift(storage);
    args = {.a = a.data() + 1,
            .a_stride = spacing.row,
            .seg_offset = offsets.data(),
            .segs = c.segs,
            .seg_k = c.seg_k,
            .w = w.data(),
            .bias = bias_packed.data(),
            .scale = scale.data(),
            .y = nullptr,
            .y_stride = c.n + 3,
            .residual = c.residual ? residual.data() + 1 : nullptr,
            .residual_stride = c.n + 2,
            .residual_scale = 0.37f,
            .residual_zero = -7 + shift,
            .zero_point = c.zero_point + shift,
            .lo = c.lo + shift,
            .hi = c.hi + shift,
            .m = c.m,
            .n = c.n};
  }

  size_t y_elems() const { return static_cast<size_t>(c.m - 1) * args.y_stride + c.n; }
  int value(const std::vector<uint8_t>& v, size_t i) const { return storage == Storage::kU8 ? v[i] : static_cast<int8_t>(v[i]); }

  // ARITHMETIC.md's formula, independent of the library's code.
  int expected(uint32_t r, uint32_t ch) const {
    int64_t acc = bias[ch];
    for (uint32_t s = 0; s < c.segs; ++s) {
      for (uint32_t k = 0; k < c.seg_k; ++k) {
        acc += value(a, 1 + static_cast<size_t>(r) * args.a_stride + static_cast<size_t>(offsets[s]) + k) *
               w_plain[(static_cast<size_t>(ch) * c.segs + s) * c.seg_k + k];
      }
    }
    volatile float v = static_cast<float>(acc) * scale.data()[ch];
    if (c.residual) {
      volatile float res =
          static_cast<float>(value(residual, 1 + static_cast<size_t>(r) * args.residual_stride + ch) - args.residual_zero) *
          args.residual_scale;
      v = v + res;
    }
    const double rounded = std::nearbyint(static_cast<double>(v)) + args.zero_point;
    return static_cast<int>(std::fmin(std::fmax(rounded, args.lo), args.hi));
  }
};

std::vector<uint8_t> run(GemmS8Problem& p, GemmS8Fn fn, bool* intact) {
  Guarded<uint8_t> y(p.y_elems(), 5);
  p.args.y = y.data();
  fn(p.args);
  *intact = y.intact(p.c.m, p.c.n, p.args.y_stride);
  return {y.data(), y.data() + y.size()};
}

void check_float(const GemmCase& c, uint32_t seed);

void check_same(const GemmCase& c, uint32_t seed, bool extreme = false) {
  for_each_kernel<GemmS8Fn>(Family::kGemmS8, [&](const Kernel& k, GemmS8Fn fn, GemmS8Fn reference) {
    GemmS8Problem p(c, k.storage, seed, extreme);
    bool intact = false, reference_intact = false;
    const auto got = run(p, fn, &intact);
    const auto want = run(p, reference, &reference_intact);
    INFO(k.name << " m " << c.m << " n " << c.n << " segs " << c.segs << " seg_k " << c.seg_k << " residual " << c.residual
                << " z " << c.zero_point << " seed " << seed);
    REQUIRE(intact);
    REQUIRE(reference_intact);
    REQUIRE(got == want);
  });
}

}  // namespace

TEST_CASE("the 8-bit GEMM reference computes the formula of ARITHMETIC.md") {
  for (const Storage storage : {Storage::kS8, Storage::kU8}) {
    const auto fn = reinterpret_cast<GemmS8Fn>(select(Family::kGemmS8, storage, kIsaScalar)->fn);
    for (uint32_t seed = 0; seed < 40; ++seed) {
      const GemmCase c{.m = 1 + seed % 4,
                       .n = 1 + seed * 5 % 37,
                       .segs = 1 + seed % 3,
                       .seg_k = 1 + seed % 13,
                       .residual = seed % 2 == 1,
                       .lo = seed % 3 == 0 ? 3 : -128};
      GemmS8Problem p(c, storage, seed, seed % 5 == 4);
      bool intact = false;
      const auto y = run(p, fn, &intact);
      for (uint32_t r = 0; r < c.m; ++r) {
        for (uint32_t ch = 0; ch < c.n; ++ch) {
          const uint8_t raw = y[r * p.args.y_stride + ch];
          REQUIRE((storage == Storage::kU8 ? raw : static_cast<int8_t>(raw)) == p.expected(r, ch));
        }
      }
    }
  }
}

TEST_CASE("every 8-bit GEMM kernel equals the reference at tile edges") {
  uint32_t seed = 1;
  for (const uint32_t n : {1, 3, 10, 15, 16, 17, 20, 32, 33, 47, 48, 49, 63, 64, 65, 100, 129}) {
    for (const uint32_t m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 19, 23, 25, 31, 33}) {
      const uint32_t seg_k[] = {1, 3, 4, 9, 16, 27};
      check_same({.m = m, .n = n, .segs = 1 + seed % 3, .seg_k = seg_k[seed % 6], .residual = seed % 2 == 0}, seed);
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
  for (const uint32_t m : {18u, 35u, 36u, 37u, 73u, 150u}) {
    check_same({.m = m, .n = 25, .segs = 1, .seg_k = 16}, m);
    check_same({.m = m, .n = 72, .segs = 3, .seg_k = 260, .residual = m % 2 == 0}, m);
    check_same({.m = m, .n = 40, .segs = 2, .seg_k = 24, .residual = m % 2 == 1, .a_stride = 8}, m);
  }
}

TEST_CASE("every GEMM kernel takes rows that overlap") {
  uint32_t seed = 1;
  for (const auto& [stride, seg_k] :
       {std::pair{1u, 3u}, {2u, 5u}, {16u, 48u}, {3u, 9u}, {32u, 96u}, {63u, 64u}, {256u, 768u}, {200u, 600u}}) {
    for (const uint32_t m : {1, 2, 5, 6, 7, 13, 28}) {
      check_same(
          {.m = m, .n = 16 + seed % 20, .segs = 1 + seed % 5, .seg_k = seg_k, .residual = seed % 2 == 0, .a_stride = stride},
          seed);
      check_float({.m = m, .n = 16 + seed % 20, .segs = 1 + seed % 5, .seg_k = seg_k, .a_stride = stride}, seed);
      ++seed;
    }
  }
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
    check_same({.m = 5, .n = 17, .segs = 1, .seg_k = 5, .zero_point = z, .lo = z, .hi = z + (127 - z) / 2},
               static_cast<uint32_t>(z + 200));
  }
}

TEST_CASE("8-bit GEMM kernels clamp before they convert, so that huge products do not wrap") {
  for (const float scale : {1e3f, 1e6f, 1e12f, 1e-12f}) {
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

namespace {

struct GemmF32Problem {
  GemmCase c;
  std::vector<float> a, residual, w_plain;
  std::vector<int32_t> offsets;
  Guarded<float> w, bias;
  GemmF32Args args{};

  GemmF32Problem(const GemmCase& gemm_case, uint32_t seed)
      : c(gemm_case), w(gemm_f32_packed_elems(c.n, c.segs, c.seg_k) + 16), bias(round_up(c.n, 16) + 16) {
    std::mt19937 rng(seed);
    const Spacing spacing(c, seed);
    a.resize(spacing.elems + 16);
    residual.resize(static_cast<size_t>(c.m) * (c.n + 2) + 16);
    w_plain.resize(static_cast<size_t>(c.n) * c.segs * c.seg_k);
    fill_floats(rng, a.data(), a.size(), -1, 1);
    fill_floats(rng, residual.data(), residual.size(), -1, 1);
    fill_floats(rng, w_plain.data(), w_plain.size(), -1, 1);
    fill_floats(rng, bias.data(), bias.size(), -1, 1);
    for (uint32_t i = 0; i < c.segs; ++i) offsets.push_back(static_cast<int32_t>(i * spacing.segment));
    gemm_f32_pack(w_plain.data(), c.n, c.segs, c.seg_k, w.data());
    const float bound = c.lo == -128 ? INFINITY : 0.5f;
    args = {.a = a.data(),
            .a_stride = spacing.row,
            .seg_offset = offsets.data(),
            .segs = c.segs,
            .seg_k = c.seg_k,
            .w = w.data(),
            .bias = seed % 4 == 0 ? nullptr : bias.data(),
            .y = nullptr,
            .y_stride = c.n + 3,
            .residual = c.residual ? residual.data() : nullptr,
            .residual_stride = c.n + 2,
            .lo = -bound,
            .hi = bound,
            .m = c.m,
            .n = c.n};
  }

  Eigen::MatrixXd expected() const {
    Eigen::MatrixXd x(c.m, c.segs * c.seg_k), weights(c.segs * c.seg_k, c.n), y(c.m, c.n);
    for (uint32_t r = 0; r < c.m; ++r) {
      for (uint32_t k = 0; k < c.segs * c.seg_k; ++k)
        x(r, k) = a[static_cast<size_t>(r) * args.a_stride + static_cast<size_t>(offsets[k / c.seg_k]) + k % c.seg_k];
    }
    for (uint32_t ch = 0; ch < c.n; ++ch) {
      for (uint32_t k = 0; k < c.segs * c.seg_k; ++k) weights(k, ch) = w_plain[static_cast<size_t>(ch) * c.segs * c.seg_k + k];
    }
    y = x * weights;
    for (uint32_t r = 0; r < c.m; ++r) {
      for (uint32_t ch = 0; ch < c.n; ++ch) {
        if (args.bias != nullptr) y(r, ch) += bias.data()[ch];
        if (c.residual) y(r, ch) += residual[static_cast<size_t>(r) * args.residual_stride + ch];
        y(r, ch) = std::fmin(std::fmax(y(r, ch), args.lo), args.hi);
      }
    }
    return y;
  }
};

void check_float(const GemmCase& c, uint32_t seed) {
  for_each_kernel<GemmF32Fn>(Family::kGemmF32, [&](const Kernel& k, GemmF32Fn fn, GemmF32Fn) {
    GemmF32Problem p(c, seed);
    Guarded<float> y(static_cast<size_t>(c.m - 1) * p.args.y_stride + c.n, 4);
    p.args.y = y.data();
    fn(p.args);
    INFO(k.name << " m " << c.m << " n " << c.n << " segs " << c.segs << " seg_k " << c.seg_k << " seed " << seed);
    REQUIRE(y.intact(c.m, c.n, p.args.y_stride));
    const Eigen::MatrixXd want = p.expected();
    double error = 0;
    for (uint32_t r = 0; r < c.m; ++r) {
      for (uint32_t ch = 0; ch < c.n; ++ch)
        error = std::fmax(error, std::fabs(want(r, ch) - static_cast<double>(y.data()[r * p.args.y_stride + ch])));
    }
    REQUIRE(error <= 2e-7 * (8 + c.segs * c.seg_k));
  });
}

}  // namespace

TEST_CASE("every float GEMM kernel is within tolerance of Eigen in double") {
  uint32_t seed = 1;
  for (const uint32_t n : {1, 3, 10, 16, 17, 20, 33, 48, 50, 64, 65, 129}) {
    for (const uint32_t m : {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 16, 17, 19, 25, 31}) {
      const uint32_t seg_k[] = {1, 3, 4, 9, 16, 27};
      check_float({.m = m,
                   .n = n,
                   .segs = 1 + seed % 3,
                   .seg_k = seg_k[seed % 6],
                   .residual = seed % 2 == 0,
                   .lo = seed % 3 == 0 ? -1 : -128},
                  seed);
      ++seed;
    }
  }
}

TEST_CASE("a float GEMM result does not depend on m, n or the row's place") {
  for_each_kernel<GemmF32Fn>(Family::kGemmF32, [&](const Kernel& k, GemmF32Fn fn, GemmF32Fn) {
    const GemmCase c{.m = 29, .n = 84, .segs = 3, .seg_k = 41, .residual = true};
    GemmF32Problem p(c, 5);
    std::vector<float> whole(c.m * p.args.y_stride), alone(whole.size());
    p.args.y = whole.data();
    fn(p.args);
    GemmF32Args one = p.args;
    one.m = 1;
    for (uint32_t r = 0; r < c.m; ++r) {
      for (uint32_t ch = 0; ch < c.n; ch += 16) {
        one.n = std::min<uint32_t>(16, c.n - ch);
        one.a = p.args.a + r * p.args.a_stride;
        one.w = p.args.w + ch * c.segs * c.seg_k;
        one.bias = p.args.bias + ch;
        one.residual = p.args.residual + r * p.args.residual_stride + ch;
        one.y = alone.data() + r * p.args.y_stride + ch;
        fn(one);
      }
    }
    CHECK_MESSAGE(whole == alone, k.name);
  });
}

TEST_CASE("a float GEMM lets a NaN through its clamp") {
  for_each_kernel<GemmF32Fn>(Family::kGemmF32, [&](const Kernel& k, GemmF32Fn fn, GemmF32Fn) {
    GemmF32Problem p({.m = 7, .n = 20, .segs = 1, .seg_k = 4, .lo = 0}, 3);
    p.a[0] = NAN;
    std::vector<float> y(7 * p.args.y_stride);
    p.args.y = y.data();
    fn(p.args);
    for (uint32_t ch = 0; ch < 20; ++ch) CHECK_MESSAGE(std::isnan(y[ch]), k.name);
    CHECK_MESSAGE(!std::isnan(y[p.args.y_stride]), k.name);
  });
}

TEST_CASE("packing float GEMM weights is undone by unpacking") {
  std::mt19937 rng(3);
  std::vector<float> w(33 * 9 * 7), back(w.size()), packed(gemm_f32_packed_elems(33, 9, 7));
  fill_floats(rng, w.data(), w.size(), -1, 1);
  gemm_f32_pack(w.data(), 33, 9, 7, packed.data());
  gemm_f32_unpack(packed.data(), 33, 9, 7, back.data());
  CHECK(w == back);
}

}  // namespace lathe::kernels
