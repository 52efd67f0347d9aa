#include "tools/loss_curve.h"

#include <algorithm>
#include <cmath>

#include "base/atomic_file.h"
#include "tools/markup.h"
#include "tools/scatter_chart.h"

namespace lathe::tools {
namespace {

std::string csv(const Metric& metric, const std::vector<EpochRow>& epochs) {
  std::string text = "epoch,loss," + metric.name() + ",rate,seconds\n";
  const auto number = [](bool is, double v) { return is ? formatted("%.9g", v) : std::string(); };
  for (const EpochRow& e : epochs) {
    const bool trained = e.epoch != 0;
    text += std::to_string(e.epoch) + "," + number(trained, e.loss) + "," + number(!std::isnan(e.value), e.value) + "," +
            number(trained, e.rate) + "," + number(trained, e.seconds) + "\n";
  }
  return text;
}

std::string svg(const Metric& metric, const std::vector<EpochRow>& epochs) {
  ScatterChart loss{.title = "Training", .x_unit = "epoch", .y_unit = "mean loss", .dots = {}};
  ScatterChart judged{
      .title = "Validation", .x_unit = "epoch", .y_unit = metric.name() + (metric.is_share() ? ", %" : ""), .dots = {}};
  Line losses, values{.label = "", .points = {}, .marked = true};
  double least = INFINITY;
  for (const EpochRow& e : epochs) {
    const double value = metric.is_share() ? 100 * e.value : e.value;
    if (e.epoch != 0) losses.points.emplace_back(e.epoch, e.loss);
    if (!std::isfinite(value)) continue;
    values.points.emplace_back(e.epoch, value);
    least = std::min(least, value);
  }
  loss.lines.push_back(std::move(losses));
  std::string out = scatter_chart(loss);
  if (values.points.empty()) return out;
  values.label = value_text(metric, values.points.back().second / (metric.is_share() ? 100 : 1));
  judged.lines.push_back(std::move(values));
  judged.floor = least;
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"800\" viewBox=\"0 0 640 800\">\n" + out +
         "<g transform=\"translate(0 400)\">\n" + scatter_chart(judged) + "</g>\n</svg>\n";
}

}  // namespace

Result<void> check_curve_name(const std::string& path) {
  if (path.ends_with(".csv") || path.ends_with(".svg")) return {};
  return fail(Code::kInvalidArgument, "curve '" + path + "' must end in .csv or .svg");
}

Result<void> write_loss_curve(const std::string& path, const Metric& metric, const std::vector<EpochRow>& epochs) {
  LATHE_CHECK_OK(check_curve_name(path));
  return write_file_atomic(path, path.ends_with(".csv") ? csv(metric, epochs) : svg(metric, epochs));
}

}  // namespace lathe::tools
