// What prepare() leaves for run() of Conv2d and FullyConnected, and the parts that the two share.
//
// The work is cut into tasks: blocks of output rows (of a matrix: of rows) times ranges of 16-channel panels. A task copies the
// input rows that it needs into its slot's scratch if the convolution pads, with the zero point (float: 0) around them, so that
// kernels know no borders; without padding kernels read the input in place, and depthwise kernels always do: they only need one
// row of padding. Results do not depend on the cut.
#pragma once
#include <stdint.h>

#include "kernels/isa.h"
#include "runtime/exec/conv_geometry.h"
#include "runtime/exec/exec.h"

namespace lathe {

enum class ConvMode : uint32_t { kMatrix = 0, kBands = 1, kDepthwise = 2 };

// 32-bit members only. Sizes and steps in elements unless they say bytes.
struct ConvParams {
  ConvMode mode;
  uint32_t quantized;           // 1: 8-bit, 0: float
  uint32_t images, ih, iw, ic;  // kMatrix: images x oh x ow rows of ic, all in one run
  uint32_t oh, ow, oc;
  uint32_t groups, n, segs, seg_k;  // as ConvPacking
  uint32_t kh, kw, multiplier;      // depthwise
  uint32_t stride_h, stride_w;
  uint32_t dilation_h, dilation_w;
  uint32_t pad_top, pad_left;
  uint32_t pads;                      // 1: some output reads padding
  uint32_t copies;                    // 1: input rows go through scratch (segment GEMM that pads)
  uint32_t row, row_count;            // elements of an input row as kernels see it; input rows under one output row
  uint32_t tap_row, tap_col;          // to the next kernel row and column
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

// Checks x, y, weights, bias, multipliers and residual against `packing` and each other, and fills `quantized`, the clamp and the
// quantization constants. Errors: kUnsupported (dtype, layout, weights that are not constant; got: the dtype or layout), kCorrupt
// (needed, got: sizes that disagree), kOutOfMemory (weights beyond 31 bits).
Status prepare_conv_operands(const PrepareInput& in, const ConvPacking& packing, float lo, float hi, ConvParams* p);

// Cuts the work into tasks and sizes scratch. Requires: geometry is filled. Error: kOutOfMemory (needed: KiB of scratch).
Status cut_conv_tasks(const PrepareInput& in, const ConvPacking& packing, ConvParams* p, Prepared* out);

void run_conv(const RunContext& ctx, const BoundStep& step);

}  // namespace lathe
