// Float and half-precision depthwise convolution on AVX-512, 16 channels at a time: one accumulator per element that takes the
// taps row by row. 3x3 windows keep their columns and weights in registers while they slide; the chains of neighbouring pixels
// overlap.
#include <immintrin.h>

#include "kernels/dwconv/rows.h"
#include "kernels/math/x86_avx512_storage.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredRows = 16;  // kernel rows whose input rows are looked up once per output row

// One output row of 16 channels.
template <class T>
struct Row {
  uint32_t i, c;   // output row; first channel
  __mmask16 mask;  // channels that exist
  const T* w;
  const float* bias;  // or null
  const T* residual;
  T* y;
  uint32_t first;  // input channel of channel c
  __m512i place;   // with a channel multiplier: of every channel its place after `first`
};

template <class T>
LATHE_INLINE void finish(const DwConvRealArgs<T>& d, const Row<T>& row, uint32_t x, __m512 v) {
  if (row.residual != nullptr) v = _mm512_add_ps(v, load16(row.residual + static_cast<size_t>(x) * d.residual_col_step));
  // The second operand passes when either is NaN.
  v = _mm512_min_ps(_mm512_set1_ps(d.hi), _mm512_max_ps(_mm512_set1_ps(d.lo), v));
  store16(row.y + static_cast<size_t>(x) * d.y_col_step, v, row.mask);
}

// Of 16 channels from c on: the places of their input channels after the first.
__m512i places(uint32_t c, uint32_t multiplier) {
  alignas(64) int32_t place[16];
  for (uint32_t i = 0; i < 16; ++i) place[i] = static_cast<int32_t>((c + i) / multiplier - c / multiplier);
  return _mm512_load_si512(place);
}

// Any kernel, one pixel at a time. kExpand: an input channel stands for several.
template <class T, bool kExpand>
void any_row(const DwConvRealArgs<T>& d, const Row<T>& row) {
  const auto& in = d.in;
  const T* known[kStoredRows];
  for (uint32_t p = 0; p < in.kh && p < kStoredRows; ++p) known[p] = input_row<T>(in, row.i, p) + row.first;
  for (uint32_t x = 0; x < d.cols; ++x) {
    __m512 acc = row.bias == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(row.bias);
    const T* w = row.w;
    for (uint32_t p = 0; p < in.kh; ++p) {
      const T* a = p < kStoredRows ? known[p] : input_row<T>(in, row.i, p) + row.first;
      for (uint32_t s = 0; s < in.kw; ++s, w += 16) {
        const int32_t column = in.col0 + static_cast<int32_t>(x * in.stride_w + s * in.dilation_w);
        const __m512 v = load16(has_column(in, column) ? a + static_cast<size_t>(column) * in.col_step : in.pad_row + row.first);
        acc = _mm512_fmadd_ps(kExpand ? _mm512_permutexvar_ps(row.place, v) : v, load16(w), acc);
      }
    }
    finish(d, row, x, acc);
  }
}

struct Column {
  __m512 v[3];
};

// A 3x3 window that moves by kStep of its columns, 1 or 2.
template <class T, int kStep>
class Window {
 public:
  LATHE_INLINE Window(const DwConvRealArgs<T>& d, const Row<T>& row)
      : d_(d), row_(row), at_(d.in.col0), step_(static_cast<int32_t>(d.in.dilation_w)) {
    for (uint32_t p = 0; p < 3; ++p) a_[p] = input_row<T>(d.in, row.i, p) + row.c;
    LATHE_UNROLL
    for (int t = 0; t < 9; ++t) w_[t] = load16(row.w + 16 * t);
    bias_ = row.bias == nullptr ? _mm512_setzero_ps() : _mm512_load_ps(row.bias);
    left_ = column<true>(at_);
    if (kStep == 1) middle_ = column<true>(at_ + step_);
  }

  // Output pixel x; kLook: columns may be outside of the image.
  template <bool kLook>
  LATHE_INLINE void pixel(uint32_t x) {
    if (kStep == 2) middle_ = column<kLook>(at_ + step_);
    const Column right = column<kLook>(at_ + 2 * step_);
    __m512 acc = bias_;
    LATHE_UNROLL
    for (int p = 0; p < 3; ++p) {
      acc = _mm512_fmadd_ps(left_.v[p], w_[3 * p], acc);
      acc = _mm512_fmadd_ps(middle_.v[p], w_[3 * p + 1], acc);
      acc = _mm512_fmadd_ps(right.v[p], w_[3 * p + 2], acc);
    }
    left_ = kStep == 1 ? middle_ : right;
    middle_ = right;
    at_ += kStep * step_;
    finish(d_, row_, x, acc);
  }

 private:
  template <bool kLook>
  LATHE_INLINE Column column(int32_t s) const {
    if (kLook && !has_column(d_.in, s)) {
      const __m512 v = load16(d_.in.pad_row + row_.c);
      return {{v, v, v}};
    }
    const size_t at = static_cast<size_t>(s) * d_.in.col_step;
    return {{load16(a_[0] + at), load16(a_[1] + at), load16(a_[2] + at)}};
  }

  const DwConvRealArgs<T>& d_;
  const Row<T>& row_;
  const T* a_[3];
  __m512 w_[9], bias_;
  int32_t at_, step_;
  Column left_, middle_;
};

template <int kStep, class T>
void sliding_row(const DwConvRealArgs<T>& d, const Row<T>& row) {
  const Interior in = interior(d.in, d.cols, kStep);
  Window<T, kStep> window(d, row);
  uint32_t x = 0;
  for (; x < in.first; ++x) window.template pixel<true>(x);
  for (; x < in.last; ++x) window.template pixel<false>(x);
  for (; x < d.cols; ++x) window.template pixel<true>(x);
}

template <class T>
void dwconv(const DwConvRealArgs<T>& d) {
  const size_t panel_elems = static_cast<size_t>(d.in.kh) * d.in.kw * kGemmPanel;
  const bool short_kernel = d.in.kw == 3 && d.in.kh == 3;
  for (uint32_t i = 0; i < d.rows; ++i) {
    for (uint32_t c = 0; c < d.n; c += 16) {
      const uint32_t left = d.n - c < 16 ? d.n - c : 16;
      const Row<T> row{i,
                       c,
                       static_cast<__mmask16>((1u << left) - 1),
                       d.w + c / 16 * panel_elems,
                       d.bias == nullptr ? nullptr : d.bias + c,
                       d.residual == nullptr ? nullptr : d.residual + static_cast<size_t>(i) * d.residual_row_step + c,
                       d.y + static_cast<size_t>(i) * d.y_row_step + c,
                       c / d.multiplier,
                       d.multiplier == 1 ? _mm512_setzero_si512() : places(c, d.multiplier)};
      if (d.multiplier != 1) {
        any_row<T, true>(d, row);
      } else if (short_kernel && d.in.stride_w == d.in.dilation_w) {
        sliding_row<1>(d, row);
      } else if (short_kernel && d.in.stride_w == 2 * d.in.dilation_w) {
        sliding_row<2>(d, row);
      } else {
        any_row<T, false>(d, row);
      }
    }
  }
}

}  // namespace

void dwconv_f32_16_x86_avx512(const DwConvF32Args& d) { dwconv(d); }
void dwconv_f16_16_x86_avx512(const DwConvF16Args& d) { dwconv(d); }

}  // namespace lathe::kernels
