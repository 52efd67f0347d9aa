// Depthwise convolution on AVX2 and FMA, u8 storage, float and half precision.
//
// 8-bit: up to four kernel rows of a column are interleaved into quads and widened to 16 bits for vpmaddwd, which is exact;
// weights are widened once per 8 channels. Columns are kept while the window slides over them. Float: one accumulator per element
// that takes the taps row by row.
#include <immintrin.h>

#include "kernels/dwconv/rows.h"
#include "kernels/gemm/requantize_x86_avx2.h"
#include "kernels/math/x86_avx2_storage.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredQuads = 32;  // (column, quad) pairs whose weights are widened once per block
constexpr uint32_t kStoredRows = 16;   // kernel rows whose input rows are looked up once per output row

// Half a panel: 8 channels.
struct Half {
  const DwConvS8Args* d;
  const int8_t* w;        // records of 64 bytes per (column, quad); this half's 32
  uint32_t quads, pairs;  // quads of a column; (column, quad) pairs
  __m256i bias;
  __m256 scale;
  __m256i weights[kStoredQuads][2];
};

LATHE_INLINE __m256i widen_weights(const int8_t* w) {
  return _mm256_cvtepi8_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(w)));
}

LATHE_INLINE __m128i load8(const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); }

// 16-bit quads of channels 0 .. 3 and 4 .. 7.
struct Column {
  __m256i v[2];
};

LATHE_INLINE Column interleave(__m128i r0, __m128i r1, __m128i r2, __m128i r3) {
  const __m128i t = _mm_unpacklo_epi8(r0, r1), u = _mm_unpacklo_epi8(r2, r3);
  return {{_mm256_cvtepu8_epi16(_mm_unpacklo_epi16(t, u)), _mm256_cvtepu8_epi16(_mm_unpackhi_epi16(t, u))}};
}

LATHE_INLINE void dot(__m256i* acc, const Column& column, __m256i w0, __m256i w1) {
  acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(column.v[0], w0));
  acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(column.v[1], w1));
}

// Channel sums, bias added. Lane order after the horizontal add is channels 0 1 4 5 | 2 3 6 7.
LATHE_INLINE __m256i sums(const Half& h, const __m256i* acc) {
  return _mm256_add_epi32(h.bias, _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[0], acc[1]), 0xd8));
}

LATHE_INLINE void finish(const Half& h, const Requantize& q, const __m256i* acc, const uint8_t* residual, uint8_t* y,
                         uint32_t n) {
  const __m256i v = requantize8(q, sums(h, acc), h.scale, residual);
  // Both halves of the packs: bytes 0 .. 7 are in order after the permutation.
  const __m256i bytes = pack_ordered(q, v, v, v, v);
  if (n >= 8) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(y), _mm256_castsi256_si128(bytes));
  } else {
    store_bytes(y, bytes, n);
  }
}

// One output row: inputs of its kernel rows, residual and output of its first pixel.
struct Row {
  uint32_t i;
  uint32_t c, n;  // channels [c, c + n)
  const uint8_t* residual;
  uint8_t* y;
};

// Any kernel. Rows past the kernel repeat its last one: their weights are zero.
void any_row(const Half& h, const Requantize& q, Row row) {
  const auto& in = h.d->in;
  const uint8_t* known[kStoredRows];
  for (uint32_t p = 0; p < kStoredRows; ++p) known[p] = input_row<uint8_t>(in, row.i, p < in.kh ? p : in.kh - 1) + row.c;
  for (uint32_t x = 0; x < h.d->cols; ++x, row.y += h.d->y_col_step) {
    __m256i acc[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint32_t s = 0, pair = 0; s < in.kw; ++s) {
      const int32_t column = in.col0 + static_cast<int32_t>(x * in.stride_w + s * in.dilation_w);
      const bool inside = has_column(in, column);
      const size_t at = inside ? static_cast<size_t>(column) * in.col_step : 0;
      for (uint32_t quad = 0; quad < h.quads; ++quad, ++pair) {
        __m128i r[4];
        LATHE_UNROLL
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t p = quad * 4 + i;
          const uint8_t* found = !inside           ? static_cast<const uint8_t*>(in.pad_row) + row.c
                                 : p < kStoredRows ? known[p]
                                                   : input_row<uint8_t>(in, row.i, p < in.kh ? p : in.kh - 1) + row.c;
          r[i] = load8(found + at);
        }
        const bool stored = pair < kStoredQuads;
        dot(acc, interleave(r[0], r[1], r[2], r[3]),
            stored ? h.weights[pair][0] : widen_weights(h.w + static_cast<size_t>(pair) * 64),
            stored ? h.weights[pair][1] : widen_weights(h.w + static_cast<size_t>(pair) * 64 + 16));
      }
    }
    finish(h, q, acc, row.residual, row.y, row.n);
    if (row.residual != nullptr) row.residual += h.d->residual_col_step;
  }
}

// A window of 3 columns and at most 3 rows that moves by kStep of its columns, 1 or 2.
template <int kStep>
class Window {
 public:
  LATHE_INLINE Window(const Half& h, const Requantize& q, const Row& row)
      : h_(h), q_(q), row_(row), at_(h.d->in.col0), step_(static_cast<int32_t>(h.d->in.dilation_w)) {
    const auto& in = h.d->in;
    for (uint32_t p = 0; p < 3; ++p) a_[p] = input_row<uint8_t>(in, row.i, p < in.kh ? p : in.kh - 1) + row.c;
    left_ = column<true>(at_);
    if (kStep == 1) middle_ = column<true>(at_ + step_);
  }

  // The next output pixel; kLook: columns may be outside of the image.
  template <bool kLook>
  LATHE_INLINE void pixel() {
    if (kStep == 2) middle_ = column<kLook>(at_ + step_);
    const Column right = column<kLook>(at_ + 2 * step_);
    __m256i acc[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    dot(acc, left_, h_.weights[0][0], h_.weights[0][1]);
    dot(acc, middle_, h_.weights[1][0], h_.weights[1][1]);
    dot(acc, right, h_.weights[2][0], h_.weights[2][1]);
    left_ = kStep == 1 ? middle_ : right;
    middle_ = right;
    at_ += kStep * step_;
    finish(h_, q_, acc, row_.residual, row_.y, row_.n);
    row_.y += h_.d->y_col_step;
    if (row_.residual != nullptr) row_.residual += h_.d->residual_col_step;
  }

 private:
  template <bool kLook>
  LATHE_INLINE Column column(int32_t s) const {
    if (kLook && !has_column(h_.d->in, s)) {
      const __m128i v = load8(static_cast<const uint8_t*>(h_.d->in.pad_row) + row_.c);
      return interleave(v, v, v, v);
    }
    const size_t at = static_cast<size_t>(s) * h_.d->in.col_step;
    const __m128i r2 = load8(a_[2] + at);
    return interleave(load8(a_[0] + at), load8(a_[1] + at), r2, r2);
  }

  const Half& h_;
  const Requantize& q_;
  Row row_;
  const uint8_t* a_[3];
  int32_t at_, step_;
  Column left_, middle_;
};

template <int kStep>
void sliding_row(const Half& h, const Requantize& q, const Row& row) {
  const Interior in = interior(h.d->in, h.d->cols, kStep);
  Window<kStep> window(h, q, row);
  uint32_t x = 0;
  for (; x < in.first; ++x) window.template pixel<true>();
  for (; x < in.last; ++x) window.template pixel<false>();
  for (; x < h.d->cols; ++x) window.template pixel<true>();
}

void half_rows(const Half& h, const Requantize& q, uint32_t c, uint32_t n) {
  const DwConvS8Args& d = *h.d;
  const bool short_kernel = d.in.kw == 3 && d.in.kh <= 3;
  for (uint32_t i = 0; i < d.rows; ++i) {
    const Row row{i, c, n,
                  d.residual == nullptr
                      ? nullptr
                      : static_cast<const uint8_t*>(d.residual) + static_cast<size_t>(i) * d.residual_row_step + c,
                  static_cast<uint8_t*>(d.y) + static_cast<size_t>(i) * d.y_row_step + c};
    if (short_kernel && d.in.stride_w == d.in.dilation_w) {
      sliding_row<1>(h, q, row);
    } else if (short_kernel && d.in.stride_w == 2 * d.in.dilation_w) {
      sliding_row<2>(h, q, row);
    } else {
      any_row(h, q, row);
    }
  }
}

template <class T>
LATHE_INLINE __m256 clamp(const DwConvRealArgs<T>& d, __m256 v, const T* residual) {
  if (residual != nullptr) v = _mm256_add_ps(v, load8(residual));
  // The second operand passes when either is NaN.
  return _mm256_min_ps(_mm256_set1_ps(d.hi), _mm256_max_ps(_mm256_set1_ps(d.lo), v));
}

// One output row of 8 float channels.
template <class T>
struct FloatRow {
  uint32_t i;
  uint32_t c, n;      // channels [c, c + n), n <= 8
  const T* w;         // taps 16 apart
  const float* bias;  // or null
  const T* residual;
  T* y;
};

// Any kernel, one pixel at a time.
template <class T>
void any_float_row(const DwConvRealArgs<T>& d, FloatRow<T> row) {
  const auto& in = d.in;
  for (uint32_t x = 0; x < d.cols; ++x, row.y += d.y_col_step) {
    __m256 acc = row.bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(row.bias);
    const T* w = row.w;
    for (uint32_t p = 0; p < in.kh; ++p) {
      const T* a = input_row<T>(in, row.i, p) + row.c;
      for (uint32_t s = 0; s < in.kw; ++s, w += 16) {
        const int32_t column = in.col0 + static_cast<int32_t>(x * in.stride_w + s * in.dilation_w);
        const T* tap = has_column(in, column) ? a + static_cast<size_t>(column) * in.col_step : in.pad_row + row.c;
        acc = _mm256_fmadd_ps(load8(tap), load8(w), acc);
      }
    }
    store8(row.y, clamp(d, acc, row.residual), row.n);
    if (row.residual != nullptr) row.residual += d.residual_col_step;
  }
}

struct FloatColumn {
  __m256 v[3];
};

// A 3x3 window that moves by kStep of its columns, 1 or 2.
template <class T, int kStep>
class FloatWindow {
 public:
  LATHE_INLINE FloatWindow(const DwConvRealArgs<T>& d, const FloatRow<T>& row)
      : d_(d), row_(row), at_(d.in.col0), step_(static_cast<int32_t>(d.in.dilation_w)) {
    for (uint32_t p = 0; p < 3; ++p) a_[p] = input_row<T>(d.in, row.i, p) + row.c;
    bias_ = row.bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(row.bias);
    left_ = column<true>(at_);
    if (kStep == 1) middle_ = column<true>(at_ + step_);
  }

  // The next output pixel; kLook: columns may be outside of the image.
  template <bool kLook>
  LATHE_INLINE void pixel() {
    if (kStep == 2) middle_ = column<kLook>(at_ + step_);
    const FloatColumn right = column<kLook>(at_ + 2 * step_);
    __m256 acc = bias_;
    LATHE_UNROLL
    for (int p = 0; p < 3; ++p) {
      acc = _mm256_fmadd_ps(left_.v[p], load8(row_.w + 48 * p), acc);
      acc = _mm256_fmadd_ps(middle_.v[p], load8(row_.w + 48 * p + 16), acc);
      acc = _mm256_fmadd_ps(right.v[p], load8(row_.w + 48 * p + 32), acc);
    }
    left_ = kStep == 1 ? middle_ : right;
    middle_ = right;
    at_ += kStep * step_;
    store8(row_.y, clamp(d_, acc, row_.residual), row_.n);
    row_.y += d_.y_col_step;
    if (row_.residual != nullptr) row_.residual += d_.residual_col_step;
  }

 private:
  template <bool kLook>
  LATHE_INLINE FloatColumn column(int32_t s) const {
    if (kLook && !has_column(d_.in, s)) {
      const __m256 v = load8(d_.in.pad_row + row_.c);
      return {{v, v, v}};
    }
    const size_t at = static_cast<size_t>(s) * d_.in.col_step;
    return {{load8(a_[0] + at), load8(a_[1] + at), load8(a_[2] + at)}};
  }

  const DwConvRealArgs<T>& d_;
  FloatRow<T> row_;
  const T* a_[3];
  __m256 bias_;
  int32_t at_, step_;
  FloatColumn left_, middle_;
};

template <int kStep, class T>
void sliding_float_row(const DwConvRealArgs<T>& d, const FloatRow<T>& row) {
  const Interior in = interior(d.in, d.cols, kStep);
  FloatWindow<T, kStep> window(d, row);
  uint32_t x = 0;
  for (; x < in.first; ++x) window.template pixel<true>();
  for (; x < in.last; ++x) window.template pixel<false>();
  for (; x < d.cols; ++x) window.template pixel<true>();
}

template <class T>
void float_dwconv(const DwConvRealArgs<T>& d) {
  const size_t panel_elems = static_cast<size_t>(d.in.kh) * d.in.kw * kGemmPanel;
  const bool short_kernel = d.in.kw == 3 && d.in.kh == 3;
  for (uint32_t i = 0; i < d.rows; ++i) {
    for (uint32_t c = 0; c < d.n; c += 8) {
      const FloatRow<T> row{i,
                            c,
                            d.n - c < 8 ? d.n - c : 8,
                            d.w + c / 16 * panel_elems + c % 16,
                            d.bias == nullptr ? nullptr : d.bias + c,
                            d.residual == nullptr ? nullptr : d.residual + static_cast<size_t>(i) * d.residual_row_step + c,
                            d.y + static_cast<size_t>(i) * d.y_row_step + c};
      if (short_kernel && d.in.stride_w == d.in.dilation_w) {
        sliding_float_row<1>(d, row);
      } else if (short_kernel && d.in.stride_w == 2 * d.in.dilation_w) {
        sliding_float_row<2>(d, row);
      } else {
        any_float_row(d, row);
      }
    }
  }
}

}  // namespace

void dwconv_u8s8s32_8_x86_avx2(const DwConvS8Args& d) {
  const Requantize q = make_requantize(d.zero_point, d.lo, d.hi, d.residual_scale, d.residual_zero);
  Half h;
  h.d = &d;
  h.quads = (d.in.kh + kGemmQuad - 1) / kGemmQuad;
  h.pairs = d.in.kw * h.quads;
  for (uint32_t c = 0; c < d.n; c += 8) {
    h.w = d.w + static_cast<size_t>(c / 16) * h.pairs * 64 + c % 16 / 8 * 32;
    h.bias = _mm256_load_si256(reinterpret_cast<const __m256i*>(d.bias + c));
    h.scale = _mm256_load_ps(d.scale + c);
    for (uint32_t pair = 0; pair < h.pairs && pair < kStoredQuads; ++pair) {
      h.weights[pair][0] = widen_weights(h.w + static_cast<size_t>(pair) * 64);
      h.weights[pair][1] = widen_weights(h.w + static_cast<size_t>(pair) * 64 + 16);
    }
    half_rows(h, q, c, d.n - c < 8 ? d.n - c : 8);
  }
}

void dwconv_f32_8_x86_avx2(const DwConvF32Args& d) { float_dwconv(d); }
void dwconv_f16_8_x86_avx2(const DwConvF16Args& d) { float_dwconv(d); }

}  // namespace lathe::kernels
