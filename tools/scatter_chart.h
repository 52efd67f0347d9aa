// Pictures of what costs what, as SVG like bar_chart.h's.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace lathe::tools {

struct Dot {
  std::string label;
  double x = 0, y = 0;
  bool marked = false;  // in the colour of what deserves a look
};

struct ScatterChart {
  std::string title, x_unit, y_unit;
  std::vector<Dot> dots;
  std::optional<double> limit;  // a line across at this y
};

// Axes from the lesser of 0 and the least value to a little over the largest. Requires: all numbers are finite.
std::string scatter_chart(const ScatterChart& chart);

}  // namespace lathe::tools
