// Pictures of what costs what, as SVG like bar_chart.h's.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lathe::tools {

struct Dot {
  std::string label;
  double x = 0, y = 0;
  bool marked = false;  // in the colour of what deserves a look
};

// Points joined in their order, named at the last one.
struct Line {
  std::string label;
  std::vector<std::pair<double, double>> points;  // x, y
  bool marked = false;
};

struct ScatterChart {
  std::string title, x_unit, y_unit;
  std::vector<Dot> dots;
  std::vector<Line> lines = {};
  std::optional<double> limit = {};  // a line across at this y
  std::optional<double> floor = {};  // where the y axis begins, in place of 0
};

// Axes from the lesser of 0 (or `floor`) and the least value to a little over the largest. Requires: all numbers are finite.
std::string scatter_chart(const ScatterChart& chart);

}  // namespace lathe::tools
