// What prepare() leaves for run() of Conv2d and FullyConnected, and the parts that the two share.
//
// The work is cut into tasks: blocks of output rows (of a matrix: of rows) times ranges of 16-channel panels. A dense convolution
// computes a task in rectangles of pixels (conv_regions.h), each in one kernel call that reads the input in place. How it meets
// the padding is chosen in prepare: it leaves those taps out where padding counts nothing (float, and 8-bit input whose stored
// zero point is 0, which on x86 is the result of any ReLU), else it copies what a rectangle sees, with the zero point around it,
// to its slot's scratch. Depthwise kernels read in place and need one row of padding. Results do not depend on the cut.
#pragma once
#include <stdint.h>

#include "kernels/kernel.h"
#include "runtime/exec/conv_geometry.h"
#include "runtime/exec/conv_regions.h"
#include "runtime/exec/exec.h"

namespace lathe {

// kWide: 16-bit activations (conv_wide.cc); of the other members it uses sizes, axes, groups and limits only. kWinograd:
// conv_winograd.cc; the same and slot_bytes.
enum class ConvMode : uint32_t { kMatrix = 0, kDense = 1, kDepthwise = 2, kWide = 3, kWinograd = 4 };

// kNone: no output sees padding. kSkip: taps in the padding are left out. kSkipRows: kernel rows are, and the columns that see
// padding go through scratch, because packed weights cannot be cut between these taps. kCopyAll: a task's whole input goes
// through scratch. kCopyEdges: only that of the pixels which see padding.
enum class ConvBorder : uint32_t { kNone = 0, kSkip = 1, kSkipRows = 2, kCopyAll = 3, kCopyEdges = 4 };

// 32-bit members only. Sizes and steps in elements unless they say bytes.
struct ConvParams {
  ConvMode mode;
  ConvBorder border;
  uint32_t quantized;                 // 1: 8-bit, 0: float or half precision
  uint32_t elem_bytes;                // of x, w, y and residual: 1, 4, or 2 in half precision
  uint32_t images, ic, oc;            // kMatrix: images x oh x ow rows of ic, all in one run
  uint32_t x_pixel, y_pixel, residual_pixel;  // from one pixel to the next: ic, oc, or more where there are gaps
  ConvAxis h, w;
  uint32_t groups, n, segs, seg_k;    // as ConvPacking
  uint32_t pieces;                    // of a panel of block-sparse weights; 0: weights are dense
  uint32_t multiplier;                // depthwise
  uint32_t block_rows, row_tasks;     // output rows of a task (matrix: rows), tasks per image (matrix: in all)
  uint32_t task_panels, panel_tasks;  // panels of a task, tasks over panels
  uint32_t call_panels;               // panels of one kernel call: their weights stay near while rows pass
  uint32_t slot_bytes;                // scratch of a slot
  int32_t pad_value, zero_point, lo_q, hi_q, residual_zero;
  float residual_scale, lo, hi;
};

// Operand positions (runtime/exec/exec.h).
inline constexpr uint32_t kConvX = 0, kConvW = 1, kConvBiasF32 = 2, kConvBiasS8 = 2, kConvBiasU8 = 3, kConvScale = 4;
constexpr uint32_t conv_residual(bool quantized) { return quantized ? 5 : 3; }

// The family of kernels that a step of this element type needs.
constexpr kernels::Family conv_family(const ConvParams& p, bool depthwise) {
  if (p.pieces != 0) return kernels::Family::kGemmSparseS8;
  if (p.quantized != 0) return depthwise ? kernels::Family::kDwConvS8 : kernels::Family::kGemmS8;
  if (p.elem_bytes == 2) return depthwise ? kernels::Family::kDwConvF16 : kernels::Family::kGemmF16;
  return depthwise ? kernels::Family::kDwConvF32 : kernels::Family::kGemmF32;
}

// Checks x, y, weights, bias, multipliers and residual against `packing` and each other, and fills the element type, the clamp
// and the quantization constants. Errors: kUnsupported (dtype, layout, weights that are not constant; got: the dtype or layout),
// kCorrupt (needed, got: sizes that disagree), kOutOfMemory (weights beyond 31 bits). 8-bit biases hold `bias_sets` padded vectors.
Status prepare_conv_operands(const PrepareInput& in, const ConvPacking& packing, float lo, float hi, ConvParams* p,
                             uint32_t bias_sets = 1);

// Takes the distances of pixels from `in` and says which operands may have gaps between them, and whether x may be the caller's.
// Requires: mode, border and operands are filled.
void set_pixels(const PrepareInput& in, ConvParams* p, Prepared* out);

// Chooses how a dense convolution meets its padding. Requires: axes, mode and quantization constants are filled.
ConvBorder choose_border(const ConvParams& p);

// Cuts the work into tasks and sizes scratch. Requires: geometry is filled. Error: kOutOfMemory (needed: KiB of scratch).
Status cut_conv_tasks(const PrepareInput& in, const ConvPacking& packing, ConvParams* p, Prepared* out);

// A layer of 16-bit activations. Requires: axes, images and groups are those of operands that fit each other.
struct WideConv {
  uint32_t images, groups;
  ConvAxis h, w;
  float lo, hi;
};
Status prepare_wide_conv(const PrepareInput& in, const WideConv& conv, ConvParams* p, Prepared* out);
void run_wide_conv(const RunContext& ctx, const BoundStep& step, const ConvParams& p, bool transposed);

void run_conv(const RunContext& ctx, const BoundStep& step);

}  // namespace lathe
