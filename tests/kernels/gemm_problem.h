// Segment GEMM problems for the tests: geometry of every shape that the contract allows, and the formula's sums in 64 bits.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <ostream>

#include "kernels/gemm/gemm.h"
#include "tests/kernels/under_test.h"

namespace lathe::kernels {

struct GemmCase {
  uint32_t m, n, segs, seg_k;  // m pixels in a row, segs segments in a row
  bool residual = false;
  int32_t zero_point = 3, lo = -128, hi = 127;  // in s8 terms
  float scale = 0;                              // 0: chosen so that results spread over the range
  uint32_t a_stride = 0;  // less than seg_k: pixels overlap, as neighbours in a convolution do; 0: they do not
  uint32_t rows = 1, seg_rows = 1;          // rows of pixels, rows of segments
  uint32_t skip_rows = 0, skip_cols = 0;    // packed segments before the first one that the call uses, and as many behind
  bool backwards = false;                   // segments lie in `a` last first: negative steps

  uint32_t pixels() const { return rows * m; }
  uint32_t k_all() const { return seg_rows * segs * seg_k; }
  uint32_t packed_seg_rows() const { return seg_rows + 2 * skip_rows; }
  uint32_t packed_seg_cols() const { return segs + 2 * skip_cols; }
  uint32_t packed_segs() const { return packed_seg_rows() * packed_seg_cols(); }
};

inline std::ostream& operator<<(std::ostream& o, const GemmCase& c) {
  return o << "pixels " << c.rows << "x" << c.m << " n " << c.n << " segments " << c.seg_rows << "x" << c.segs << " of "
           << c.seg_k << " skip " << c.skip_rows << "," << c.skip_cols << " residual " << c.residual << " z " << c.zero_point
           << " a_stride " << c.a_stride << " backwards " << c.backwards;
}

// The geometry of a case with gaps between everything, the elements of `a`, where its first pixel's first segment starts, and
// where the first used segment starts in a panel.
struct GemmLayout {
  GemmGeometry geo{};
  size_t a_elems, a_first;
  uint32_t w_first;

  // panel_elems: packed elements of one panel, one segment.
  GemmLayout(const GemmCase& c, uint32_t seed, uint32_t seg_elems) {
    const uint32_t gap = 1 + seed % 3;
    const uint32_t segment = c.a_stride == 0 ? c.seg_k + gap : (c.m - 1) * c.a_stride + c.seg_k + gap;
    const uint32_t seg_row = c.segs * segment + seed % 2;
    geo.rows = c.rows, geo.cols = c.m, geo.n = c.n;
    geo.a_col_step = c.a_stride == 0 ? c.seg_rows * seg_row + seed % 5 : c.a_stride;
    geo.a_row_step = seed % 4 == 0 ? c.m * geo.a_col_step : c.m * geo.a_col_step + 3;
    geo.y_col_step = c.n + 3;
    geo.y_row_step = geo.y_col_step * (seed % 3 == 0 ? c.m : c.m + 2);
    geo.residual_col_step = c.n + 2;
    geo.residual_row_step = geo.residual_col_step * c.m + seed / 2 % 3;
    geo.seg_rows = c.seg_rows, geo.seg_cols = c.segs, geo.seg_k = c.seg_k;
    const int sign = c.backwards ? -1 : 1;
    geo.a_seg_row_step = sign * static_cast<int32_t>(seg_row), geo.a_seg_col_step = sign * static_cast<int32_t>(segment);
    geo.w_seg_col_step = seg_elems;
    geo.w_seg_row_step = c.packed_seg_cols() * seg_elems;
    geo.w_panel_step = c.packed_segs() * seg_elems;
    const size_t span = static_cast<size_t>(c.seg_rows) * seg_row + segment;
    a_first = c.backwards ? span - segment : 0;
    a_elems = static_cast<size_t>(c.rows - 1) * geo.a_row_step + static_cast<size_t>(c.m - 1) * geo.a_col_step + span;
    w_first = c.skip_rows * geo.w_seg_row_step + c.skip_cols * geo.w_seg_col_step;
  }
  size_t a_at(uint32_t pixel) const { return pixel / geo.cols * geo.a_row_step + pixel % geo.cols * geo.a_col_step; }
  size_t y_at(uint32_t pixel) const { return pixel / geo.cols * geo.y_row_step + pixel % geo.cols * geo.y_col_step; }
  size_t residual_at(uint32_t pixel) const {
    return pixel / geo.cols * geo.residual_row_step + pixel % geo.cols * geo.residual_col_step;
  }
  size_t y_elems() const { return y_at(geo.rows * geo.cols - 1) + geo.n; }
  size_t residual_elems() const { return residual_at(geo.rows * geo.cols - 1) + geo.n; }
};

// Calls fn(k of the packed weights in w[n][all], element of a relative to the pixel) for every product of a pixel.
template <class F>
void for_each_k(const GemmCase& c, const GemmLayout& l, const F& fn) {
  for (uint32_t i = 0; i < c.seg_rows; ++i) {
    for (uint32_t j = 0; j < c.segs; ++j) {
      const size_t seg = (i + c.skip_rows) * static_cast<size_t>(c.packed_seg_cols()) + j + c.skip_cols;
      const ptrdiff_t at = static_cast<ptrdiff_t>(l.a_first) + static_cast<ptrdiff_t>(i) * l.geo.a_seg_row_step +
                           static_cast<ptrdiff_t>(j) * l.geo.a_seg_col_step;
      for (uint32_t k = 0; k < c.seg_k; ++k) fn(seg * c.seg_k + k, static_cast<size_t>(at) + k);
    }
  }
}

// Operands of an 8-bit problem as `storage` has them in memory.
struct GemmS8Operands {
  GemmCase c;
  Storage storage;
  GemmLayout layout;
  std::vector<uint8_t> a;
  std::vector<int8_t> w_plain;
  std::vector<int32_t> bias;
  Guarded<int8_t> w;
  Guarded<int32_t> bias_packed, w_zero;
  Guarded<float> scale;
  std::mt19937 rng;

  GemmS8Operands(const GemmCase& gemm_case, Storage s, uint32_t seed, bool extreme)
      : c(gemm_case),
        storage(s),
        layout(c, seed, gemm_s8_panel_bytes(1, c.seg_k)),
        w(gemm_s8_packed_bytes(c.n, c.packed_segs(), c.seg_k) + 64),
        bias_packed(round_up(c.n, 16) + 16),
        w_zero(round_up(c.n, 16) + 16),
        scale(round_up(c.n, 16) + 16),
        rng(seed) {
    a.resize(1 + layout.a_elems + 63);
    fill_ints(rng, a.data(), a.size(), 0, 255);
    w_plain.resize(static_cast<size_t>(c.n) * c.packed_segs() * c.seg_k);
    fill_ints(rng, w_plain.data(), w_plain.size(), -128, 127);
    if (extreme) {
      for (auto& v : a) v = storage == Storage::kU8 ? (v & 1 ? 255 : 0) : (v & 1 ? 127 : 128);
      for (auto& v : w_plain) v = v & 1 ? 127 : -128;
    }
    bias.resize(c.n);
    fill_ints(rng, bias.data(), bias.size(), -40000, 40000);
    std::memset(w.data(), 0, w.size());
    std::memset(bias_packed.data(), 0, bias_packed.size() * sizeof(int32_t));
    std::memset(w_zero.data(), 0, w_zero.size() * sizeof(int32_t));
    std::memset(scale.data(), 0, scale.size() * sizeof(float));
    gemm_s8_pack(w_plain.data(), c.n, c.packed_segs(), c.seg_k, w.data());
    const float spread = c.scale != 0 ? c.scale : 60.0f / (127.0f * 74.0f * std::sqrt(static_cast<float>(c.k_all())));
    for (uint32_t i = 0; i < c.n; ++i) {
      bias_packed.data()[i] = bias[i];
      w_zero.data()[i] = static_cast<int32_t>(rng() % 256) - 128;
      scale.data()[i] = spread * (0.5f + static_cast<float>(rng() % 1000) / 1000.0f);
    }
  }
  const uint8_t* a_begin() const { return a.data() + 1 + layout.a_first; }
  const int8_t* w_begin() const { return w.data() + layout.w_first; }
  int value(const std::vector<uint8_t>& v, size_t i) const { return storage == Storage::kU8 ? v[i] : static_cast<int8_t>(v[i]); }

  // bias + sum of a (w - zero) of pixel p and channel ch.
  int64_t sum(uint32_t p, uint32_t ch, int32_t zero = 0) const {
    int64_t acc = bias[ch];
    const int8_t* weights = w_plain.data() + static_cast<size_t>(ch) * c.packed_segs() * c.seg_k;
    for_each_k(c, layout, [&](size_t k, size_t at) { acc += value(a, 1 + layout.a_at(p) + at) * (weights[k] - zero); });
    return acc;
  }
};

// Runs `fn` with y in guarded memory, `offset` bytes past an aligned address; fails if it writes anything but the pixels.
template <class T, class Args>
std::vector<T> run_guarded(const GemmLayout& l, Args args, void (*fn)(const Args&), size_t offset) {
  Guarded<T> y(l.y_elems(), offset);
  args.y = y.data();
  fn(args);
  REQUIRE(y.intact(l.geo.rows, l.geo.cols, l.geo.n, l.geo.y_row_step, l.geo.y_col_step));
  return {y.data(), y.data() + y.size()};
}

}  // namespace lathe::kernels
