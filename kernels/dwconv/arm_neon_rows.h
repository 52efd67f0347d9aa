// Depthwise convolution of 8-bit values, 8 channels at a time, for the Arm files of this family.
//
// any_rows computes any kernel by multiplications: a weight is widened to 16 bits once per 8 channels of a call, an input byte
// when it is loaded, and SMLAL adds the exact products in 32 bits. A tap of 8 channels costs a load, SXTL, SMLAL and SMLAL2 per
// pixel, and a load of weights per four pixels. sliding_rows keeps the columns of a window of 3 in registers; how a column and
// its products look is the ISA file's.
#pragma once
#include <arm_neon.h>

#include "kernels/dwconv/rows.h"
#include "kernels/gemm/requantize_arm_neon.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

#define LATHE_INLINE inline __attribute__((always_inline))

constexpr uint32_t kStoredTaps = 64;  // taps whose weights are widened once
constexpr uint32_t kStoredRows = 16;  // kernel rows whose input rows are looked up once per output row

// Channels [c, c + n) of a call, of which 8 are computed.
struct Block {
  const DwConvS8Args* d;
  uint32_t c, n;
  uint32_t first;    // input channel of channel c
  uint8x16_t expand;  // where an input channel stands for several: the channels' places after `first`
  bool plain;        // neither that, nor a residual
  const int8_t* w;   // packed, channel c
  Requantize q;
  int32x4_t bias[2];
  float32x4_t scale[2];
};

LATHE_INLINE Block block_at(const DwConvS8Args& d, uint32_t c) {
  const uint32_t quads = (d.in.kh + kGemmQuad - 1) / kGemmQuad;
  uint8_t place[16];
  for (uint32_t i = 0; i < 16; ++i) place[i] = static_cast<uint8_t>((c + i) / d.multiplier - c / d.multiplier);
  return {&d,
          c,
          d.n - c,
          c / d.multiplier,
          vld1q_u8(place),
          d.multiplier == 1 && d.residual == nullptr,
          d.w + static_cast<size_t>(c / 16) * d.in.kw * quads * 64 + c % 16 * kGemmQuad,
          make_requantize(d.zero_point, d.lo, d.hi, d.residual_scale, d.residual_zero),
          {vld1q_s32(d.bias + c), vld1q_s32(d.bias + c + 4)},
          {vld1q_f32(d.scale + c), vld1q_f32(d.scale + c + 4)}};
}

// 8 channels in the lower half.
template <bool kPlain>
LATHE_INLINE int8x16_t load_channels(const Block& b, const int8_t* pixel) {
  const int8x16_t v = vld1q_s8(pixel);
  return kPlain || b.d->multiplier == 1 ? v : vqtbl1q_s8(v, b.expand);
}

// Kernel row p's input under output row i, at the block's channels; rows past the kernel repeat its last one.
LATHE_INLINE const int8_t* block_row(const Block& b, uint32_t i, uint32_t p) {
  return input_row<int8_t>(b.d->in, i, p < b.d->in.kh ? p : b.d->in.kh - 1) + b.first;
}
LATHE_INLINE const int8_t* block_padding(const Block& b) { return static_cast<const int8_t*>(b.d->in.pad_row) + b.first; }

// An output row: residual (or null) and output of its first pixel.
struct Row {
  uint32_t i;
  const int8_t* residual;
  int8_t* y;
};
LATHE_INLINE Row row_of(const Block& b, uint32_t i) {
  const DwConvS8Args& d = *b.d;
  const int8_t* r = static_cast<const int8_t*>(d.residual);
  return {i, r == nullptr ? nullptr : r + static_cast<size_t>(i) * d.residual_row_step + b.c,
          static_cast<int8_t*>(d.y) + static_cast<size_t>(i) * d.y_row_step + b.c};
}

// Pixel x of a row.
template <bool kPlain>
LATHE_INLINE void finish(const Block& b, const Row& row, int32x4_t acc0, int32x4_t acc1, uint32_t x) {
  Scaled8 v = scaled(acc0, acc1, b.scale[0], b.scale[1]);
  if (!kPlain && row.residual != nullptr)
    v = with_residual(b.q, v, vld1_s8(row.residual + static_cast<size_t>(x) * b.d->residual_col_step));
  int8_t* y = row.y + static_cast<size_t>(x) * b.d->y_col_step;
  if (b.n >= 8) {
    vst1_s8(y, clamped8(b.q, v));
  } else {
    store_first(y, clamped8(b.q, v), b.n);
  }
}

// Tap (p, s) of 8 channels. Packed weights keep four kernel rows of a channel together: LD4 takes them apart.
LATHE_INLINE int16x8_t wide_weights(const Block& b, uint32_t p, uint32_t s) {
  const uint32_t quads = (b.d->in.kh + kGemmQuad - 1) / kGemmQuad;
  const int8x8x4_t rows = vld4_s8(b.w + static_cast<size_t>(s * quads + p / kGemmQuad) * 64);
  const int8x8_t low = p % 2 == 0 ? rows.val[0] : rows.val[1], high = p % 2 == 0 ? rows.val[2] : rows.val[3];
  return vmovl_s8(p % kGemmQuad < 2 ? low : high);
}

LATHE_INLINE void add_products(int32x4_t& acc0, int32x4_t& acc1, int16x8_t a, int16x8_t w) {
  acc0 = vmlal_s16(acc0, vget_low_s16(a), vget_low_s16(w));
  acc1 = vmlal_high_s16(acc1, a, w);
}

// What any_rows looks up once: widened weights, tap (p, s) at [p * kw + s], and the input rows of the current output row.
struct Taps {
  int16x8_t weights[kStoredTaps];
  const int8_t* rows[kStoredRows];
};

// kPixels pixels from x on. kLook (one pixel): columns may be outside of the image.
template <int kPixels, bool kLook>
LATHE_INLINE void any_pixels(const Block& b, const Taps& taps, const Row& row, uint32_t x) {
  const auto& in = b.d->in;
  const size_t next = static_cast<size_t>(in.stride_w) * in.col_step, step = static_cast<size_t>(in.dilation_w) * in.col_step;
  const int32_t left = in.col0 + static_cast<int32_t>(x * in.stride_w);
  int32x4_t acc[kPixels][2];
  LATHE_UNROLL
  for (int j = 0; j < kPixels; ++j) acc[j][0] = b.bias[0], acc[j][1] = b.bias[1];
  for (uint32_t p = 0, t = 0; p < in.kh; ++p) {
    const int8_t* a = p < kStoredRows ? taps.rows[p] : block_row(b, row.i, p);
    const int8_t* tap = a + static_cast<ptrdiff_t>(left) * in.col_step;
    for (uint32_t s = 0; s < in.kw; ++s, ++t, tap += step) {
      const int16x8_t w = t < kStoredTaps ? taps.weights[t] : wide_weights(b, p, s);
      const bool pad = kLook && !has_column(in, left + static_cast<int32_t>(s * in.dilation_w));
      const int8_t* from = pad ? block_padding(b) : tap;
      LATHE_UNROLL
      for (int j = 0; j < kPixels; ++j, from += next)
        add_products(acc[j][0], acc[j][1], vmovl_s8(vget_low_s8(load_channels<false>(b, from))), w);
    }
  }
  LATHE_UNROLL
  for (int j = 0; j < kPixels; ++j) finish<false>(b, row, acc[j][0], acc[j][1], x + static_cast<uint32_t>(j));
}

// Output pixels all of whose columns are in the image.
template <class In>
inline Interior whole_windows(const DwConvInput<In>& in, uint32_t cols) {
  const auto whole = [&](uint32_t x) {
    const int32_t left = in.col0 + static_cast<int32_t>(x * in.stride_w);
    return has_column(in, left) && has_column(in, left + static_cast<int32_t>((in.kw - 1) * in.dilation_w));
  };
  Interior r{0, cols};
  while (r.first < cols && !whole(r.first)) ++r.first;
  while (r.last > r.first && !whole(r.last - 1)) --r.last;
  return r;
}

void any_rows(const Block& b) {
  const auto& in = b.d->in;
  const uint32_t cols = b.d->cols;
  const Interior inside = whole_windows(in, cols);
  Taps taps;
  for (uint32_t t = 0; t < in.kh * in.kw && t < kStoredTaps; ++t) taps.weights[t] = wide_weights(b, t / in.kw, t % in.kw);
  for (uint32_t i = 0; i < b.d->rows; ++i) {
    const Row row = row_of(b, i);
    for (uint32_t p = 0; p < kStoredRows; ++p) taps.rows[p] = block_row(b, i, p);
    uint32_t x = 0;
    for (; x < inside.first; ++x) any_pixels<1, true>(b, taps, row, x);
    for (; x + 4 <= inside.last; x += 4) any_pixels<4, false>(b, taps, row, x);
    for (; x < cols; ++x) any_pixels<1, true>(b, taps, row, x);
  }
}

// Whether the kernel is a window of 3 columns and at most 3 rows that moves by one or two of its columns.
template <class In>
inline bool slides(const DwConvInput<In>& in) {
  return in.kw == 3 && in.kh <= 3 && (in.stride_w == in.dilation_w || in.stride_w == 2 * in.dilation_w);
}

// A window of 3 columns over one output row. M, the ISA file's, has Column; column(rows), which builds one from the lower halves
// of three rows; Weights, made from a block; and dot(weights, columns, accumulators), which adds all products.
template <class M, bool kPlain>
struct Window {
  const Block& b;
  const Row& row;
  const int8_t *a0, *a1, *a2;

  LATHE_INLINE Window(const Block& block, const Row& r)
      : b(block), row(r), a0(block_row(block, r.i, 0)), a1(block_row(block, r.i, 1)), a2(block_row(block, r.i, 2)) {}

  // Column s; kLook: it may be outside of the image.
  template <bool kLook>
  LATHE_INLINE typename M::Column column(int32_t s) const {
    if (kLook && !has_column(b.d->in, s)) {
      const int8x16_t v = load_channels<kPlain>(b, block_padding(b));
      return M::column(v, v, v);
    }
    const size_t at = static_cast<size_t>(s) * b.d->in.col_step;
    return M::column(load_channels<kPlain>(b, a0 + at), load_channels<kPlain>(b, a1 + at), load_channels<kPlain>(b, a2 + at));
  }

  LATHE_INLINE void pixel(const typename M::Weights& w, const typename M::Column& left, const typename M::Column& middle,
                          const typename M::Column& right, uint32_t x) const {
    int32x4_t acc0 = b.bias[0], acc1 = b.bias[1];
    M::dot(w, left, middle, right, acc0, acc1);
    finish<kPlain>(b, row, acc0, acc1, x);
  }
};

// Moves the window by kStep of its columns. Where no column needs a look, three (kStep 2: two) pixels take turns in which
// variable is which column.
template <class M, bool kPlain, int kStep>
LATHE_INLINE void sliding_row(const Block& b, const typename M::Weights& weights, const Interior& inside, const Row& row) {
  const Window<M, kPlain> w(b, row);
  const uint32_t cols = b.d->cols;
  const int32_t step = static_cast<int32_t>(b.d->in.dilation_w);
  int32_t at = b.d->in.col0;
  typename M::Column left = w.template column<true>(at), middle, right;
  if (kStep == 1) middle = w.template column<true>(at + step);
  const auto look = [&](uint32_t x) __attribute__((always_inline)) {
    if (kStep == 2) middle = w.template column<true>(at + step);
    right = w.template column<true>(at + 2 * step);
    w.pixel(weights, left, middle, right, x);
    left = kStep == 1 ? middle : right;
    middle = right;
    at += kStep * step;
  };
  uint32_t x = 0;
  for (; x < inside.first; ++x) look(x);
  if (kStep == 1) {
    for (; x + 3 <= inside.last; x += 3, at += 3 * step) {
      right = w.template column<false>(at + 2 * step);
      w.pixel(weights, left, middle, right, x);
      left = w.template column<false>(at + 3 * step);
      w.pixel(weights, middle, right, left, x + 1);
      middle = w.template column<false>(at + 4 * step);
      w.pixel(weights, right, left, middle, x + 2);
    }
  } else {
    for (; x + 2 <= inside.last; x += 2, at += 4 * step) {
      middle = w.template column<false>(at + step);
      right = w.template column<false>(at + 2 * step);
      w.pixel(weights, left, middle, right, x);
      middle = w.template column<false>(at + 3 * step);
      left = w.template column<false>(at + 4 * step);
      w.pixel(weights, right, middle, left, x + 1);
    }
  }
  for (; x < cols; ++x) look(x);
}

// The constants are locals: what lies in memory would be read again after every store of bytes, which may alias anything.
template <class M, bool kPlain, int kStep>
__attribute__((noinline)) void sliding_rows(const Block& block) {
  const DwConvS8Args d = *block.d;
  Block b = block;
  b.d = &d;
  const typename M::Weights weights(b);
  const Interior inside = interior(d.in, d.cols, kStep);
  for (uint32_t i = 0; i < d.rows; ++i) {
    const Row row = row_of(b, i);
    sliding_row<M, kPlain, kStep>(b, weights, inside, row);
  }
}

template <class M>
LATHE_INLINE void dwconv_s8(const DwConvS8Args& d) {
  const bool sliding = slides(d.in), one = d.in.stride_w == d.in.dilation_w;
  for (uint32_t c = 0; c < d.n; c += 8) {
    const Block b = block_at(d, c);
    if (!sliding) {
      any_rows(b);
    } else if (b.plain) {
      one ? sliding_rows<M, true, 1>(b) : sliding_rows<M, true, 2>(b);
    } else {
      one ? sliding_rows<M, false, 1>(b) : sliding_rows<M, false, 2>(b);
    }
  }
}

}  // namespace
}  // namespace lathe::kernels
