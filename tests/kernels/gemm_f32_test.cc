#include <Eigen/Core>

#include "tests/kernels/gemm_problem.h"
#include "tests/machine.h"

namespace lathe::kernels {
namespace {

void pack(const float* w, const GemmCase& c, float* packed) { gemm_f32_pack(w, c.n, c.packed_segs(), c.seg_k, packed); }
void pack(const uint16_t* w, const GemmCase& c, uint16_t* packed) { gemm_f16_pack(w, c.n, c.packed_segs(), c.seg_k, packed); }

template <class T>
struct GemmRealProblem {
  GemmCase c;
  GemmLayout layout;
  std::vector<T> a, residual, w_plain;
  Guarded<T> w;
  Guarded<float> bias;
  GemmRealArgs<T> args{};

  GemmRealProblem(const GemmCase& gemm_case, uint32_t seed)
      : c(gemm_case),
        layout(c, seed, gemm_f32_panel_elems(1, c.seg_k)),
        w(gemm_f32_packed_elems(c.n, c.packed_segs(), c.seg_k) + 32),
        bias(round_up(c.n, 16) + 16) {
    std::mt19937 rng(seed);
    a.resize(layout.a_elems + 32);
    residual.resize(layout.residual_elems() + 32);
    w_plain.resize(static_cast<size_t>(c.n) * c.packed_segs() * c.seg_k);
    fill_reals(rng, a.data(), a.size(), -1, 1);
    fill_reals(rng, residual.data(), residual.size(), -1, 1);
    fill_reals(rng, w_plain.data(), w_plain.size(), -1, 1);
    fill_floats(rng, bias.data(), bias.size(), -1, 1);
    pack(w_plain.data(), c, w.data());
    const float bound = c.lo == -128 ? INFINITY : 0.5f;
    args = {.geo = layout.geo,
            .a = a.data() + layout.a_first,
            .w = w.data() + layout.w_first,
            .bias = seed % 4 == 0 ? nullptr : bias.data(),
            .y = nullptr,
            .residual = c.residual ? residual.data() : nullptr,
            .lo = -bound,
            .hi = bound};
  }

  Eigen::MatrixXd expected() const {
    Eigen::MatrixXd x(c.pixels(), c.k_all()), weights(c.k_all(), c.n), y(c.pixels(), c.n);
    for (uint32_t p = 0; p < c.pixels(); ++p) {
      Eigen::Index column = 0;
      for_each_k(c, layout, [&](size_t, size_t at) { x(p, column++) = real(a[layout.a_at(p) + at]); });
    }
    for (uint32_t ch = 0; ch < c.n; ++ch) {
      Eigen::Index row = 0;
      for_each_k(c, layout, [&](size_t k, size_t) {
        weights(row++, ch) = real(w_plain[static_cast<size_t>(ch) * c.packed_segs() * c.seg_k + k]);
      });
    }
    y = x * weights;
    for (uint32_t p = 0; p < c.pixels(); ++p) {
      for (uint32_t ch = 0; ch < c.n; ++ch) {
        if (args.bias != nullptr) y(p, ch) += bias.data()[ch];
        if (c.residual) y(p, ch) += real(residual[layout.residual_at(p) + ch]);
        y(p, ch) = std::fmin(std::fmax(y(p, ch), args.lo), args.hi);
      }
    }
    return y;
  }
};

template <class T>
using GemmRealFn = void (*)(const GemmRealArgs<T>&);

template <class T>
void check_real(Family family, const GemmCase& c, uint32_t seed) {
  for_each_kernel<GemmRealFn<T>>(family, [&](const Kernel& k, GemmRealFn<T> fn, GemmRealFn<T>) {
    GemmRealProblem<T> p(c, seed);
    INFO(k.name << " " << c << " seed " << seed);
    const auto y = run_guarded<T>(p.layout, p.args, fn, 4);
    const Eigen::MatrixXd want = p.expected();
    for (uint32_t r = 0; r < c.pixels(); ++r) {
      for (uint32_t ch = 0; ch < c.n; ++ch) {
        const double error = std::fabs(want(r, ch) - static_cast<double>(real(y[p.layout.y_at(r) + ch])));
        REQUIRE(error <= 2e-7 * (8 + c.k_all()) + storage_error<T>(want(r, ch)));
      }
    }
  });
}

void check_float(const GemmCase& c, uint32_t seed) {
  check_real<float>(Family::kGemmF32, c, seed);
  check_real<uint16_t>(Family::kGemmF16, c, seed);
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

TEST_CASE("every float GEMM kernel takes pixels that overlap, rows of pixels and of segments, some left out") {
  uint32_t seed = 1;
  for (const auto& [stride, seg_k] : {std::pair{1u, 3u}, {2u, 5u}, {16u, 48u}, {3u, 9u}, {63u, 64u}, {200u, 600u}}) {
    for (const uint32_t m : {1, 2, 5, 6, 7, 13, 28}) {
      check_float({.m = m, .n = 16 + seed % 20, .segs = 1 + seed % 5, .seg_k = seg_k, .a_stride = stride}, seed);
      ++seed;
    }
  }
  for (seed = 0; seed < 120; ++seed) {
    const uint32_t rows[] = {1, 2, 3, 5, 7, 40}, cols[] = {1, 2, 5, 7, 6, 12, 13}, n[] = {3, 8, 16, 20, 24, 33, 56, 64, 100};
    check_float({.m = cols[seed % 7],
                 .n = n[seed % 9],
                 .segs = seed % 4,
                 .seg_k = 1 + seed % 9,
                 .residual = seed % 2 == 0,
                 .a_stride = seed % 5 == 0 ? 2 : 0u,
                 .rows = rows[seed % 6],
                 .seg_rows = seed % 4,
                 .skip_rows = seed % 2,
                 .skip_cols = seed / 2 % 3,
                 .backwards = seed % 3 == 1},
                seed);
  }
}

namespace {

template <class T>
void check_place(Family family, const GemmCase& c) {
  for_each_kernel<GemmRealFn<T>>(family, [&](const Kernel& k, GemmRealFn<T> fn, GemmRealFn<T>) {
    GemmRealProblem<T> p(c, 5);
    std::vector<T> whole(p.layout.y_elems()), alone(whole.size());
    p.args.y = whole.data();
    fn(p.args);
    GemmRealArgs<T> one = p.args;
    one.geo.rows = one.geo.cols = 1;
    for (uint32_t r = 0; r < c.pixels(); ++r) {
      for (uint32_t ch = 0; ch < c.n; ch += 16) {
        one.geo.n = std::min<uint32_t>(16, c.n - ch);
        one.a = p.args.a + p.layout.a_at(r);
        one.w = p.args.w + ch / 16 * p.args.geo.w_panel_step;
        one.bias = p.args.bias + ch;
        one.residual = p.args.residual + p.layout.residual_at(r) + ch;
        one.y = alone.data() + p.layout.y_at(r) + ch;
        fn(one);
      }
    }
    CHECK_MESSAGE(whole == alone, k.name);
  });
}

}  // namespace

TEST_CASE("a float GEMM result does not depend on m, n or the pixel's place") {
  for (const uint32_t seg_k : {41u, 700u}) {
    const GemmCase c{.m = 29, .n = 84, .segs = 3, .seg_k = seg_k, .residual = true, .rows = 5};
    check_place<float>(Family::kGemmF32, c);
    check_place<uint16_t>(Family::kGemmF16, c);
  }
}

TEST_CASE("every float GEMM kernel is within tolerance over more k than it keeps near") {
  uint32_t seed = 1;
  for (const uint32_t seg_k : {255u, 256u, 257u, 512u, 513u, 1100u, 2304u}) {
    if (test::kSmallMachine && seg_k > 600) break;
    check_float({.m = 29, .n = 40 + 24 * (seed % 2), .segs = 1, .seg_k = seg_k, .residual = seed % 2 == 0}, seed);
    check_float({.m = 7, .n = 70, .segs = 2, .seg_k = seg_k, .rows = 15, .seg_rows = 2, .skip_rows = seed % 2}, seed);
    ++seed;
  }
  check_float({.m = 3, .n = 20, .segs = 11, .seg_k = 2, .rows = 4, .seg_rows = 13}, 5);
}

namespace {

// A convolution or, with negative steps of its taps, a phase of a transposed one, over whole rows of an image.
struct ImageCase {
  uint32_t rows, cols, ic, n, kernel, stride = 1, dilation = 1;
  bool backwards = false;
};

GemmGeometry image_geometry(const ImageCase& c, uint32_t* row) {
  *row = ((c.cols - 1) * c.stride + (c.kernel - 1) * c.dilation + 1) * c.ic;
  GemmGeometry g{};
  g.rows = c.rows, g.cols = c.cols, g.n = c.n;
  g.a_row_step = c.stride * *row, g.a_col_step = c.stride * c.ic;
  g.y_col_step = c.n, g.y_row_step = c.cols * c.n;
  g.seg_rows = c.kernel;
  const bool one = c.dilation == 1 && !c.backwards;
  g.seg_cols = one ? 1 : c.kernel, g.seg_k = one ? c.kernel * c.ic : c.ic;
  const int32_t sign = c.backwards ? -1 : 1;
  g.a_seg_row_step = sign * static_cast<int32_t>(c.dilation * *row);
  g.a_seg_col_step = sign * static_cast<int32_t>(c.dilation * c.ic);
  g.w_seg_col_step = c.ic * kGemmPanel, g.w_seg_row_step = c.kernel * c.ic * kGemmPanel;
  g.w_panel_step = gemm_f32_panel_elems(c.kernel, c.kernel * c.ic);
  return g;
}

void check_image(const ImageCase& c) {
  uint32_t row = 0;
  const GemmGeometry geo = image_geometry(c, &row);
  const uint32_t reach = (c.kernel - 1) * c.dilation, back = c.backwards ? reach * (row + c.ic) : 0;
  std::mt19937 rng(c.rows + c.ic);
  std::vector<uint16_t> a(((c.rows - 1) * c.stride + reach + 2) * row + 64);
  std::vector<uint16_t> want(c.rows * c.cols * c.n + 1, 7), got = want;
  fill_reals(rng, a.data(), a.size(), -1, 1);
  Guarded<uint16_t> weights(gemm_f32_packed_elems(c.n, c.kernel, c.kernel * c.ic) + 32);
  fill_reals(rng, weights.data(), weights.size(), -1, 1);
  GemmF16Args args{.geo = geo, .a = a.data() + back, .w = weights.data(), .bias = nullptr, .y = nullptr, .residual = nullptr,
                   .lo = -INFINITY, .hi = INFINITY};
  const double sums = 2e-7 * (8 + c.kernel * c.kernel * c.ic);
  for_each_kernel<GemmF16Fn>(Family::kGemmF16, [&](const Kernel& k, GemmF16Fn fn, GemmF16Fn reference) {
    args.y = want.data();
    reference(args);
    args.y = got.data();
    INFO(k.name << " pixels " << c.rows << "x" << c.cols << " ic " << c.ic << " kernel " << c.kernel << " stride " << c.stride);
    std::fill(got.begin(), got.end() - 1, uint16_t{0});
    fn(args);
    for (size_t i = 0; i + 1 < want.size(); ++i) {
      const double v = static_cast<double>(real(want[i]));
      REQUIRE(std::fabs(v - static_cast<double>(real(got[i]))) <= sums + 2 * storage_error<uint16_t>(v));
    }
    CHECK(got.back() == 7);
  });
}

}  // namespace

TEST_CASE("half-precision pixels are widened part by part, whatever rows, pixels and taps share") {
  check_image({.rows = 40, .cols = 30, .ic = 16, .n = 20, .kernel = 3});                                  // parts of rows
  check_image({.rows = 9, .cols = 50, .ic = 8, .n = 33, .kernel = 3, .stride = 2});                       // rows two runs apart
  check_image({.rows = 5, .cols = 20, .ic = 16, .n = 17, .kernel = 3, .dilation = 2});                    // rows that share none
  check_image({.rows = 3, .cols = 300, .ic = 40, .n = 16, .kernel = 3});                                  // parts of a row
  check_image({.rows = 12, .cols = 40, .ic = 24, .n = 40, .kernel = 1, .stride = 2});                     // pixel by pixel
  check_image({.rows = 30, .cols = 31, .ic = 12, .n = 20, .kernel = 2, .backwards = true});               // taps before the first
  check_image({.rows = 2, .cols = 5, .ic = test::kSmallMachine ? 600u : 5000u, .n = 16, .kernel = 2});    // not one pixel fits
}

TEST_CASE("a float GEMM lets a NaN through its clamp") {
  for_each_kernel<GemmF32Fn>(Family::kGemmF32, [&](const Kernel& k, GemmF32Fn fn, GemmF32Fn) {
    GemmRealProblem<float> p({.m = 7, .n = 20, .segs = 1, .seg_k = 4, .lo = 0}, 3);
    p.a[0] = NAN;
    std::vector<float> y(p.layout.y_elems());
    p.args.y = y.data();
    fn(p.args);
    for (uint32_t ch = 0; ch < 20; ++ch) CHECK_MESSAGE(std::isnan(y[ch]), k.name);
    CHECK_MESSAGE(!std::isnan(y[p.args.geo.y_col_step]), k.name);
  });
}

TEST_CASE("packing float GEMM weights is undone by unpacking") {
  std::mt19937 rng(3);
  std::vector<float> w(33 * 9 * 7), back(w.size()), packed(gemm_f32_packed_elems(33, 9, 7));
  fill_floats(rng, w.data(), w.size(), -1, 1);
  gemm_f32_pack(w.data(), 33, 9, 7, packed.data());
  gemm_f32_unpack(packed.data(), 33, 9, 7, back.data());
  CHECK(w == back);
  std::vector<uint16_t> h(w.size()), h_back(w.size()), h_packed(packed.size());
  fill_reals(rng, h.data(), h.size(), -1, 1);
  gemm_f16_pack(h.data(), 33, 9, 7, h_packed.data());
  gemm_f16_unpack(h_packed.data(), 33, 9, 7, h_back.data());
  CHECK(h == h_back);
}

}  // namespace lathe::kernels
