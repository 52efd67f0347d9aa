// The element types of convolutions, plain and transposed, and of FullyConnected: what a kernel call takes from the step's operands
// (conv_params.h) for each. Used by exec files only.
#pragma once
#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm_sparse/gemm_sparse.h"
#include "runtime/exec/conv_params.h"

namespace lathe {

using kernels::kGemmPanel;

// Where a call finds its weights: in `panel` of the packed ones, from position `at` of the panel on.
struct DenseWeights {
  // What quads of k are counted from, in elements from where a tap starts: the tap itself.
  static uint32_t tap_in_segment(uint32_t) { return 0; }
  template <class Args, class W>
  static void set_weights(const W* w, uint32_t panel, uint32_t at, Args* g) {
    g->w = w + static_cast<size_t>(panel) * g->geo.w_panel_step + at;
  }
  // Taps that a segment of the call spans.
  template <class Args> static void set_taps(const ConvParams&, uint32_t, Args*) {}
};

// The element types: what a kernel call needs from the step's operands. Real: float, or halves in their bits.
template <class Real>
struct FloatPath : DenseWeights {
  using T = Real;
  using W = Real;
  using GemmArgs = kernels::GemmRealArgs<T>;
  using GemmFn = void (*)(const GemmArgs&);
  using DwArgs = kernels::DwConvRealArgs<T>;
  using DwFn = void (*)(const DwArgs&);

  const float* bias;

  FloatPath(const RunContext& ctx, const BoundStep& s) : bias(ctx.in<float>(s, kConvBiasF32)) {}
  static const T* residual(const RunContext& ctx, const BoundStep& s) {
    return s.n_in > conv_residual(false) ? ctx.in<T>(s, conv_residual(false)) : nullptr;
  }
  // Packed elements of one segment of a panel.
  static uint32_t gemm_seg_elems(const ConvParams& p) { return kernels::gemm_f32_panel_elems(1, p.seg_k); }
  // The same of a tap of tap_k elements, of a kernel row that is packed as one segment.
  static uint32_t gemm_tap_elems(uint32_t tap_k) { return tap_k * kGemmPanel; }
  static uint32_t dw_panel_elems(const ConvParams& p) { return p.h.kernel * p.w.kernel * kGemmPanel; }
  // Everything that is the same for all calls of a step.
  template <class Args>
  static void set_constants(const ConvParams& p, Args* a) {
    a->lo = p.lo;
    a->hi = p.hi;
  }
  // Per-channel operands from channel c on (in the padded numbering).
  template <class Args>
  void set_channels(uint32_t c, Args* a, size_t = 0) const {
    a->bias = bias == nullptr ? nullptr : bias + c;
  }
  static void fill(const ConvParams&, T* to, uint32_t n) { __builtin_memset(to, 0, n * sizeof(T)); }
};

struct QuantizedPath : DenseWeights {
  using T = uint8_t;  // s8 or u8: kernels know
  using W = int8_t;
  using GemmArgs = kernels::GemmS8Args;
  using GemmFn = kernels::GemmS8Fn;
  using DwArgs = kernels::DwConvS8Args;
  using DwFn = kernels::DwConvS8Fn;

  const int32_t* bias;
  const float* scale;

  QuantizedPath(const RunContext& ctx, const BoundStep& s)
      : bias(ctx.in<int32_t>(s, ctx.storage() == kernels::Storage::kU8 ? kConvBiasU8 : kConvBiasS8)),
        scale(ctx.in<float>(s, kConvScale)) {}
  static const uint8_t* residual(const RunContext& ctx, const BoundStep& s) {
    return s.n_in > conv_residual(true) ? ctx.in<uint8_t>(s, conv_residual(true)) : nullptr;
  }
  static uint32_t gemm_seg_elems(const ConvParams& p) { return kernels::gemm_s8_panel_bytes(1, p.seg_k); }
  static uint32_t gemm_tap_elems(uint32_t tap_k) { return tap_k * kGemmPanel; }
  static uint32_t dw_panel_elems(const ConvParams& p) {
    return kernels::dwconv_s8_packed_bytes(kGemmPanel, p.h.kernel, p.w.kernel);
  }
  template <class Args>
  static void set_constants(const ConvParams& p, Args* a) {
    a->zero_point = p.zero_point;
    a->lo = p.lo_q;
    a->hi = p.hi_q;
    a->residual_zero = p.residual_zero;
    a->residual_scale = p.residual_scale;
  }
  // first_bias: where the set of folded biases that this call needs begins.
  template <class Args>
  void set_channels(uint32_t c, Args* a, size_t first_bias = 0) const {
    a->bias = bias + first_bias + c;
    a->scale = scale + c;
  }
  static void fill(const ConvParams& p, uint8_t* to, uint32_t n) { __builtin_memset(to, p.pad_value, n); }
};

// Block-sparse weights: positions in a panel are pieces, and quads of k are counted from the packed segment that a tap lies in.
struct SparsePath : QuantizedPath {
  using GemmArgs = kernels::GemmSparseS8Args;
  using GemmFn = kernels::GemmSparseS8Fn;

  using QuantizedPath::QuantizedPath;
  static uint32_t gemm_seg_elems(const ConvParams& p) { return p.pieces / p.segs; }
  static uint32_t gemm_tap_elems(uint32_t) { return 1; }
  static uint32_t tap_in_segment(uint32_t tap_k) { return tap_k; }
  static void set_weights(const int8_t* w, uint32_t panel, uint32_t at, GemmArgs* g) {
    g->w = w;
    g->first_panel = panel;
    g->first_piece = at;
  }
  static void set_taps(const ConvParams& p, uint32_t taps, GemmArgs* g) { g->seg_pieces = p.pieces == p.segs ? 1 : taps; }
  using QuantizedPath::set_constants;
  static void set_constants(const ConvParams& p, GemmArgs* g) {
    QuantizedPath::set_constants(p, g);
    g->pieces = p.pieces;
  }
};

}  // namespace lathe
