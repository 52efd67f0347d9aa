#include "tools/scatter_chart.h"

#include <algorithm>
#include <cmath>

#include "tools/markup.h"

namespace lathe::tools {
namespace {

constexpr int kWidth = 640, kHeight = 400, kLeft = 70, kRight = 30, kTop = 70, kBottom = 60;

// One axis, with round numbers about as many as `ticks`.
struct Axis {
  double low = 0, high = 1, step = 1;
  Axis(double least, double most, int ticks) {
    low = least;
    high = most > low ? most : low + 1;
    const double rough = (high - low) / ticks, ten = std::pow(10.0, std::floor(std::log10(rough)));
    step = ten * (rough / ten < 1.5 ? 1 : rough / ten < 3.5 ? 2 : rough / ten < 7.5 ? 5 : 10);
    low = step * std::floor(low / step);
    high = step * std::ceil((high + 0.05 * std::fabs(high)) / step);
  }
  double share(double v) const { return (v - low) / (high - low); }
};

double at_x(const Axis& a, double v) { return kLeft + (kWidth - kLeft - kRight) * a.share(v); }
double at_y(const Axis& a, double v) { return kHeight - kBottom - (kHeight - kTop - kBottom) * a.share(v); }

std::string frame(const ScatterChart& c, const Axis& x, const Axis& y) {
  std::string svg;
  const auto line = [&](const std::string& path) { svg += "<path class=\"g\" d=\"" + path + "\"/>"; };
  const auto number = [&](double left, double top, const char* anchor, double v) {
    svg += formatted("<text class=\"n\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.4g</text>\n", left, top, anchor, v);
  };
  for (double v = x.low; v <= x.high + x.step / 2; v += x.step) {
    line(formatted("M%.1f %dV%d", at_x(x, v), kTop, kHeight - kBottom));
    number(at_x(x, v), kHeight - kBottom + 18, "middle", v);
  }
  for (double v = y.low; v <= y.high + y.step / 2; v += y.step) {
    line(formatted("M%d %.1fH%d", kLeft, at_y(y, v), kWidth - kRight));
    number(kLeft - 8, at_y(y, v) + 4, "end", std::fabs(v) < y.step / 1e6 ? 0 : v);
  }
  if (c.limit)
    svg += formatted("<path class=\"l\" d=\"M%d %.1fH%d\"/>\n", kLeft, at_y(y, *c.limit), kWidth - kRight);
  return svg;
}

std::string draw(const Line& line, const Axis& x, const Axis& y) {
  if (line.points.empty()) return "";
  std::string path;
  for (const auto& [px, py] : line.points) path += formatted("%c%.1f %.1f", path.empty() ? 'M' : 'L', at_x(x, px), at_y(y, py));
  const auto& [px, py] = line.points.back();
  return formatted("<path class=\"%s\" d=\"", line.marked ? "mc" : "bc") + path + "\"/>" +
         formatted("<text class=\"t\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", at_x(x, px), at_y(y, py) - 8) +
         escaped(line.label) + "</text>\n";
}

}  // namespace

std::string scatter_chart(const ScatterChart& c) {
  double x_most = 0, y_least = c.floor.value_or(0), y_most = std::max(y_least, c.limit.value_or(y_least));
  const auto include = [&](double px, double py) {
    x_most = std::max(x_most, px), y_least = std::min(y_least, py), y_most = std::max(y_most, py);
  };
  for (const Dot& d : c.dots) include(d.x, d.y);
  for (const Line& line : c.lines)
    for (const auto& [px, py] : line.points) include(px, py);
  const Axis x(0, x_most, 6), y(y_least, y_most, 5);
  std::string svg = formatted(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      kWidth, kHeight, kWidth, kHeight);
  svg +=
      "<style>.bg{fill:#fff}.t{fill:#222}.n{fill:#666}.g{stroke:#ddd}.l{stroke:#cc4433;stroke-dasharray:6 4}.b{fill:#4477aa}"
      ".m{fill:#cc4433}.bc{fill:none;stroke:#4477aa}.mc{fill:none;stroke:#cc4433}@media "
      "(prefers-color-scheme:dark){.bg{fill:#1b1b1b}"
      ".t{fill:#eee}.n{fill:#aaa}.g{stroke:#444}.l{stroke:#ee7766}.b{fill:#77aadd}.m{fill:#ee7766}.bc{stroke:#77aadd}"
      ".mc{stroke:#ee7766}}</style>\n";
  svg += formatted("<rect class=\"bg\" width=\"%d\" height=\"%d\"/>\n", kWidth, kHeight);
  svg += "<text class=\"t\" x=\"12\" y=\"22\" font-size=\"15\">" + escaped(c.title) + "</text>\n";
  svg += "<text class=\"n\" x=\"12\" y=\"46\">" + escaped(c.y_unit) + "</text>\n";
  svg += formatted("<text class=\"n\" x=\"%d\" y=\"%d\" text-anchor=\"end\">", kWidth - kRight, kHeight - 16);
  svg += escaped(c.x_unit) + "</text>\n";
  svg += frame(c, x, y);
  for (const Line& line : c.lines) svg += draw(line, x, y);
  for (const Dot& d : c.dots) {
    const bool right = x.share(d.x) < 0.75;
    svg += formatted("<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>", d.marked ? "m" : "b", at_x(x, d.x), at_y(y, d.y),
                     d.marked ? 7 : 5);
    svg += formatted("<text class=\"t\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", at_x(x, d.x) + (right ? 11 : -11),
                     at_y(y, d.y) - 8, right ? "start" : "end") +
           escaped(d.label) + "</text>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace lathe::tools
