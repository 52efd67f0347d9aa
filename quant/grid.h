// Quantization grids: from ranges to scale and zero_point, from weights to int8.
//
// Constants are computed in double and rounded once to float32. Source of the affine scheme: Jacob et al., "Quantization and
// Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference" (2018), section 2.1.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "lathe/quant.h"
#include "quant/observer.h"

namespace lathe {

// Affine int8 parameters for `range` widened to contain 0. A range without extent, or one whose scale would be denormal, gives
// scale 1 and zero_point 0.
QuantParams activation_params(const Range& range);

// The same with zero point 0 and scale max|x| / 127.
QuantParams symmetric_params(const Range& range);

// Symmetric weights in [-largest, largest].
struct QuantizedWeights {
  std::vector<int8_t> values;     // as the float weights, row-major
  std::vector<float> scales;      // one per channel of axis 0, or a single one
  std::vector<int32_t> bias;      // s32 at input_scale * scale[channel]; empty if there was none
  uint32_t widened_channels = 0;  // channels whose scale grew so that the bias fits
};

struct WeightOptions {
  bool per_channel = true;
  float input_scale = 1, output_scale = 1;
  int32_t largest = 127;     // steps are in [-largest, largest]
  std::span<const float> scales = {};  // given, one or one per channel, instead of those below; only widened and settled
  bool least_error = false;  // scales that clip the largest weights where that makes the squared error of all smaller
};

// weights: `channels` equal rows; bias: empty or one per channel. The scale of a channel is max|w| / largest, widened where the bias
// would exceed 2^30 steps of input_scale * scale; an all-zero channel takes the scale that represents its bias best. With least_error the scale is the
// best of max|w| / largest times 1, 0.99, ..., 0.5 (a grid, as the error is not convex in it). Scales then
// move by some units in the last place, until input_scale * scale / output_scale is the same float32 whether it is rounded once
// or after each step, as runtimes differ in that. Error: NaN or infinity, naming the element.
Result<QuantizedWeights> quantize_weights(std::span<const float> weights, std::span<const float> bias, uint32_t channels,
                                          const WeightOptions& options);

}  // namespace lathe
