#include "kernels/dwconv/dwconv.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "tests/kernels/under_test.h"

namespace lathe::kernels {
namespace {

struct DwCase {
  uint32_t rows, cols, n, kh = 3, kw = 3, stride = 1, dilation = 1, multiplier = 1;
  bool residual = false, pad = true;
  int32_t zero_point = 3, lo = -128, hi = 127;
  float scale = 0;  // 0: chosen so that results spread over the range
};

std::ostream& operator<<(std::ostream& o, const DwCase& c) {
  return o << c.rows << "x" << c.cols << "x" << c.n << " k " << c.kh << "x" << c.kw << " stride " << c.stride << " dilation "
           << c.dilation << " multiplier " << c.multiplier << " residual " << c.residual << " pad " << c.pad << " z "
           << c.zero_point;
}

// Pads every side: by different amounts, so that a mix-up shows.
struct Extent {
  int top, left, bottom, right;
  uint32_t ic, rows, cols, col_step, row_step;
  explicit Extent(const DwCase& c)
      : top(c.pad ? static_cast<int>(c.kh / 2) : 0),
        left(c.pad ? static_cast<int>((c.kw + 1) / 2) : 0),
        bottom(c.pad ? 1 : 0),
        right(c.pad ? static_cast<int>(c.kw / 2) : 0),
        ic(c.n / c.multiplier) {
    const int in_rows = static_cast<int>((c.rows - 1) * c.stride + (c.kh - 1) * c.dilation + 1) - top - bottom,
              in_cols = static_cast<int>((c.cols - 1) * c.stride + (c.kw - 1) * c.dilation + 1) - left - right;
    rows = static_cast<uint32_t>(std::max(in_rows, 1));
    cols = static_cast<uint32_t>(std::max(in_cols, 1));
    col_step = ic + 1;
    row_step = cols * col_step + 3;
  }
  size_t elems() const { return static_cast<size_t>(rows) * row_step; }
};

template <class Args>
void set_steps(const DwCase& c, Args* d) {
  const Extent e(c);
  d->in.rows = e.rows;
  d->in.cols = e.cols;
  d->in.row_step = e.row_step;
  d->in.col_step = e.col_step;
  d->in.row0 = -e.top;
  d->in.col0 = -e.left;
  d->in.stride_h = d->in.stride_w = c.stride;
  d->in.dilation_h = d->in.dilation_w = c.dilation;
  d->in.kh = c.kh;
  d->in.kw = c.kw;
  d->y_col_step = c.n + 2;
  d->y_row_step = c.cols * (c.n + 2) + 5;
  d->residual_col_step = c.n + 1;
  d->residual_row_step = c.cols * (c.n + 1);
  d->rows = c.rows;
  d->cols = c.cols;
  d->n = c.n;
  d->multiplier = c.multiplier;
}

// Input element under tap (p, q) of output (i, j, ch), or -1 for padding.
int64_t input_at(const DwCase& c, uint32_t i, uint32_t j, uint32_t ch, uint32_t p, uint32_t q) {
  const Extent e(c);
  const int64_t r = static_cast<int64_t>(i * c.stride + p * c.dilation) - e.top,
                s = static_cast<int64_t>(j * c.stride + q * c.dilation) - e.left;
  if (r < 0 || r >= e.rows || s < 0 || s >= e.cols) return -1;
  return r * e.row_step + s * e.col_step + ch / c.multiplier;
}

struct DwS8Problem {
  static constexpr int kPad = 77;
  DwCase c;
  Storage storage;
  std::vector<uint8_t> a, pad, residual;
  std::vector<int8_t> w_plain;
  Guarded<int8_t> w;
  Guarded<int32_t> bias;
  Guarded<float> scale;
  DwConvS8Args args{};

  DwS8Problem(const DwCase& dw_case, Storage s, uint32_t seed, bool extreme = false)
      : c(dw_case),
        storage(s),
        a(1 + Extent(c).elems() + 63),
        pad(Extent(c).row_step + 63, kPad),
        residual(1 + static_cast<size_t>(c.rows) * c.cols * (c.n + 1) + 63),
        w_plain(static_cast<size_t>(c.n) * c.kh * c.kw),
        w(dwconv_s8_packed_bytes(c.n, c.kh, c.kw) + 64),
        bias(round_up(c.n, 16) + 16),
        scale(round_up(c.n, 16) + 16) {
    std::mt19937 rng(seed);
    fill_ints(rng, a.data(), a.size(), 0, 255);
    fill_ints(rng, residual.data(), residual.size(), 0, 255);
    fill_ints(rng, w_plain.data(), w_plain.size(), -128, 127);
    if (extreme) {
      for (auto& v : a) v = storage == Storage::kU8 ? (v & 1 ? 255 : 0) : (v & 1 ? 127 : 128);
      for (auto& v : w_plain) v = v & 1 ? 127 : -128;
    }
    dwconv_s8_pack(w_plain.data(), c.n, c.kh, c.kw, w.data());
    std::memset(bias.data(), 0, bias.size() * sizeof(int32_t));
    std::memset(scale.data(), 0, scale.size() * sizeof(float));
    const float spread = c.scale != 0 ? c.scale : 60.0f / (127.0f * 74.0f * std::sqrt(static_cast<float>(c.kh * c.kw)));
    for (uint32_t i = 0; i < c.n; ++i) {
      bias.data()[i] = static_cast<int32_t>(rng() % 20000) - 10000;
      scale.data()[i] = spread * (0.5f + static_cast<float>(rng() % 1000) / 1000.0f);
    }
    const int32_t shift = storage_shift(storage);
    set_steps(c, &args);
    args.in.a = a.data() + 1;
    args.in.pad_row = pad.data();
    args.w = w.data();
    args.bias = bias.data();
    args.scale = scale.data();
    args.residual = c.residual ? residual.data() + 1 : nullptr;
    args.residual_scale = 0.41f;
    args.residual_zero = 5 + shift;
    args.zero_point = c.zero_point + shift;
    args.lo = c.lo + shift;
    args.hi = c.hi + shift;
  }

  size_t y_elems() const {
    return static_cast<size_t>(c.rows - 1) * args.y_row_step + static_cast<size_t>(c.cols - 1) * args.y_col_step + c.n;
  }
  int value(const std::vector<uint8_t>& v, size_t i) const {
    return storage == Storage::kU8 ? v[i + 1] : static_cast<int8_t>(v[i + 1]);
  }

  // ARITHMETIC.md's formula, independent of the library's code.
  int expected(uint32_t i, uint32_t j, uint32_t ch) const {
    int64_t acc = bias.data()[ch];
    for (uint32_t p = 0; p < c.kh; ++p) {
      for (uint32_t q = 0; q < c.kw; ++q) {
        const int64_t at = input_at(c, i, j, ch, p, q);
        acc += (at < 0 ? kPad : value(a, static_cast<size_t>(at))) * w_plain[(static_cast<size_t>(ch) * c.kh + p) * c.kw + q];
      }
    }
    volatile float v = static_cast<float>(acc) * scale.data()[ch];
    if (c.residual) {
      const size_t at = static_cast<size_t>(i) * args.residual_row_step + static_cast<size_t>(j) * args.residual_col_step + ch;
      volatile float r = static_cast<float>(value(residual, at) - args.residual_zero) * args.residual_scale;
      v = v + r;
    }
    return static_cast<int>(std::fmin(std::fmax(std::nearbyint(static_cast<double>(v)) + args.zero_point, args.lo), args.hi));
  }
};

// The output, or nothing if a byte between or around its pixels was touched.
template <class Problem, class T, class Fn>
std::vector<T> run(Problem& p, Fn fn) {
  Guarded<T> y(p.y_elems(), sizeof(T) == 1 ? 7 : 4);
  p.args.y = y.data();
  fn(p.args);
  // One pixel is one run of n elements; rows are not adjacent either.
  std::vector<T> copy(y.data(), y.data() + y.size());
  const std::vector<uint8_t> pattern(p.c.n * sizeof(T), 0xa5);
  for (uint32_t i = 0; i < p.c.rows; ++i) {
    for (uint32_t j = 0; j < p.c.cols; ++j)
      std::memcpy(y.data() + i * p.args.y_row_step + j * p.args.y_col_step, pattern.data(), pattern.size());
  }
  return y.intact(0, 0, 0) ? copy : std::vector<T>{};
}

void check_same(const DwCase& c, uint32_t seed, bool extreme = false) {
  for_each_kernel<DwConvS8Fn>(Family::kDwConvS8, [&](const Kernel& k, DwConvS8Fn fn, DwConvS8Fn reference) {
    DwS8Problem p(c, k.storage, seed, extreme);
    const auto got = run<DwS8Problem, uint8_t>(p, fn), want = run<DwS8Problem, uint8_t>(p, reference);
    INFO(k.name << " " << c << " seed " << seed);
    REQUIRE(!want.empty());
    REQUIRE(got == want);
  });
}

inline void pack(const float* w, const DwCase& c, float* packed) { dwconv_f32_pack(w, c.n, c.kh, c.kw, packed); }
inline void pack(const uint16_t* w, const DwCase& c, uint16_t* packed) { dwconv_f16_pack(w, c.n, c.kh, c.kw, packed); }

template <class T>
struct DwRealProblem {
  DwCase c;
  std::vector<T> a, pad, residual, w_plain;
  Guarded<T> w;
  Guarded<float> bias;
  DwConvRealArgs<T> args{};

  DwRealProblem(const DwCase& dw_case, uint32_t seed)
      : c(dw_case),
        a(Extent(c).elems() + 16),
        pad(Extent(c).row_step + 16),
        residual(static_cast<size_t>(c.rows) * c.cols * (c.n + 1) + 16),
        w_plain(static_cast<size_t>(c.n) * c.kh * c.kw),
        w(dwconv_f32_packed_elems(c.n, c.kh, c.kw) + 16),
        bias(round_up(c.n, 16) + 16) {
    std::mt19937 rng(seed);
    fill_reals(rng, a.data(), a.size(), -1, 1);
    fill_reals(rng, residual.data(), residual.size(), -1, 1);
    fill_reals(rng, w_plain.data(), w_plain.size(), -1, 1);
    fill_floats(rng, bias.data(), bias.size(), -1, 1);
    pack(w_plain.data(), c, w.data());
    set_steps(c, &args);
    args.in.a = a.data();
    args.in.pad_row = pad.data();
    args.w = w.data();
    args.bias = seed % 4 == 0 ? nullptr : bias.data();
    args.residual = c.residual ? residual.data() : nullptr;
    args.lo = seed % 3 == 0 ? -0.5f : -INFINITY;
    args.hi = seed % 3 == 0 ? 0.75f : INFINITY;
  }
  size_t y_elems() const {
    return static_cast<size_t>(c.rows - 1) * args.y_row_step + static_cast<size_t>(c.cols - 1) * args.y_col_step + c.n;
  }
  double expected(uint32_t i, uint32_t j, uint32_t ch) const {
    double v = args.bias == nullptr ? 0.0 : static_cast<double>(bias.data()[ch]);
    for (uint32_t p = 0; p < c.kh; ++p) {
      for (uint32_t q = 0; q < c.kw; ++q) {
        const int64_t at = input_at(c, i, j, ch, p, q);
        if (at >= 0)
          v += static_cast<double>(real(a[static_cast<size_t>(at)])) *
               static_cast<double>(real(w_plain[(static_cast<size_t>(ch) * c.kh + p) * c.kw + q]));
      }
    }
    if (c.residual)
      v += static_cast<double>(
          real(residual[static_cast<size_t>(i) * args.residual_row_step + static_cast<size_t>(j) * args.residual_col_step + ch]));
    return std::fmin(std::fmax(v, static_cast<double>(args.lo)), static_cast<double>(args.hi));
  }
};

template <class T>
void check_real(Family family, const DwCase& c, uint32_t seed) {
  using Fn = void (*)(const DwConvRealArgs<T>&);
  for_each_kernel<Fn>(family, [&](const Kernel& k, Fn fn, Fn) {
    DwRealProblem<T> p(c, seed);
    const auto y = run<DwRealProblem<T>, T>(p, fn);
    INFO(k.name << " " << c << " seed " << seed);
    REQUIRE(!y.empty());
    for (uint32_t i = 0; i < c.rows; ++i) {
      for (uint32_t j = 0; j < c.cols; ++j) {
        for (uint32_t ch = 0; ch < c.n; ++ch) {
          const double want = p.expected(i, j, ch);
          const double got = static_cast<double>(real(y[i * p.args.y_row_step + j * p.args.y_col_step + ch]));
          REQUIRE(std::fabs(got - want) <= 3e-7 * (4 + c.kh * c.kw) + storage_error<T>(want));
        }
      }
    }
  });
}

void check_float(const DwCase& c, uint32_t seed) {
  check_real<float>(Family::kDwConvF32, c, seed);
  check_real<uint16_t>(Family::kDwConvF16, c, seed);
}

}  // namespace

TEST_CASE("the 8-bit depthwise reference computes the formula of ARITHMETIC.md") {
  for (const Storage storage : {Storage::kS8, Storage::kU8}) {
    const auto fn = reinterpret_cast<DwConvS8Fn>(select(Family::kDwConvS8, storage, kIsaScalar)->fn);
    for (uint32_t seed = 0; seed < 30; ++seed) {
      const uint32_t multiplier = 1 + seed % 3;
      const DwCase c{.rows = 1 + seed % 3,
                     .cols = 1 + seed % 4,
                     .n = multiplier * (1 + seed % 11),
                     .kh = 1 + seed % 5,
                     .kw = 1 + seed % 4,
                     .stride = 1 + seed % 2,
                     .dilation = 1 + seed % 3,
                     .multiplier = multiplier,
                     .residual = seed % 2 == 1,
                     .lo = seed % 3 == 0 ? 3 : -128};
      DwS8Problem p(c, storage, seed, seed % 5 == 4);
      const auto y = run<DwS8Problem, uint8_t>(p, fn);
      REQUIRE(!y.empty());
      for (uint32_t i = 0; i < c.rows; ++i) {
        for (uint32_t j = 0; j < c.cols; ++j) {
          for (uint32_t ch = 0; ch < c.n; ++ch) {
            const uint8_t raw = y[i * p.args.y_row_step + j * p.args.y_col_step + ch];
            REQUIRE((storage == Storage::kU8 ? raw : static_cast<int8_t>(raw)) == p.expected(i, j, ch));
          }
        }
      }
    }
  }
}

TEST_CASE("every 8-bit depthwise kernel equals the reference at tile edges") {
  uint32_t seed = 1;
  for (const uint32_t n : {1, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 48, 49, 63, 64, 65, 100, 144}) {
    for (const uint32_t rows : {1, 2, 3, 4, 5, 7}) {
      for (const uint32_t cols : {1, 2, 3, 5, 8}) {
        check_same({.rows = rows, .cols = cols, .n = n, .stride = 1 + seed % 3, .residual = seed % 2 == 0, .pad = seed % 5 != 0},
                   seed);
        ++seed;
      }
    }
  }
}

TEST_CASE("every 8-bit depthwise kernel equals the reference for every kernel size, stride and dilation") {
  uint32_t seed = 1;
  for (const uint32_t kh : {1, 2, 3, 4, 5, 7, 9}) {
    for (const uint32_t kw : {1, 2, 3, 4, 5, 7}) {
      for (const uint32_t stride : {1, 2}) {
        for (const uint32_t dilation : {1, 2}) {
          check_same({.rows = 3,
                      .cols = 4,
                      .n = 20 + seed % 60,
                      .kh = kh,
                      .kw = kw,
                      .stride = stride,
                      .dilation = dilation,
                      .residual = seed % 3 == 0},
                     seed);
          ++seed;
        }
      }
    }
  }
  check_same({.rows = 2, .cols = 3, .n = 40, .kh = 13, .kw = 11}, 1);  // more weights than a kernel keeps arranged
  check_same({.rows = 2, .cols = 3, .n = 70, .kh = 3, .kw = 37}, 2);
}

TEST_CASE("every 8-bit depthwise kernel equals the reference on rows longer than it keeps and on rows of padding") {
  uint32_t seed = 1;
  for (const uint32_t n : {5, 16, 24, 64, 80}) {
    for (const uint32_t cols : {31, 32, 33, 35, 64, 67, 100}) {
      for (const uint32_t stride : {1, 2}) {
        check_same({.rows = 9, .cols = cols, .n = n, .stride = stride, .dilation = 1 + seed % 2, .residual = seed % 5 == 0},
                   seed);
        ++seed;
      }
    }
  }
  check_same({.rows = 11, .cols = 6, .n = 48, .kh = 9, .kw = 3}, seed);  // most rows of a column are padding
  check_same({.rows = 11, .cols = 6, .n = 16, .kh = 1, .kw = 3}, seed);
}

TEST_CASE("every 8-bit depthwise kernel equals the reference for every channel multiplier") {
  uint32_t seed = 1;
  for (const uint32_t multiplier : {2, 3, 4, 5, 8, 15, 16, 17, 33, 70}) {
    for (const uint32_t ic : {1, 2, 3, 9, 17}) {
      for (const uint32_t kernel : {2, 3, 5}) {
        check_same({.rows = 4,
                    .cols = 7,
                    .n = ic * multiplier,
                    .kh = kernel,
                    .kw = kernel,
                    .stride = 1 + seed % 2,
                    .dilation = 1 + seed % 3 / 2,
                    .multiplier = multiplier,
                    .residual = seed % 4 == 0},
                   seed);
        ++seed;
      }
    }
  }
}

TEST_CASE("8-bit depthwise kernels are exact for -128 x -128 and -128 x 127, and clamp before they convert") {
  for (const uint32_t n : {10, 16, 64}) {
    check_same({.rows = 3, .cols = 4, .n = n, .kh = 3, .kw = 3}, n, true);
    check_same({.rows = 3, .cols = 4, .n = n, .kh = 7, .kw = 7, .residual = true}, n, true);
    // At one half kernels change the place where they clamp.
    for (const float scale : {0.2f, 0.6f, 1e3f, 1e6f, 1e12f, 1e-12f})
      check_same({.rows = 3, .cols = 4, .n = n, .lo = -100, .hi = 101, .scale = scale}, n);
  }
}

TEST_CASE("8-bit depthwise kernels agree for every zero point and clamp") {
  for (int z = -128; z <= 127; ++z) {
    check_same({.rows = 2, .cols = 3, .n = 19, .residual = z % 2 == 0, .zero_point = z}, static_cast<uint32_t>(z + 200));
    check_same({.rows = 2, .cols = 3, .n = 19, .zero_point = z, .lo = z, .hi = z + (127 - z) / 2},
               static_cast<uint32_t>(z + 200));
  }
}

TEST_CASE("every float and half-precision depthwise kernel is within tolerance of double precision") {
  uint32_t seed = 1;
  for (const uint32_t n : {1, 3, 8, 15, 16, 17, 32, 33, 70}) {
    for (const uint32_t cols : {1, 2, 3, 4, 5, 7, 8, 9, 11, 16, 17}) {
      check_float({.rows = 1 + seed % 3,
                   .cols = cols,
                   .n = n,
                   .kh = 1 + seed % 5,
                   .kw = 1 + seed % 4,
                   .stride = 1 + seed % 2,
                   .dilation = 1 + seed % 2,
                   .residual = seed % 2 == 0},
                  seed);
      ++seed;
    }
  }
  for (const uint32_t multiplier : {2, 3, 7, 16, 33}) {
    for (const uint32_t ic : {1, 2, 5}) {
      for (const uint32_t kernel : {3, 2, 17}) {
        check_float({.rows = 2, .cols = 3, .n = ic * multiplier, .kh = kernel, .kw = 3, .multiplier = multiplier}, seed);
        ++seed;
      }
    }
  }
  for (const uint32_t stride : {1, 2}) {
    check_float({.rows = 2, .cols = 15, .n = 22, .stride = stride, .residual = stride == 1, .lo = -1}, stride);
    check_float({.rows = 2, .cols = 9, .n = 21, .stride = stride, .multiplier = 3}, stride);
  }
}

TEST_CASE("packing depthwise weights is undone by unpacking") {
  std::mt19937 rng(3);
  std::vector<int8_t> w(37 * 5 * 3), back(w.size()), packed(dwconv_s8_packed_bytes(37, 5, 3));
  fill_ints(rng, w.data(), w.size(), -128, 127);
  dwconv_s8_pack(w.data(), 37, 5, 3, packed.data());
  dwconv_s8_unpack(packed.data(), 37, 5, 3, back.data());
  CHECK(w == back);
  std::vector<float> f(37 * 5 * 3), f_back(f.size()), f_packed(dwconv_f32_packed_elems(37, 5, 3));
  fill_floats(rng, f.data(), f.size(), -1, 1);
  dwconv_f32_pack(f.data(), 37, 5, 3, f_packed.data());
  dwconv_f32_unpack(f_packed.data(), 37, 5, 3, f_back.data());
  CHECK(f == f_back);
  std::vector<uint16_t> h(f.size()), h_back(h.size()), h_packed(f_packed.size());
  fill_reals(rng, h.data(), h.size(), -1, 1);
  dwconv_f16_pack(h.data(), 37, 5, 3, h_packed.data());
  dwconv_f16_unpack(h_packed.data(), 37, 5, 3, h_back.data());
  CHECK(h == h_back);
}

}  // namespace lathe::kernels
