#include "tools/bar_chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/markup.h"

namespace lathe::tools {
namespace {

constexpr int kRow = 20, kLabels = 270, kBars = 340, kNotes = 190, kTop = 56;
constexpr size_t kLongest = 40;

std::string cut(const std::string& text) {
  return text.size() <= kLongest ? text : "..." + text.substr(text.size() - kLongest + 3);
}

double shown(double value) { return std::isfinite(value) ? std::max(0.0, value) : 0; }

}  // namespace

std::string bar_chart(const std::string& title, const std::string& unit, const std::vector<Bar>& bars) {
  double largest = 1e-12;
  for (const Bar& b : bars) largest = std::max(largest, shown(b.value));
  const int height = kTop + kRow * static_cast<int>(bars.size()) + 12, width = kLabels + kBars + kNotes;
  std::string svg = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      width, height, width, height);
  svg += "<style>.bg{fill:#fff}.t{fill:#222}.n{fill:#666}.b{fill:#4477aa}.m{fill:#cc4433}"
         "@media (prefers-color-scheme:dark){.bg{fill:#1b1b1b}.t{fill:#eee}.n{fill:#aaa}.b{fill:#77aadd}.m{fill:#ee7766}}</style>\n";
  svg += formatted("<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", width, height);
  svg += "<text class=\"t\" x=\"12\" y=\"22\" font-size=\"15\">" + escaped(title) + "</text>\n";
  svg += "<text class=\"n\" x=\"12\" y=\"42\">" + escaped(unit) + "</text>\n";
  int y = kTop;
  for (const Bar& b : bars) {
    const double length = std::max(1.0, kBars * shown(b.value) / largest);
    svg += formatted("<text class=\"t\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", kLabels - 8, y + 13) + escaped(cut(b.label)) + "</text>";
    svg += formatted("<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", b.marked ? "m" : "b", kLabels, y + 2, length,
                     kRow - 5);
    svg += formatted("<text class=\"n\" x=\"%.1f\" y=\"%d\">", kLabels + length + 6, y + 13) + escaped(b.note) + "</text>\n";
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace lathe::tools
