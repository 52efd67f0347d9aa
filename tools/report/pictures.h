// Pictures of a report: inline SVG without text of its own, as wide as the page, in the colours of the page's style sheet.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "graph/file/model_file.h"
#include "tools/report/gather.h"

namespace lathe::tools {

// A bar of `share` (0 to 1) of the width.
std::string bar_picture(double share, bool marked);

// One mark per value between `low` and `high`, with its interval; a second mark for a reference (NaN: none).
std::string interval_picture(double value, Interval interval, double reference, double low, double high);

// What the style sheet calls a precision.
const char* precision_class(LayerPrecision precision);

// The run from left to right: one block per layer, as wide as its share of the time, in the colour of its precision.
std::string precision_picture(std::span<const ReportLayer> layers);

// Counts from the range's low to its high end; zero is marked if the range holds it.
std::string histogram_picture(const ObservedValue& observed);

}  // namespace lathe::tools
