// How the weights of Conv2d and FullyConnected lie in memory: the one definition that lowering (packing), the exec entries and
// the firmware share.
//
// Weights come as OHWI: [oc][kh][kw][ic / groups]. One input channel per group and more than one group is depthwise: kDwConv
// layouts over all oc channels. Everything else is segment GEMM, once per group: the groups' panels follow one another, each
// group padded to 16 channels by itself. Vectors over oc (bias, multipliers; kPadded16) are padded in the same way, so that panel
// i goes with entries [16 i, 16 i + 16).
//
// A transposed convolution is stride_h x stride_w plain ones: output pixels whose i + pad leave the same remainder by the stride
// (a phase) see the same subset of the taps. Its weights are packed once, a segment per tap, and each phase steps over those that
// are its own; only the folded 8-bit bias differs by phase. Pure functions, thread-safe. Freestanding.
#pragma once
#include <stdint.h>

#include "kernels/gemm_sparse/gemm_sparse.h"
#include "runtime/attrs.h"

namespace lathe {

struct ConvPacking {
  bool depthwise;
  uint32_t groups;  // times that segment GEMM runs; 1 for depthwise
  uint32_t n;       // output channels per group
  uint32_t
      segs;  // gemm.h: segments of a row and elements of a segment; one segment is a kernel row if that is contiguous, else a tap
  uint32_t seg_k;
  uint32_t kh, kw;

  // Entries of a padded vector over all output channels, and where channel c of [0, groups * n) stands in it.
  uint32_t vector_elems() const { return groups * padded_n(); }
  uint32_t vector_index(uint32_t c) const { return c / n * padded_n() + c % n; }
  uint32_t padded_n() const { return (n + 15) / 16 * 16; }
  // Elements of canonical weights, and of the packed ones: bytes for s8, floats for f32, and as many halves for f16.
  uint32_t weight_elems() const { return groups * n * (depthwise ? kh * kw : segs * seg_k); }
  uint32_t packed_s8_bytes() const;
  // The block-sparse form (kernels/gemm_sparse): taps of a kernel row are pieces where a quad starts with each of them. Requires:
  // not depthwise, one group.
  kernels::SparseShape sparse_shape() const;
  uint32_t packed_f32_elems() const;

  // Canonical to packed and back, all groups. Buffers have the lengths above.
  void pack_s8(const int8_t* w, int8_t* packed) const;
  void unpack_s8(const int8_t* packed, int8_t* w) const;
  void pack_f32(const float* w, float* packed) const;
  void unpack_f32(const float* packed, float* w) const;
  void pack_f16(const uint16_t* w, uint16_t* packed) const;
  void unpack_f16(const uint16_t* packed, uint16_t* w) const;
  // A vector over output channels with its padding, zero filled.
  template <class T>
  void pad_vector(const T* v, T* padded) const {
    for (uint32_t i = 0; i < vector_elems(); ++i) padded[i] = T{};
    for (uint32_t c = 0; c < groups * n; ++c) padded[vector_index(c)] = v[c];
  }
};

// Packing of weights [oc][kh][kw][ic_per_group]. Requires: groups > 0 divides oc, all dims > 0, products fit 31 bits (the graph's
// and the program's checks see to it).
ConvPacking conv_packing(const Conv2dAttrs& attrs, uint32_t oc, uint32_t kh, uint32_t kw, uint32_t ic_per_group);
// The same for ConvTranspose2d: a segment per tap.
ConvPacking conv_transpose_packing(const ConvTranspose2dAttrs& attrs, uint32_t oc, uint32_t kh, uint32_t kw,
                                   uint32_t ic_per_group);

// Along one axis: taps p of outputs i with (i + pad) % stride == phase are first, first + step, .. (count of them), and number t
// of them reads the input at (i + pad - first * dilation) / stride - t * back, a whole number.
struct PhaseTaps {
  uint32_t first, step, count, back;
};
PhaseTaps phase_taps(uint32_t kernel, uint32_t stride, uint32_t dilation, uint32_t phase);
// Transposed convolutions of more phases are refused.
inline constexpr uint32_t kMaxPhases = 4096;

// Packing of FullyConnected weights [n][k].
ConvPacking fully_connected_packing(uint32_t n, uint32_t k);

}  // namespace lathe
