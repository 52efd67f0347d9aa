// The loops of run-time packing, over what an instruction set does to vectors. Included by this family's ISA files only, after their
// types. Where a row of b holds columns of the product, four rows are interleaved to quads of k; where it holds k (a transposed
// right-hand matrix), sixteen rows are transposed in squares of four 32-bit elements, a quad of k each.
//
// A Bytes type is made from (b, flip) and has: V, 16 bytes; load(p, count): `count` bytes at p with their top bits turned as flip
// says, zeros behind them, nothing read for count 0; interleave(r, c): of rows r[0 .. 3] the quads of columns, four a vector;
// transpose4(r): turns a square of 32-bit elements. A Panel type is made from where packed weights go and has put(c0, c1, c2, c3):
// the next quad of columns 0 .. 3, 4 .. 7 and so on, which also adds to the columns' sums; store_bias(bias, factor). A Floats type has
// V, kWidth floats; load(p, count, scale): the first `count` floats at p, scaled, zeros behind them, nothing read for count 0;
// store(p, v); transpose(r): turns a square of kWidth.
#pragma once
#include "kernels/gemm_pack/gemm_pack.h"
#include "kernels/simd.h"

namespace lathe::kernels {
namespace {

// Rows of b run along the columns of the product.
template <class Bytes, class Panel>
void pack_rows(const GemmPackS8Args& g, const Bytes& s, uint32_t columns, Panel* out) {
  for (uint32_t k = 0; k < g.k; k += kGemmQuad) {
    typename Bytes::V r[4], c[4];
    LATHE_UNROLL
    for (uint32_t i = 0; i < 4; ++i) r[i] = s.load(s.b + static_cast<size_t>(k + i) * g.k_stride, k + i < g.k ? columns : 0);
    Bytes::interleave(r, c);
    out->put(c[0], c[1], c[2], c[3]);
  }
}

// Rows of b run along k: 16 columns of the product by 16 k at a time.
template <class Bytes, class Panel>
void pack_columns(const GemmPackS8Args& g, const Bytes& s, uint32_t columns, Panel* out) {
  for (uint32_t k = 0; k < g.k; k += 16) {
    const uint32_t count = g.k - k < 16 ? g.k - k : 16;
    typename Bytes::V r[16];
    LATHE_UNROLL
    for (uint32_t c = 0; c < 16; ++c) r[c] = s.load(s.b + static_cast<size_t>(c) * g.n_stride + k, c < columns ? count : 0);
    LATHE_UNROLL
    for (uint32_t c = 0; c < 16; c += 4) Bytes::transpose4(r + c);
    LATHE_UNROLL
    for (uint32_t q = 0; q < 4; ++q) {
      if (q * kGemmQuad < count) out->put(r[q], r[4 + q], r[8 + q], r[12 + q]);
    }
  }
}

template <class Bytes, class Panel>
void gemm_pack_s8(const GemmPackS8Args& g) {
  const size_t panel_bytes = gemm_s8_panel_bytes(1, g.k);
  for (uint32_t c = 0; c < g.n; c += kGemmPanel) {
    const uint32_t columns = g.n - c < kGemmPanel ? g.n - c : kGemmPanel;
    const Bytes s(static_cast<const uint8_t*>(g.b) + static_cast<size_t>(c) * g.n_stride, g.flip);
    Panel out(g.packed + c / kGemmPanel * panel_bytes);
    if (g.k_stride == 1) {
      pack_columns(g, s, columns, &out);
    } else {
      pack_rows(g, s, columns, &out);
    }
    out.store_bias(g.bias + c, g.bias_factor);
  }
}

template <class Floats>
void pack_float_rows(const GemmPackF32Args& g, const float* b, uint32_t columns, float* packed) {
  for (uint32_t k = 0; k < g.k; ++k, b += g.k_stride, packed += kGemmPanel) {
    LATHE_UNROLL
    for (uint32_t c = 0; c < kGemmPanel; c += Floats::kWidth)
      Floats::store(packed + c, Floats::load(b + c, columns > c ? columns - c : 0, g.scale));
  }
}

template <class Floats>
void pack_float_columns(const GemmPackF32Args& g, const float* b, uint32_t columns, float* packed) {
  constexpr uint32_t kWidth = Floats::kWidth;
  for (uint32_t first = 0; first < kGemmPanel; first += kWidth) {
    for (uint32_t k = 0; k < g.k; k += kWidth) {
      const uint32_t count = g.k - k < kWidth ? g.k - k : kWidth;
      typename Floats::V r[kWidth];
      LATHE_UNROLL
      for (uint32_t i = 0; i < kWidth; ++i) {
        const uint32_t c = first + i;
        r[i] = Floats::load(b + static_cast<size_t>(c) * g.n_stride + k, c < columns ? count : 0, g.scale);
      }
      Floats::transpose(r);
      for (uint32_t i = 0; i < count; ++i) Floats::store(packed + static_cast<size_t>(k + i) * kGemmPanel + first, r[i]);
    }
  }
}

template <class Floats>
void gemm_pack_f32(const GemmPackF32Args& g) {
  for (uint32_t c = 0; c < g.n; c += kGemmPanel) {
    const uint32_t columns = g.n - c < kGemmPanel ? g.n - c : kGemmPanel;
    const float* b = g.b + static_cast<size_t>(c) * g.n_stride;
    float* packed = g.packed + static_cast<size_t>(c / kGemmPanel) * g.k * kGemmPanel;
    if (g.k_stride == 1) {
      pack_float_columns<Floats>(g, b, columns, packed);
    } else {
      pack_float_rows<Floats>(g, b, columns, packed);
    }
  }
}

}  // namespace
}  // namespace lathe::kernels
