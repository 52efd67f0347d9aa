// The element types of convolutions, plain and transposed, and of FullyConnected: what a kernel call takes from the step's operands
// (conv_params.h) for each. Used by exec files only.
#pragma once
#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/gemm.h"
#include "runtime/exec/conv_params.h"

namespace lathe {

using kernels::kGemmPanel;

// The element types: what a kernel call needs from the step's operands. Real: float, or halves in their bits.
template <class Real>
struct FloatPath {
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

struct QuantizedPath {
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

}  // namespace lathe
