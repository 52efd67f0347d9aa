#include "runtime/exec/conv_geometry.h"

#include "kernels/dwconv/dwconv.h"
#include "kernels/gemm/gemm.h"

namespace lathe {

ConvPacking conv_packing(const Conv2dAttrs& attrs, uint32_t oc, uint32_t kh, uint32_t kw, uint32_t ic_per_group) {
  const uint32_t groups = static_cast<uint32_t>(attrs.groups);
  ConvPacking p{};
  p.kh = kh;
  p.kw = kw;
  p.depthwise = groups > 1 && ic_per_group == 1;
  p.groups = p.depthwise ? 1 : groups;
  p.n = oc / p.groups;
  const bool row_is_contiguous = attrs.dilation[1] == 1 && groups == 1;
  p.segs = row_is_contiguous ? kh : kh * kw;
  p.seg_k = row_is_contiguous ? kw * ic_per_group : ic_per_group;
  return p;
}

ConvPacking conv_transpose_packing(const ConvTranspose2dAttrs& attrs, uint32_t oc, uint32_t kh, uint32_t kw,
                                   uint32_t ic_per_group) {
  ConvPacking p{};
  p.kh = kh;
  p.kw = kw;
  p.groups = static_cast<uint32_t>(attrs.groups);
  p.n = oc / p.groups;
  p.segs = kh * kw;
  p.seg_k = ic_per_group;
  return p;
}

PhaseTaps phase_taps(uint32_t kernel, uint32_t stride, uint32_t dilation, uint32_t phase) {
  uint32_t divisor = stride;
  for (uint32_t a = dilation; a != 0;) {
    const uint32_t rest = divisor % a;
    divisor = a;
    a = rest;
  }
  PhaseTaps t{.first = 0, .step = stride / divisor, .count = 0, .back = dilation / divisor};
  const uint32_t most = kernel < t.step ? kernel : t.step;
  while (t.first < most && static_cast<uint64_t>(t.first) * dilation % stride != phase) ++t.first;
  if (t.first < most) t.count = (kernel - t.first - 1) / t.step + 1;
  return t;
}

ConvPacking fully_connected_packing(uint32_t n, uint32_t k) {
  ConvPacking p{};
  p.groups = 1;
  p.n = n;
  p.segs = p.kh = p.kw = 1;
  p.seg_k = k;
  return p;
}

uint32_t ConvPacking::packed_s8_bytes() const {
  return depthwise ? kernels::dwconv_s8_packed_bytes(n, kh, kw) : groups * kernels::gemm_s8_packed_bytes(n, segs, seg_k);
}

kernels::SparseShape ConvPacking::sparse_shape() const {
  const bool by_taps = segs == kh && seg_k / kw % kernels::kGemmQuad == 0;
  return {n, segs, seg_k, by_taps ? kw : 1};
}

uint32_t ConvPacking::packed_f32_elems() const {
  return depthwise ? kernels::dwconv_f32_packed_elems(n, kh, kw) : groups * kernels::gemm_f32_packed_elems(n, segs, seg_k);
}

void ConvPacking::pack_s8(const int8_t* w, int8_t* packed) const {
  if (depthwise) return kernels::dwconv_s8_pack(w, n, kh, kw, packed);
  for (uint32_t g = 0; g < groups; ++g, w += n * segs * seg_k, packed += kernels::gemm_s8_packed_bytes(n, segs, seg_k)) {
    kernels::gemm_s8_pack(w, n, segs, seg_k, packed);
  }
}

void ConvPacking::unpack_s8(const int8_t* packed, int8_t* w) const {
  if (depthwise) return kernels::dwconv_s8_unpack(packed, n, kh, kw, w);
  for (uint32_t g = 0; g < groups; ++g, w += n * segs * seg_k, packed += kernels::gemm_s8_packed_bytes(n, segs, seg_k)) {
    kernels::gemm_s8_unpack(packed, n, segs, seg_k, w);
  }
}

void ConvPacking::pack_f32(const float* w, float* packed) const {
  if (depthwise) return kernels::dwconv_f32_pack(w, n, kh, kw, packed);
  for (uint32_t g = 0; g < groups; ++g, w += n * segs * seg_k, packed += kernels::gemm_f32_packed_elems(n, segs, seg_k)) {
    kernels::gemm_f32_pack(w, n, segs, seg_k, packed);
  }
}

void ConvPacking::unpack_f32(const float* packed, float* w) const {
  if (depthwise) return kernels::dwconv_f32_unpack(packed, n, kh, kw, w);
  for (uint32_t g = 0; g < groups; ++g, w += n * segs * seg_k, packed += kernels::gemm_f32_packed_elems(n, segs, seg_k)) {
    kernels::gemm_f32_unpack(packed, n, segs, seg_k, w);
  }
}

void ConvPacking::pack_f16(const uint16_t* w, uint16_t* packed) const {
  if (depthwise) return kernels::dwconv_f16_pack(w, n, kh, kw, packed);
  for (uint32_t g = 0; g < groups; ++g, w += n * segs * seg_k, packed += kernels::gemm_f32_packed_elems(n, segs, seg_k)) {
    kernels::gemm_f16_pack(w, n, segs, seg_k, packed);
  }
}

void ConvPacking::unpack_f16(const uint16_t* packed, uint16_t* w) const {
  if (depthwise) return kernels::dwconv_f16_unpack(packed, n, kh, kw, w);
  for (uint32_t g = 0; g < groups; ++g, w += n * segs * seg_k, packed += kernels::gemm_f32_packed_elems(n, segs, seg_k)) {
    kernels::gemm_f16_unpack(packed, n, segs, seg_k, w);
  }
}

}  // namespace lathe
