// Calibration as the CALIB section keeps it, and back to ranges.
#pragma once
#include <span>
#include <vector>

#include "graph/file/model_file.h"
#include "quant/calibrate.h"

namespace lathe {

// One entry per tensor that was seen: its chosen range and at most kMaxCalibBins counts over it; what lies outside counts at the
// edge.
std::vector<ObservedValue> observed_values(const Calibration& calibration);
RangeTable ranges_of(std::span<const ObservedValue> observed);

}  // namespace lathe
