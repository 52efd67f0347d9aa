// Observer `auto`: for every tensor the range that disturbs the network's outputs least.
#pragma once
#include "quant/calibrate.h"

namespace lathe {

// Gives each observer of `calibration` the kind whose range is best: the tensor alone goes through that range's 8-bit grid, and
// the squared difference of the outputs, relative to the outputs, decides. No method wins for all tensors, and the error of the
// tensor itself, which is what mse takes, does not say what the layers behind make of it. It looks at 4 to 32 samples,
// so many that it takes about two runs of the network for each calibration sample. Tensors that move data only keep minmax: they take the grid of what they move.
// Errors: the source's, the session's.
Result<void> choose_ranges(const Graph& graph, const SampleSource& source, const SessionOptions& session, Calibration* calibration);

}  // namespace lathe
