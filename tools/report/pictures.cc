#include "tools/report/pictures.h"

#include <algorithm>
#include <cmath>

#include "tools/markup.h"

namespace lathe::tools {
namespace {

constexpr double kWidth = 1000;  // of every picture's coordinates; the page stretches them

std::string picture(const char* css_class, int height, const std::string& what, const std::string& body) {
  return formatted("<svg class=\"%s\" role=\"img\" viewBox=\"0 0 %.0f %d\" preserveAspectRatio=\"none\"><title>", css_class, kWidth, height) +
         escaped(what) + "</title>" + body + "</svg>";
}

std::string block(const char* css_class, double x, double y, double width, double height) {
  return formatted("<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", css_class, x, y, width, height);
}

}  // namespace

const char* precision_class(LayerPrecision precision) {
  constexpr const char* kClasses[] = {"int8", "fp16", "fp32", "other"};
  return kClasses[static_cast<size_t>(precision)];
}

std::string bar_picture(double share, bool marked) {
  const double known = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0;
  return picture("bar", 10, formatted("%.1f %%", 100 * known), block(marked ? "mark" : "fill", 0, 0, std::max(2.0, kWidth * known), 10));
}

std::string interval_picture(double value, Interval interval, double reference, double low, double high) {
  const auto at = [&](double v) { return std::isfinite(v) ? kWidth * std::clamp((v - low) / std::max(1e-12, high - low), 0.0, 1.0) : 0; };
  std::string body = block("track", 0, 9, kWidth, 2);
  body += block("fill", at(interval.low), 7, std::max(2.0, at(interval.high) - at(interval.low)), 6);
  if (std::isfinite(reference)) body += block("other", at(reference) - 3, 0, 6, 20);
  body += block("mark", at(value) - 4, 2, 8, 16);
  return picture("interval", 20, formatted("%.4g, interval %.4g to %.4g", value, interval.low, interval.high), body);
}

std::string precision_picture(std::span<const ReportLayer> layers) {
  std::string body;
  double x = 0;
  for (const ReportLayer& layer : layers) {
    const double width = kWidth * layer.share;
    body += "<g><title>" + escaped(layer.name + ", " + layer.op + ", " + precision_name(layer.precision)) + "</title>" +
            block(precision_class(layer.precision), x, 0, std::max(0.5, width - 1), 40) + "</g>";
    x += width;
  }
  return picture("strip", 40, "precision of every step, as wide as its share of the time", body);
}

std::string histogram_picture(const ObservedValue& observed) {
  const size_t bins = observed.bins.size();
  std::string body;
  for (size_t i = 0; i < bins; ++i) {
    // The square root, so that rare values can be seen beside common ones.
    const double height = 30 * std::sqrt(observed.bins[i] / 65535.0), width = kWidth / static_cast<double>(bins);
    if (observed.bins[i] > 0) body += block("fill", width * static_cast<double>(i), 30 - height, width - 1, height);
  }
  if (observed.lo < 0 && observed.hi > 0)
    body += block("mark", kWidth * -observed.lo / (observed.hi - observed.lo) - 1, 0, 2, 30);
  return picture("histogram", 30, formatted("values from %.4g to %.4g", observed.lo, observed.hi), body);
}

}  // namespace lathe::tools
