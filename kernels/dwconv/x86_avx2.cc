// Depthwise convolution on AVX2 and FMA, u8 storage, float and half precision.
//
// 8-bit: two kernel rows of a column are widened to 16 bits and interleaved for vpmaddwd, which is exact; weights are widened
// once per block of channels. Columns are kept while the window slides over them. Float: one accumulator per element that takes
// the taps row by row.
#include <immintrin.h>

#include "kernels/dwconv/rows.h"
#include "kernels/gemm/requantize_x86_avx2.h"
#include "kernels/math/x86_avx2_storage.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredPairs = 64;  // (column, pair) weights that are widened once per block
constexpr uint32_t kStoredRows = 16;   // kernel rows whose input rows are looked up once per output row

// A pair of dword vectors: `lo` has channels 0 .. 3 of both lanes, `hi` channels 4 .. 7. kRows 1: the lanes are channels 0 .. 7
// and 8 .. 15 of a row; 2: channels 0 .. 7 of two output rows.
struct Halves {
  __m256i lo, hi;
};

template <int kRows>
LATHE_INLINE Halves arrange(const void* dwords) {
  const __m256i a = _mm256_loadu_si256(static_cast<const __m256i*>(dwords));
  if (kRows == 2) return {_mm256_permute2x128_si256(a, a, 0x00), _mm256_permute2x128_si256(a, a, 0x11)};
  const __m256i b = _mm256_loadu_si256(static_cast<const __m256i*>(dwords) + 1);
  return {_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31)};
}

// Weights of a 3x3 window: of rows 0 and 1 per column, of row 2 of columns 0 and 1, and (0, row 2 of column 2).
struct WindowWeights {
  Halves pairs[3], first_thirds, last_third;
};

// A block: 16 channels of one output row, or 8 of two.
struct Block {
  const DwConvS8Args* d;
  Requantize q;
  const int8_t* w;        // records of 64 bytes per (column, quad) of kernel rows
  uint32_t c, n;          // channels [c, c + n) of the call
  uint32_t quads, pairs;  // of a column of the kernel
  uint32_t first;         // input channel of channel c
  __m128i place;          // with a channel multiplier: for every channel its place after `first`
  Halves bias, scale;
  Halves weights[kStoredPairs];  // of column s, pair a: [s * pairs + a]
  WindowWeights window;          // kernels of 3 columns and at most 3 rows
};

// Weights of kernel rows 2 a, 2 a + 1 of column s, as 16-bit pairs.
template <int kRows>
LATHE_INLINE Halves weights_of(const Block& b, uint32_t s, uint32_t a) {
  const Halves quads = arrange<kRows>(b.w + (static_cast<size_t>(s) * b.quads + a / 2) * 64);
  const int32_t bytes = a % 2 == 0 ? 0x01800080 : static_cast<int32_t>(0x03800280);  // to the high bytes of two words
  const __m256i order = _mm256_add_epi32(_mm256_set1_epi32(bytes), _mm256_setr_epi32(0, 0x04000400, 0x08000800, 0x0c000c00, 0,
                                                                                     0x04000400, 0x08000800, 0x0c000c00));
  return {_mm256_srai_epi16(_mm256_shuffle_epi8(quads.lo, order), 8), _mm256_srai_epi16(_mm256_shuffle_epi8(quads.hi, order), 8)};
}

LATHE_INLINE WindowWeights window_weights(const Block& b) {
  WindowWeights w{};
  for (uint32_t s = 0; s < 3; ++s) w.pairs[s] = b.weights[s * b.pairs];
  if (b.pairs < 2) return w;
  const Halves left = b.weights[1], middle = b.weights[b.pairs + 1], right = b.weights[2 * b.pairs + 1];
  w.first_thirds = {_mm256_or_si256(left.lo, _mm256_slli_epi32(middle.lo, 16)),
                    _mm256_or_si256(left.hi, _mm256_slli_epi32(middle.hi, 16))};
  w.last_third = {_mm256_slli_epi32(right.lo, 16), _mm256_slli_epi32(right.hi, 16)};
  return w;
}

template <int kRows>
void prepare(Block* b) {
  const DwConvS8Args& d = *b->d;
  b->bias = arrange<kRows>(d.bias + b->c);
  b->scale = arrange<kRows>(d.scale + b->c);
  for (uint32_t t = 0; t < d.in.kw * b->pairs && t < kStoredPairs; ++t)
    b->weights[t] = weights_of<kRows>(*b, t / b->pairs, t % b->pairs);
  if (d.in.kw == 3 && d.in.kh <= 3) b->window = window_weights(*b);
  b->first = b->c / d.multiplier;
  alignas(16) uint8_t place[16];
  for (uint32_t i = 0; i < 16; ++i) place[i] = static_cast<uint8_t>((b->c + i) / d.multiplier - b->first);
  b->place = _mm_load_si128(reinterpret_cast<const __m128i*>(place));
}

// The block's channels of a pixel of each row in 16 bits.
template <int kRows, bool kExpand>
LATHE_INLINE __m256i load_words(const Block& b, const uint8_t* const* row, size_t at) {
  const auto load16 = [](const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
  const auto load8 = [](const uint8_t* p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)); };
  __m128i v;
  if (kExpand) {
    v = _mm_shuffle_epi8(load16(row[0] + at), b.place);
    if (kRows == 2) v = _mm_unpacklo_epi64(v, _mm_shuffle_epi8(load16(row[1] + at), b.place));
  } else {
    v = kRows == 1 ? load16(row[0] + at) : _mm_unpacklo_epi64(load8(row[0] + at), load8(row[1] + at));
  }
  return _mm256_cvtepu8_epi16(v);
}

LATHE_INLINE Halves interleave(__m256i a, __m256i b) { return {_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)}; }

LATHE_INLINE void dot(Halves& acc, const Halves& x, const Halves& w) {
  acc.lo = _mm256_add_epi32(acc.lo, _mm256_madd_epi16(x.lo, w.lo));
  acc.hi = _mm256_add_epi32(acc.hi, _mm256_madd_epi16(x.hi, w.hi));
}

// Output rows of a block; one that is not there repeats the first.
struct Rows {
  uint32_t i, count;  // output rows [i, i + count)
  const uint8_t* residual[2];
  uint8_t* y[2];
};

// Input rows under kernel row p; those past the kernel repeat its last one: their weights are zero.
template <int kRows>
LATHE_INLINE void find_rows(const Block& b, const Rows& rows, uint32_t p, const uint8_t** a) {
  const uint32_t row = p < b.d->in.kh ? p : b.d->in.kh - 1;
  for (uint32_t l = 0; l < kRows; ++l) a[l] = input_row<uint8_t>(b.d->in, rows.i + (l < rows.count ? l : 0), row) + b.first;
}

// Residual bytes of both rows in the order of Halves.
template <int kRows>
LATHE_INLINE void add_residual(const Requantize& q, const uint8_t* const* residual, size_t at, __m256* lo, __m256* hi) {
  const uint8_t *a = residual[0] + at, *c = kRows == 1 ? a + 8 : residual[1] + at;
  const __m256 va = residual8(q, a), vc = residual8(q, c);
  *lo = _mm256_add_ps(*lo, _mm256_permute2f128_ps(va, vc, 0x20));
  *hi = _mm256_add_ps(*hi, _mm256_permute2f128_ps(va, vc, 0x31));
}

// The channels and rows that exist.
template <int kRows>
__attribute__((noinline)) void store_part(const Block& b, const Rows& rows, size_t at, __m128i bytes) {
  alignas(16) uint8_t stored[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(stored), bytes);
  const uint32_t n = b.n < 16 / kRows ? b.n : 16 / kRows;
  for (uint32_t l = 0; l < rows.count; ++l) {
    for (uint32_t i = 0; i < n; ++i) rows.y[l][at + i] = stored[8 * l + i];
  }
}

// Requantizes pixel x of every row and stores it `at` elements into the output rows. kPlain: all channels and rows of the block
// exist, and there is no residual.
template <int kRows, bool kPlain>
LATHE_INLINE void finish(const Block& b, const Requantize& q, const Rows& rows, const Halves& acc, size_t x, size_t at) {
  __m256 lo = _mm256_mul_ps(_mm256_cvtepi32_ps(acc.lo), _mm256_castsi256_ps(b.scale.lo));
  __m256 hi = _mm256_mul_ps(_mm256_cvtepi32_ps(acc.hi), _mm256_castsi256_ps(b.scale.hi));
  if (!kPlain && rows.residual[0] != nullptr) add_residual<kRows>(q, rows.residual, x * b.d->residual_col_step, &lo, &hi);
  const __m256i words = _mm256_adds_epi16(_mm256_packs_epi32(round_scaled(q, lo), round_scaled(q, hi)), q.zero);
  const __m128i packed = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  const __m128i bytes = _mm_max_epu8(packed, _mm256_castsi256_si128(q.lo));
  if (!kPlain) return store_part<kRows>(b, rows, at, bytes);
  if (kRows == 1) return _mm_storeu_si128(reinterpret_cast<__m128i*>(rows.y[0] + at), bytes);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(rows.y[0] + at), bytes);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(rows.y[1] + at), _mm_unpackhi_epi64(bytes, bytes));
}

// Any kernel. kStored: of at most kStoredRows rows and kStoredPairs pairs.
template <int kRows, bool kExpand, bool kStored>
void any_rows(const Block& b, const Rows& rows) {
  const auto& in = b.d->in;
  const uint8_t* const padding = static_cast<const uint8_t*>(in.pad_row) + b.first;
  const uint8_t *known[kStoredRows][2], *pad[kStoredRows][2];
  for (uint32_t p = 0; p < kStoredRows; ++p) {
    find_rows<kRows>(b, rows, p, known[p]);
    pad[p][0] = pad[p][1] = padding;
  }
  for (uint32_t x = 0; x < b.d->cols; ++x) {
    Halves acc = b.bias;
    const Halves* w = b.weights;
    for (uint32_t s = 0; s < in.kw; ++s) {
      const int32_t column = in.col0 + static_cast<int32_t>(x * in.stride_w + s * in.dilation_w);
      const bool inside = has_column(in, column);
      const size_t at = inside ? static_cast<size_t>(column) * in.col_step : 0;
      for (uint32_t a = 0; a < b.pairs; ++a, ++w) {
        const uint8_t* found[2][2];
        for (uint32_t i = 0; i < 2 && inside && !kStored; ++i) find_rows<kRows>(b, rows, 2 * a + i, found[i]);
        const auto* from = kStored ? (inside ? known : pad) + 2 * a : inside ? found : pad;
        const Halves x01 = interleave(load_words<kRows, kExpand>(b, from[0], at), load_words<kRows, kExpand>(b, from[1], at));
        dot(acc, x01, kStored ? *w : weights_of<kRows>(b, s, a));
      }
    }
    finish<kRows, false>(b, b.q, rows, acc, x, static_cast<size_t>(x) * b.d->y_col_step);
  }
}

template <int kRows, bool kExpand>
void any_rows(const Block& b, const Rows& rows) {
  if (2 * b.pairs <= kStoredRows && b.d->in.kw * b.pairs <= kStoredPairs) {
    any_rows<kRows, kExpand, true>(b, rows);
  } else {
    any_rows<kRows, kExpand, false>(b, rows);
  }
}

// A column of a window of at most 3 rows: rows 0 and 1 as pairs, row 2, and row 2 of the column before it and of itself as pairs.
struct Column {
  Halves pairs, thirds;
  __m256i third;
};

template <int kRows, bool kExpand>
struct ColumnSource {
  const Block& b;
  const DwConvInput<void> in;
  const uint8_t *row[3][2], *pad[2];

  LATHE_INLINE ColumnSource(const Block& block, const Rows& rows) : b(block), in(block.d->in) {
    for (uint32_t p = 0; p < 3; ++p) find_rows<kRows>(b, rows, p, row[p]);
    pad[0] = pad[1] = static_cast<const uint8_t*>(b.d->in.pad_row) + b.first;
  }

  // Column s after `before`; kLook: it may be outside of the image.
  template <bool kLook>
  LATHE_INLINE Column column(int32_t s, __m256i before) const {
    if (kLook && !has_column(in, s)) {
      const __m256i v = load_words<kRows, kExpand>(b, pad, 0);
      return {interleave(v, v), interleave(before, v), v};
    }
    const size_t at = static_cast<size_t>(s) * in.col_step;
    const __m256i third = load_words<kRows, kExpand>(b, row[2], at);
    return {interleave(load_words<kRows, kExpand>(b, row[0], at), load_words<kRows, kExpand>(b, row[1], at)),
            interleave(before, third), third};
  }
};

template <int kRows, bool kPlain>
LATHE_INLINE void window_pixel(const Block& b, const Requantize& q, const Rows& rows, const WindowWeights& w, const Column& left,
                               const Column& middle, const Column& right, size_t x, size_t at) {
  Halves acc = b.bias;
  dot(acc, left.pairs, w.pairs[0]);
  dot(acc, middle.pairs, w.pairs[1]);
  dot(acc, middle.thirds, w.first_thirds);
  dot(acc, right.pairs, w.pairs[2]);
  dot(acc, right.thirds, w.last_third);
  finish<kRows, kPlain>(b, q, rows, acc, x, at);
}

// A window of 3 columns that moves by kStep of them, 1 or 2. What slides is in locals: what shares an object with pointers, or
// might alias the output, would go through memory for every pixel. Where no column needs a look, three (kStep 2: two) pixels take
// turns in which variable is which column of the window.
template <int kRows, int kStep, bool kExpand, bool kPlain>
void sliding_rows(const Block& b, const Rows& all_rows) {
  const Rows rows = all_rows;
  const Interior inside = interior(b.d->in, b.d->cols, kStep);
  const ColumnSource<kRows, kExpand> source(b, rows);
  const WindowWeights w = b.window;
  const Requantize q = b.q;
  const int32_t step = static_cast<int32_t>(b.d->in.dilation_w);
  int32_t at = b.d->in.col0;
  const size_t y_step = b.d->y_col_step;
  const uint32_t cols = b.d->cols;
  Column left = source.template column<true>(at, _mm256_setzero_si256()), middle{}, right;
  if (kStep == 1) middle = source.template column<true>(at + step, left.third);
  const auto look = [&](uint32_t x) __attribute__((always_inline)) {
    if (kStep == 2) middle = source.template column<true>(at + step, left.third);
    right = source.template column<true>(at + 2 * step, middle.third);
    window_pixel<kRows, kPlain>(b, q, rows, w, left, middle, right, x, x * y_step);
    left = kStep == 1 ? middle : right;
    middle = right;
    at += kStep * step;
  };
  uint32_t x = 0;
  for (; x < inside.first; ++x) look(x);
  for (; kStep == 1 && x + 3 <= inside.last; x += 3, at += 3 * step) {
    right = source.template column<false>(at + 2 * step, middle.third);
    window_pixel<kRows, kPlain>(b, q, rows, w, left, middle, right, x, x * y_step);
    left = source.template column<false>(at + 3 * step, right.third);
    window_pixel<kRows, kPlain>(b, q, rows, w, middle, right, left, x + 1, (x + 1) * y_step);
    middle = source.template column<false>(at + 4 * step, left.third);
    window_pixel<kRows, kPlain>(b, q, rows, w, right, left, middle, x + 2, (x + 2) * y_step);
  }
  for (; kStep == 2 && x + 2 <= inside.last; x += 2, at += 4 * step) {
    middle = source.template column<false>(at + step, left.third);
    right = source.template column<false>(at + 2 * step, middle.third);
    window_pixel<kRows, kPlain>(b, q, rows, w, left, middle, right, x, x * y_step);
    middle = source.template column<false>(at + 3 * step, right.third);
    left = source.template column<false>(at + 4 * step, middle.third);
    window_pixel<kRows, kPlain>(b, q, rows, w, right, middle, left, x + 1, (x + 1) * y_step);
  }
  for (; x < cols; ++x) look(x);
}

template <int kRows, int kStep>
void window_rows(const Block& b, const Rows& rows) {
  const bool plain = b.n >= 16 / kRows && rows.count == kRows && rows.residual[0] == nullptr;
  if (b.d->multiplier != 1) {
    sliding_rows<kRows, kStep, true, false>(b, rows);
  } else if (plain) {
    sliding_rows<kRows, kStep, false, true>(b, rows);
  } else {
    sliding_rows<kRows, kStep, false, false>(b, rows);
  }
}

template <int kRows>
void block_rows(const Block& b, const Rows& rows) {
  const auto& in = b.d->in;
  const bool short_kernel = in.kw == 3 && in.kh <= 3;
  if (short_kernel && in.stride_w == in.dilation_w) {
    window_rows<kRows, 1>(b, rows);
  } else if (short_kernel && in.stride_w == 2 * in.dilation_w) {
    window_rows<kRows, 2>(b, rows);
  } else if (b.d->multiplier != 1) {
    any_rows<kRows, true>(b, rows);
  } else {
    any_rows<kRows, false>(b, rows);
  }
}

template <int kRows>
void block_all_rows(Block* b) {
  const DwConvS8Args& d = *b->d;
  prepare<kRows>(b);
  for (uint32_t i = 0; i < d.rows; i += kRows) {
    Rows rows{};
    rows.i = i;
    rows.count = d.rows - i < kRows ? d.rows - i : kRows;
    for (uint32_t l = 0; l < kRows; ++l) {
      const size_t row = i + (l < rows.count ? l : 0);
      rows.y[l] = static_cast<uint8_t*>(d.y) + row * d.y_row_step + b->c;
      if (d.residual != nullptr)
        rows.residual[l] = static_cast<const uint8_t*>(d.residual) + row * d.residual_row_step + b->c;
    }
    block_rows<kRows>(*b, rows);
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
  uint32_t first;  // input channel of channel c
  __m256i place;   // with a channel multiplier: of every channel its place after `first`
};

// Of 8 channels from c on: the places of their input channels after the first.
__m256i places(uint32_t c, uint32_t multiplier) {
  alignas(32) int32_t place[8];
  for (uint32_t i = 0; i < 8; ++i) place[i] = static_cast<int32_t>((c + i) / multiplier - c / multiplier);
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(place));
}

// Any kernel, one pixel at a time. kExpand: an input channel stands for several.
template <bool kExpand, class T>
void any_float_row(const DwConvRealArgs<T>& d, FloatRow<T> row) {
  const auto& in = d.in;
  const T* known[kStoredRows];
  for (uint32_t p = 0; p < in.kh && p < kStoredRows; ++p) known[p] = input_row<T>(in, row.i, p) + row.first;
  for (uint32_t x = 0; x < d.cols; ++x, row.y += d.y_col_step) {
    __m256 acc = row.bias == nullptr ? _mm256_setzero_ps() : _mm256_load_ps(row.bias);
    const T* w = row.w;
    for (uint32_t p = 0; p < in.kh; ++p) {
      const T* a = p < kStoredRows ? known[p] : input_row<T>(in, row.i, p) + row.first;
      for (uint32_t s = 0; s < in.kw; ++s, w += 16) {
        const int32_t column = in.col0 + static_cast<int32_t>(x * in.stride_w + s * in.dilation_w);
        const __m256 v = load8(has_column(in, column) ? a + static_cast<size_t>(column) * in.col_step : in.pad_row + row.first);
        acc = _mm256_fmadd_ps(kExpand ? _mm256_permutevar8x32_ps(v, row.place) : v, load8(w), acc);
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
                            d.y + static_cast<size_t>(i) * d.y_row_step + c,
                            c / d.multiplier,
                            d.multiplier == 1 ? _mm256_setzero_si256() : places(c, d.multiplier)};
      if (d.multiplier != 1) {
        any_float_row<true>(d, row);
      } else if (short_kernel && d.in.stride_w == d.in.dilation_w) {
        sliding_float_row<1>(d, row);
      } else if (short_kernel && d.in.stride_w == 2 * d.in.dilation_w) {
        sliding_float_row<2>(d, row);
      } else {
        any_float_row<false>(d, row);
      }
    }
  }
}

}  // namespace

void dwconv_u8s8s32_16_x86_avx2(const DwConvS8Args& d) {
  Block b;
  b.d = &d;
  b.q = make_requantize(d.zero_point, d.lo, d.hi, d.residual_scale, d.residual_zero);
  b.quads = (d.in.kh + kGemmQuad - 1) / kGemmQuad;
  b.pairs = (d.in.kh + 1) / 2;
  for (b.c = 0; b.c < d.n; b.c += 16) {
    b.n = d.n - b.c;
    b.w = d.w + static_cast<size_t>(b.c / 16) * d.in.kw * b.quads * 64;
    if (b.n > 8) {
      block_all_rows<1>(&b);
    } else {
      block_all_rows<2>(&b);
    }
  }
}

void dwconv_f32_8_x86_avx2(const DwConvF32Args& d) { float_dwconv(d); }
void dwconv_f16_8_x86_avx2(const DwConvF16Args& d) { float_dwconv(d); }

}  // namespace lathe::kernels
