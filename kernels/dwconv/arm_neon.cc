// Depthwise convolution for NEON: s8 storage, float and half precision.
//
// 8-bit (arm_neon_rows.h): for kernels of 3 columns the widened window stays in registers while it slides. A 3x3 window at stride
// 1 takes 3 loads, 3 SXTL and 18 SMLAL per pixel of 8 channels, with requantization and all else 56 instructions for 72 products,
// four of which load a weight again.
//
// Float, and half precision widened by FCVTL as it is loaded, 4 channels at a time: one accumulator per element that takes the
// taps row by row, two pixels (other than 3x3: four) at a time so that their sums overlap. Two pixels of a 3x3 window at stride 1
// take 6 loads and 18 FMLA, all in all 52 instructions each.
#include "kernels/dwconv/arm_neon_rows.h"
#include "kernels/math/arm_neon_storage.h"

namespace lathe::kernels {
namespace {

struct Multiply {
  struct Column {
    int16x8_t v[3];
  };
  LATHE_INLINE static Column column(int8x16_t r0, int8x16_t r1, int8x16_t r2) {
    return {{vmovl_s8(vget_low_s8(r0)), vmovl_s8(vget_low_s8(r1)), vmovl_s8(vget_low_s8(r2))}};
  }

  // Rows past the kernel weigh nothing.
  struct Weights {
    int16x8_t v[3][3];
    LATHE_INLINE explicit Weights(const Block& b) {
      LATHE_UNROLL
      for (uint32_t t = 0; t < 9; ++t) v[t / 3][t % 3] = t / 3 < b.d->in.kh ? wide_weights(b, t / 3, t % 3) : vdupq_n_s16(0);
    }
  };

  LATHE_INLINE static void dot(const Weights& w, const Column& left, const Column& middle, const Column& right, int32x4_t& acc0,
                               int32x4_t& acc1) {
    LATHE_UNROLL
    for (int p = 0; p < 3; ++p) {
      add_products(acc0, acc1, left.v[p], w.v[p][0]);
      add_products(acc0, acc1, middle.v[p], w.v[p][1]);
      add_products(acc0, acc1, right.v[p], w.v[p][2]);
    }
  }
};

// Four channels of an output row in float or half precision; `channels`: for each its place in an input pixel.
template <class T> struct RealRow {
  const DwConvRealArgs<T>* d;
  uint32_t i, c, n;
  uint32_t channels[4];
  const T* w;  // taps 16 apart
  float32x4_t bias;
  const T* residual;
  T* y;
};

template <bool kExpand, class T>
LATHE_INLINE float32x4_t load_channels(const RealRow<T>& r, const T* pixel) {
  if (!kExpand) return load4(pixel + r.c);
  const T v[4] = {pixel[r.channels[0]], pixel[r.channels[1]], pixel[r.channels[2]], pixel[r.channels[3]]};
  return load4(v);
}

template <class T>
LATHE_INLINE void finish_real(const RealRow<T>& r, float32x4_t v, uint32_t x) {
  if (r.residual != nullptr) v = vaddq_f32(v, load4(r.residual + static_cast<size_t>(x) * r.d->residual_col_step));
  store4(r.y + static_cast<size_t>(x) * r.d->y_col_step, clamp_with_nan(v, vdupq_n_f32(r.d->lo), vdupq_n_f32(r.d->hi)), r.n);
}

// kPixels pixels from x on. kLook: columns may be outside of the image. kExpand: an input channel stands for several.
template <int kPixels, bool kLook, bool kExpand, class T>
LATHE_INLINE void real_pixels(const RealRow<T>& r, uint32_t x) {
  const auto& in = r.d->in;
  const size_t next = static_cast<size_t>(in.stride_w) * in.col_step;
  const int32_t left = in.col0 + static_cast<int32_t>(x * in.stride_w);
  const T* w = r.w;
  float32x4_t acc[kPixels];
  LATHE_UNROLL
  for (int j = 0; j < kPixels; ++j) acc[j] = r.bias;
  for (uint32_t p = 0; p < in.kh; ++p) {
    const T* a = input_row<T>(in, r.i, p);
    for (uint32_t s = 0; s < in.kw; ++s, w += 16) {
      const int32_t column = left + static_cast<int32_t>(s * in.dilation_w);
      const T* tap = kLook && !has_column(in, column) ? in.pad_row : a + static_cast<ptrdiff_t>(column) * in.col_step;
      const float32x4_t weight = load4(w);
      LATHE_UNROLL
      for (int j = 0; j < kPixels; ++j)
        acc[j] = vfmaq_f32(acc[j], load_channels<kExpand>(r, tap + static_cast<size_t>(j) * next), weight);
    }
  }
  LATHE_UNROLL
  for (int j = 0; j < kPixels; ++j) finish_real(r, acc[j], x + static_cast<uint32_t>(j));
}

// A 3x3 window that moves by kStep of its columns, two pixels at a time.
template <int kStep, class T>
class RealWindow {
 public:
  struct Column {
    float32x4_t v[3];
  };
  static constexpr int kColumns = kStep + 3, kKept = 3 - kStep;

  LATHE_INLINE RealWindow(const RealRow<T>& r, uint32_t x)
      : r_(r),
        a0_(input_row<T>(r.d->in, r.i, 0) + r.c),
        a1_(input_row<T>(r.d->in, r.i, 1) + r.c),
        a2_(input_row<T>(r.d->in, r.i, 2) + r.c),
        at_(r.d->in.col0 + static_cast<int32_t>(x * r.d->in.stride_w)),
        step_(static_cast<int32_t>(r.d->in.dilation_w)) {
    LATHE_UNROLL
    for (int t = 0; t < 9; ++t) weights_[t] = load4(r.w + 16 * t);
    LATHE_UNROLL
    for (int s = 0; s < kKept; ++s) columns_[s] = column(at_ + s * step_);
  }

  LATHE_INLINE void pair(uint32_t x) {
    LATHE_UNROLL
    for (int s = kKept; s < kColumns; ++s) columns_[s] = column(at_ + s * step_);
    float32x4_t acc[2] = {r_.bias, r_.bias};
    LATHE_UNROLL
    for (int t = 0; t < 9; ++t) {
      acc[0] = vfmaq_f32(acc[0], columns_[t % 3].v[t / 3], weights_[t]);
      acc[1] = vfmaq_f32(acc[1], columns_[t % 3 + kStep].v[t / 3], weights_[t]);
    }
    finish_real(r_, acc[0], x);
    finish_real(r_, acc[1], x + 1);
    LATHE_UNROLL
    for (int s = 0; s < kKept; ++s) columns_[s] = columns_[2 * kStep + s];
    at_ += 2 * kStep * step_;
  }

 private:
  LATHE_INLINE Column column(int32_t s) const {
    const size_t at = static_cast<size_t>(s) * r_.d->in.col_step;
    return {{load4(a0_ + at), load4(a1_ + at), load4(a2_ + at)}};
  }

  const RealRow<T>& r_;
  const T *a0_, *a1_, *a2_;
  int32_t at_;
  const int32_t step_;
  float32x4_t weights_[9];
  Column columns_[kColumns];
};

// kStep: of a 3x3 window without channel multiplier, in its columns; 0: any kernel.
template <int kStep, bool kExpand, class T>
__attribute__((noinline)) void real_row(const RealRow<T>& r, const Interior& inside) {
  uint32_t x = 0;
  for (; x < inside.first; ++x) real_pixels<1, true, kExpand>(r, x);
  if constexpr (kStep == 0) {
    for (; x + 4 <= inside.last; x += 4) real_pixels<4, false, kExpand>(r, x);
  } else if (x + 2 <= inside.last) {
    RealWindow<kStep, T> window(r, x);
    for (; x + 2 <= inside.last; x += 2) window.pair(x);
  }
  for (; x < r.d->cols; ++x) real_pixels<1, true, kExpand>(r, x);
}

template <class T> void dwconv_real(const DwConvRealArgs<T>& d) {
  const size_t panel_elems = static_cast<size_t>(d.in.kh) * d.in.kw * kGemmPanel;
  const Interior inside = whole_windows(d.in, d.cols);
  const bool expand = d.multiplier != 1, sliding = !expand && slides(d.in) && d.in.kh == 3;
  const bool one = d.in.stride_w == d.in.dilation_w;
  for (uint32_t i = 0; i < d.rows; ++i) {
    for (uint32_t c = 0; c < d.n; c += 4) {
      RealRow<T> r{&d, i, c, d.n - c, {}, d.w + c / 16 * panel_elems + c % 16, vdupq_n_f32(0),
                 d.residual == nullptr ? nullptr : d.residual + static_cast<size_t>(i) * d.residual_row_step + c,
                 d.y + static_cast<size_t>(i) * d.y_row_step + c};
      if (d.bias != nullptr) r.bias = vld1q_f32(d.bias + c);
      // Channels that are not there repeat the last one.
      for (uint32_t k = 0; k < 4; ++k) r.channels[k] = (c + k < d.n ? c + k : d.n - 1) / d.multiplier;
      if (sliding) {
        one ? real_row<1, false>(r, inside) : real_row<2, false>(r, inside);
      } else {
        expand ? real_row<0, true>(r, inside) : real_row<0, false>(r, inside);
      }
    }
  }
}

}  // namespace

void dwconv_s8s8s32_8_arm_neon(const DwConvS8Args& d) { dwconv_s8<Multiply>(d); }

void dwconv_f32_4_arm_neon(const DwConvF32Args& d) { dwconv_real(d); }
void dwconv_f16_4_arm_neon(const DwConvF16Args& d) { dwconv_real(d); }

}  // namespace lathe::kernels
