// Ranges that a histogram suggests: clipping rare large values costs them and gives all others a finer grid.
#pragma once
#include "quant/histogram.h"
#include "quant/observer.h"

namespace lathe {

// The range whose 8-bit grid keeps the distribution closest, by Kullback-Leibler divergence. The threshold is sought over |x|, on
// at most 2,048 bins with 128 levels, or 255 where all values have one sign; the last bin of the reference takes what is cut off,
// the candidate does not. Source: Migacz, "8-bit inference with TensorRT" (GTC 2017). Requires: not empty.
Range entropy_range(const Histogram& histogram);

// The range whose 8-bit grid has the least mean squared error, every bin standing for its centre: both ends are moved in steps of
// 1/64 of what was seen, in turns until neither improves. Requires: not empty.
Range mse_range(const Histogram& histogram);

// Mean squared error of the values on the affine int8 grid of `range`, every bin standing for its centre. Requires: not empty.
double quantization_error(const Histogram& histogram, const Range& range);

}  // namespace lathe
