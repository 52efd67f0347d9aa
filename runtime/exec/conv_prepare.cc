#include "kernels/gemm/gemm.h"
#include "lathe/arith.h"
#include "runtime/exec/conv_params.h"
#include "runtime/exec/conv_winograd.h"

namespace lathe {
namespace {

bool has_sparse_weights(const PrepareInput& in) {
  return in.has(kConvW) && in.tensor(kConvW).layout == Layout::kGemmSparseS8;
}

// Block-sparse weights: constant, of one group, every table and block in its bounds.
Status check_sparse_weights(const PrepareInput& in, const ConvPacking& packing) {
  const ProgramTensor& t = in.tensor(kConvW);
  if (t.kind != TensorKind::kConstant)
    return {Code::kUnsupported, 0, static_cast<uint32_t>(TensorKind::kConstant), static_cast<uint32_t>(t.kind)};
  if (t.dtype != DType::kS8) return {Code::kUnsupported, 0, static_cast<uint32_t>(DType::kS8), static_cast<uint32_t>(t.dtype)};
  if (packing.depthwise || packing.groups != 1)
    return {Code::kUnsupported, 0, static_cast<uint32_t>(Layout::kGemmS8), static_cast<uint32_t>(t.layout)};
  const auto* packed = reinterpret_cast<const int8_t*>(in.program->constant(t));
  if (!kernels::gemm_sparse_s8_valid(packed, t.stored_bytes, packing.sparse_shape()))
    return {Code::kCorrupt, 0, packing.packed_s8_bytes(), t.stored_bytes};
  return {};
}

// A constant operand, or one that a Pack made, with a layout and a stored size.
Status check_constant(const PrepareInput& in, uint32_t operand, DType dtype, Layout layout, uint32_t bytes) {
  if (!in.has(operand)) return {Code::kCorrupt, 0, operand, 0};
  const ProgramTensor& t = in.tensor(operand);
  if (t.kind != TensorKind::kConstant && !is_packed_temporary(t))
    return {Code::kUnsupported, 0, static_cast<uint32_t>(TensorKind::kConstant), static_cast<uint32_t>(t.kind)};
  if (t.dtype != dtype) return {Code::kUnsupported, 0, static_cast<uint32_t>(dtype), static_cast<uint32_t>(t.dtype)};
  if (t.layout != layout) return {Code::kUnsupported, 0, static_cast<uint32_t>(layout), static_cast<uint32_t>(t.layout)};
  if (t.stored_bytes != bytes) return {Code::kCorrupt, 0, bytes, t.stored_bytes};
  return {};
}

// Weights that a Pack made ready for tiles say so themselves.
bool takes_winograd(const PrepareInput& in, const ConvPacking& packing) {
  return in.has(kConvW) && in.tensor(kConvW).layout == Layout::kWinogradF32 && packing.kh == 3 && packing.kw == 3 &&
         packing.groups == 1 && !packing.depthwise;
}
Status check_winograd_weights(const PrepareInput& in, const ConvPacking& packing) {
  if (packing.packed_f32_elems() > 0x7fffffff / 16) return {Code::kOutOfMemory, 0, 0xffffffffu, 0};
  return check_constant(in, kConvW, DType::kF32, Layout::kWinogradF32,
                        kernels::winograd_packed_elems(packing.n, packing.segs * packing.seg_k / 9) * 4);
}

// `dtype`: f32 or f16.
Status check_float_operands(const PrepareInput& in, const ConvPacking& packing, DType dtype) {
  const bool half = dtype == DType::kF16;
  const Layout layout = packing.depthwise ? (half ? Layout::kDwConvF16 : Layout::kDwConvF32)
                                          : (half ? Layout::kGemmF16 : Layout::kGemmF32);
  const Status s = takes_winograd(in, packing)
                       ? check_winograd_weights(in, packing)
                       : check_constant(in, kConvW, dtype, layout, packing.packed_f32_elems() * dtype_bytes(dtype));
  if (!s.ok() || !in.has(kConvBiasF32)) return s;
  return check_constant(in, kConvBiasF32, DType::kF32, Layout::kPadded16, packing.vector_elems() * 4);
}

Status check_s8_operands(const PrepareInput& in, const ConvPacking& packing, uint32_t bias_sets) {
  const Layout layout = packing.depthwise ? Layout::kDwConvS8 : Layout::kGemmS8;
  const Status s = has_sparse_weights(in) ? check_sparse_weights(in, packing)
                                          : check_constant(in, kConvW, DType::kS8, layout, packing.packed_s8_bytes());
  if (!s.ok()) return s;
  const uint32_t bias_bytes = bias_sets * packing.vector_elems() * 4;
  const Status bias_s8 = check_constant(in, kConvBiasS8, DType::kS32, Layout::kPadded16, bias_bytes);
  if (!bias_s8.ok()) return bias_s8;
  const Status bias_u8 = check_constant(in, kConvBiasU8, DType::kS32, Layout::kPadded16, bias_bytes);
  if (!bias_u8.ok()) return bias_u8;
  return check_constant(in, kConvScale, DType::kF32, Layout::kPadded16, packing.vector_elems() * 4);
}

// Real bounds become quantized ones; infinite bounds become the type's.
void set_quantization(const PrepareInput& in, float lo, float hi, ConvParams* p) {
  const QuantParams x = in.quant(kConvX), y = in.quant(in.out());
  p->pad_value = x.zero_point;
  p->zero_point = y.zero_point;
  p->lo_q = quantize(lo, y.scale, y.zero_point, y.qmin, y.qmax);
  p->hi_q = quantize(hi, y.scale, y.zero_point, y.qmin, y.qmax);
  const uint32_t residual = conv_residual(true);
  if (!in.has(residual)) return;
  const QuantParams r = in.quant(residual);
  p->residual_zero = r.zero_point;
  p->residual_scale = static_cast<float>(static_cast<double>(r.scale) / static_cast<double>(y.scale));
}

}  // namespace

Status prepare_conv_operands(const PrepareInput& in, const ConvPacking& packing, float lo, float hi, ConvParams* p,
                             uint32_t bias_sets) {
  const DType dtype = in.tensor(kConvX).dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kS8)
    return {Code::kUnsupported, 0, static_cast<uint32_t>(DType::kS8), static_cast<uint32_t>(dtype)};
  p->quantized = dtype == DType::kS8 ? 1 : 0;
  p->elem_bytes = dtype_bytes(dtype);
  // Before any size is computed in 32 bits.
  const uint64_t k_all = packing.depthwise
                             ? static_cast<uint64_t>(packing.kw) * ((packing.kh + 3) / 4 * 4)
                             : static_cast<uint64_t>(packing.segs) * ((static_cast<uint64_t>(packing.seg_k) + 3) / 4 * 4);
  const uint64_t channels = (static_cast<uint64_t>(packing.n) + 15) / 16 * 16 * packing.groups;
  if (k_all > 0x7fffffff || channels > 0x7fffffff || k_all * channels > 0x7fffffff / 4 || bias_sets * channels > 0x7fffffff / 4)
    return {Code::kOutOfMemory, 0, 0xffffffffu, 0};
  const Status s =
      p->quantized != 0 ? check_s8_operands(in, packing, bias_sets) : check_float_operands(in, packing, dtype);
  if (!s.ok()) return s;
  const uint32_t residual = conv_residual(p->quantized != 0);
  const uint32_t like_x[] = {in.out(), residual};  // dtype and, for 8 bits, quantization parameters
  for (const uint32_t i : like_x) {
    if (i == residual && !in.has(i)) continue;
    if (in.tensor(i).dtype != dtype)
      return {Code::kUnsupported, 0, static_cast<uint32_t>(dtype), static_cast<uint32_t>(in.tensor(i).dtype)};
    if (p->quantized != 0 && (in.tensor(i).flags & kTensorHasQuant) == 0)
      return {Code::kCorrupt, 0, kTensorHasQuant, in.tensor(i).flags};
    if (!(in.shape(i) == in.shape(in.out()))) return {Code::kCorrupt, 0, in.shape(in.out()).elems(), in.shape(i).elems()};
  }
  if (p->quantized != 0 && (in.tensor(kConvX).flags & kTensorHasQuant) == 0)
    return {Code::kCorrupt, 0, kTensorHasQuant, in.tensor(kConvX).flags};
  p->groups = packing.groups;
  p->n = packing.n;
  p->segs = packing.segs;
  p->seg_k = packing.seg_k;
  p->oc = packing.groups * packing.n;
  p->pieces = has_sparse_weights(in) ? packing.sparse_shape().pieces() : 0;
  if (p->quantized == 0) {
    p->lo = lo;
    p->hi = hi;
    return {};
  }
  set_quantization(in, lo, hi, p);
  return {};
}

namespace {

// Largest size of anything along the way; keeps 32-bit arithmetic exact.
constexpr uint64_t kMaxElems = 0x7fffffff / 8;

struct Axis {
  int64_t in, out, kernel, stride, dilation, before, after;
};

// Whether a convolution axis is consistent: positive steps, pads not negative, and the output that the op's shape rule gives.
Status check_axis(const Axis& a) {
  constexpr int64_t kMost = 1 << 24;
  const int64_t positive[] = {a.kernel, a.stride, a.dilation}, not_negative[] = {a.before, a.after};
  for (const int64_t v : positive) {
    if (v < 1 || v > kMost) return {Code::kInvalidArgument, 0, 1, static_cast<uint32_t>(v)};
  }
  for (const int64_t v : not_negative) {
    if (v < 0 || v > kMost) return {Code::kInvalidArgument, 0, 0, static_cast<uint32_t>(v)};
  }
  const int64_t left = a.in + a.before + a.after - ((a.kernel - 1) * a.dilation + 1);
  const int64_t out = left < 0 ? 0 : left / a.stride + 1;
  if (out != a.out) return {Code::kCorrupt, 0, static_cast<uint32_t>(out), static_cast<uint32_t>(a.out)};
  return {};
}

// x, w and y agree on ranks, channels and pixels.
Status check_geometry(const Conv2dAttrs& attrs, const Shape& x, const Shape& w, const Shape& y) {
  if (x.rank != 4 || w.rank != 4 || y.rank != 4) return {Code::kCorrupt, 0, 4, x.rank};
  if (attrs.groups < 1 || w[0] < 1 || w[3] < 1 || w[0] % attrs.groups != 0)
    return {Code::kCorrupt, 0, static_cast<uint32_t>(attrs.groups), static_cast<uint32_t>(w[0])};
  const int64_t ic = static_cast<int64_t>(w[3]) * attrs.groups;
  if (ic != x[3]) return {Code::kCorrupt, 0, static_cast<uint32_t>(ic), static_cast<uint32_t>(x[3])};
  if (y[3] != w[0] || y[0] != x[0]) return {Code::kCorrupt, 0, static_cast<uint32_t>(w[0]), static_cast<uint32_t>(y[3])};
  const Status rows = check_axis({x[1], y[1], w[1], attrs.stride[0], attrs.dilation[0], attrs.pad[0], attrs.pad[2]});
  return rows.ok() ? check_axis({x[2], y[2], w[2], attrs.stride[1], attrs.dilation[1], attrs.pad[1], attrs.pad[3]}) : rows;
}

void set_geometry(const Conv2dAttrs& attrs, const Shape& x, const Shape& w, const Shape& y, ConvParams* p) {
  const auto axis = [&](uint32_t i) {
    return conv_axis(static_cast<uint32_t>(x[1 + i]), static_cast<uint32_t>(y[1 + i]), static_cast<uint32_t>(w[1 + i]),
                     static_cast<uint32_t>(attrs.stride[i]), static_cast<uint32_t>(attrs.dilation[i]),
                     static_cast<uint32_t>(attrs.pad[i]));
  };
  p->images = static_cast<uint32_t>(x[0]);
  p->ic = static_cast<uint32_t>(x[3]);
  p->h = axis(0);
  p->w = axis(1);
}

}  // namespace

Status prepare_Conv2d(const PrepareInput& in, Prepared* out) {
  const auto attrs = in.program->attrs<Conv2dAttrs>(*in.step);
  const Shape &x = in.shape(kConvX), &w = in.shape(kConvW), &y = in.shape(in.out());
  Status s = check_geometry(attrs, x, w, y);
  if (!s.ok()) return s;
  const uint64_t padded_row =
      (static_cast<uint64_t>(x[2]) + static_cast<uint64_t>(attrs.pad[1]) + static_cast<uint64_t>(attrs.pad[3])) *
      static_cast<uint64_t>(x[3]);
  const uint64_t padded =
      padded_row * (static_cast<uint64_t>(x[1]) + static_cast<uint64_t>(attrs.pad[0]) + static_cast<uint64_t>(attrs.pad[2]));
  const uint64_t taps = static_cast<uint64_t>(w[1]) * static_cast<uint64_t>(w[2]);
  if (padded > kMaxElems || padded_row > kMaxElems || taps > (1u << 20))
    return {Code::kUnsupported, 0, static_cast<uint32_t>(kMaxElems), static_cast<uint32_t>(padded)};

  auto& p = out->make<ConvParams>();
  if (in.tensor(kConvX).dtype == DType::kS16) {
    set_geometry(attrs, x, w, y, &p);
    return prepare_wide_conv(in, {p.images, static_cast<uint32_t>(attrs.groups), p.h, p.w, attrs.lo, attrs.hi}, &p, out);
  }
  const ConvPacking packing = conv_packing(attrs, static_cast<uint32_t>(w[0]), static_cast<uint32_t>(w[1]),
                                           static_cast<uint32_t>(w[2]), static_cast<uint32_t>(w[3]));
  s = prepare_conv_operands(in, packing, attrs.lo, attrs.hi, &p);
  if (!s.ok()) return s;
  p.mode = packing.depthwise ? ConvMode::kDepthwise : ConvMode::kDense;
  p.multiplier = packing.depthwise ? p.oc / static_cast<uint32_t>(x[3]) : 1;
  set_geometry(attrs, x, w, y, &p);
  if (in.tensor(kConvW).layout == Layout::kWinogradF32) return prepare_winograd(in, &p, out);
  p.border = choose_border(p);
  const bool pointwise = taps == 1 && p.border == ConvBorder::kNone && p.h.stride == 1 && p.w.stride == 1;
  if (!packing.depthwise && packing.groups == 1 && pointwise) p.mode = ConvMode::kMatrix;
  set_pixels(in, &p, out);
  s = cut_conv_tasks(in, packing, &p, out);
  if (!s.ok()) return s;

  const kernels::Family family = conv_family(p, packing.depthwise);
  if (!out->use(kernels::select(family, p.quantized != 0 ? in.storage : kernels::Storage::kS8, in.isa)))
    return {Code::kUnsupported, 0, 0, static_cast<uint32_t>(family)};
  return {};
}

}  // namespace lathe
