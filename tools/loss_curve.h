// The course of a training as a table or a picture.
#pragma once
#include <string>
#include <vector>

#include "tools/training.h"

namespace lathe::tools {

// Whether the name ends in .csv or .svg.
Result<void> check_curve_name(const std::string& path);

// .csv: epoch,loss,METRIC,rate,seconds, empty where there is no value; .svg: loss above, the metric below. Whole or not at all.
Result<void> write_loss_curve(const std::string& path, const Metric& metric, const std::vector<EpochRow>& epochs);

}  // namespace lathe::tools
