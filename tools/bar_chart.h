// Pictures of reports as SVG: text that any browser draws, in light and dark mode.
#pragma once
#include <string>
#include <vector>

namespace lathe::tools {

struct Bar {
  std::string label;
  double value = 0;   // from 0 on; what is not finite is drawn as 0
  std::string note;   // at the bar's end
  bool marked = false;  // in the colour of what deserves a look
};

// One horizontal bar per entry, the longest as wide as the picture allows. Labels are cut at 40 characters.
std::string bar_chart(const std::string& title, const std::string& unit, const std::vector<Bar>& bars);

}  // namespace lathe::tools
