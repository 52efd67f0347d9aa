#include "tools/report/page.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tools/markup.h"
#include "tools/report/pictures.h"
#include "tools/report/style.h"
#include "tools/table.h"

namespace lathe::tools {
namespace {

constexpr size_t kRowsShown = 24;  // of a long list before the reader asks for more

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

std::string section(const char* id, const std::string& title, const std::string& note, const std::string& body) {
  return formatted("<section id=\"%s\"><h2>", id) + escaped(title) + "</h2><p class=\"note\">" + escaped(note) + "</p>" + body +
         "</section>\n";
}

// A line of text with a picture below it.
std::string row(const std::string& label, const std::string& figures, const std::string& picture) {
  return "<div><header><span>" + escaped(label) + "</span><span>" + escaped(figures) + "</span></header>" + picture + "</div>";
}

// The first rows, and the others behind a click.
std::string rows(const std::vector<std::string>& all) {
  std::string head, tail;
  for (size_t i = 0; i < all.size(); ++i) (i < kRowsShown ? head : tail) += all[i];
  head = "<div class=\"rows\">" + head + "</div>";
  if (tail.empty()) return head;
  return head + formatted("<details><summary>%zu more</summary><div class=\"rows\">", all.size() - kRowsShown) + tail + "</div></details>";
}

std::string figure(const std::string& value, const std::string& what, const std::string& beside) {
  return "<div><b>" + escaped(value) + "</b><span>" + escaped(what) + "</span><span>" + escaped(beside) + "</span></div>";
}

// "0.32 times 319 KB", or nothing without a baseline.
std::string times(double value, double reference, const std::string& shown) {
  return reference > 0 ? formatted("%.2f times ", value / reference) + shown : "";
}

std::string drop_text(const Metric& metric, const FigureRow& r) {
  return formatted("drop %.2f %s, p %.3f", r.drop, metric.is_share() ? "points" : "percent", r.p);
}

std::string size_and_speed(const Report& r) {
  const ReportSide& m = r.model;
  const ReportSide none, &b = r.baseline ? *r.baseline : none;
  const auto size = [&](uint64_t v, uint64_t w, const char* what) {
    return figure(bytes_text(static_cast<double>(v)), what,
                  times(static_cast<double>(v), static_cast<double>(w), bytes_text(static_cast<double>(w))));
  };
  const auto time = [&](double v, double w, const char* what) {
    return figure(formatted("%.1f us", v), what, times(v, w, formatted("%.1f us", w)));
  };
  std::string body = "<div class=\"figures\">" + size(m.file_bytes, b.file_bytes, "file") +
                     size(m.parameter_bytes, b.parameter_bytes, "parameters") + size(m.arena_bytes, b.arena_bytes, "arena") +
                     time(m.p50_us, b.p50_us, "latency, median") + time(m.p99_us, b.p99_us, "latency, 99 % of runs") +
                     figure(formatted("%.3g M", static_cast<double>(m.macs) / 1e6), "multiply-accumulates",
                            times(static_cast<double>(m.macs), static_cast<double>(b.macs),
                                  formatted("%.3g M", static_cast<double>(b.macs) / 1e6)));
  const std::string note = formatted("Batch 1, %u thread%s, %s", r.threads, r.threads == 1 ? "" : "s", r.isa.c_str()) +
                           (r.baseline ? "; beside " + file_name(r.baseline->path) + ", measured in turns" : "");
  return section("size", "Size and latency", note, body + "</div>");
}

std::string accuracy(const Report& r) {
  const EvalReport& e = *r.accuracy;
  std::vector<const FigureRow*> figures{&e.all};
  for (const FigureRow& g : e.groups) figures.push_back(&g);
  double low = INFINITY, high = -INFINITY;
  for (const FigureRow* f : figures) {
    low = std::min({low, f->interval.low, f->value});
    high = std::max({high, f->interval.high, f->value});
    if (e.has_baseline) low = std::min(low, f->reference), high = std::max(high, f->reference);
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < figures.size(); ++i) {
    const FigureRow& f = *figures[i];
    std::string text = value_text(e.metric, f.value) + formatted(" of %llu", static_cast<unsigned long long>(f.samples));
    if (e.has_baseline) text += "; " + drop_text(e.metric, f);
    if (f.few) text += "; few samples, noise";
    const bool worst = e.worst && i > 0 && *e.worst == i - 1;
    lines.push_back(row((f.name.empty() ? "all samples" : f.name) + (worst ? " (worst group)" : ""), text,
                        interval_picture(f.value, f.interval, e.has_baseline ? f.reference : NAN, low, high)));
  }
  const std::string note = e.metric.name() + " on split '" + r.split + "', " + value_text(e.metric, low) + " to " +
                           value_text(e.metric, high) + " from left to right; the broad part is the 95 % interval" +
                           (e.has_baseline ? ", the grey mark the baseline" : "");
  return section("accuracy", "Accuracy by group", note, rows(lines));
}

std::string precision_map(const Report& r) {
  constexpr LayerPrecision kAll[] = {LayerPrecision::kInt8, LayerPrecision::kHalf, LayerPrecision::kFloat, LayerPrecision::kOther};
  std::string key = "<p class=\"key\">";
  for (const LayerPrecision p : kAll) {
    size_t count = 0;
    double share = 0;
    for (const ReportLayer& l : r.layers)
      if (l.precision == p) ++count, share += l.share;
    if (count > 0)
      key += formatted("<span><i class=\"%s\"></i>%s: %zu step%s, %.1f %% of the time</span>", precision_class(p), precision_name(p), count,
                       count == 1 ? "" : "s", 100 * share);
  }
  return section("precision", "Precision map", "Every step of a run from left to right, as wide as its share of the time",
                 precision_picture(r.layers) + key + "</p>");
}

std::string decibels(const std::optional<double>& db) {
  return !db ? "" : std::isfinite(*db) ? formatted(", %.1f dB", *db) : ", exact";
}

std::string layers(const Report& r) {
  std::vector<const ReportLayer*> sorted;
  for (const ReportLayer& l : r.layers) sorted.push_back(&l);
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->us > b->us; });
  std::vector<std::string> lines;
  const double longest = sorted.empty() ? 0 : sorted[0]->share;
  for (const ReportLayer* l : sorted)
    lines.push_back(row(l->name, l->op + ", " + precision_name(l->precision) + formatted(", %.2f us, %.1f %%", l->us, 100 * l->share) +
                                     decibels(l->sqnr_db),
                        bar_picture(longest > 0 ? l->share / longest : 0, false)));
  std::string note = "Median time of every step, the slowest first";
  if (r.noise_samples > 0)
    note += formatted("; signal to quantization noise of its result against the baseline over %llu samples, noise of earlier layers included",
                      static_cast<unsigned long long>(r.noise_samples));
  return section("layers", "Time and noise by layer", note, rows(lines));
}

std::string sensitivity(const Report& r) {
  double most = 1e-30;
  const auto noise = [](const SensitiveLayer& l) { return l.output_db ? std::pow(10, -*l.output_db / 10) : 0; };
  for (const SensitiveLayer& l : r.sensitivity) most = std::max(most, noise(l));
  std::vector<std::string> lines;
  for (const SensitiveLayer& l : r.sensitivity) {
    std::string text = l.output_db ? formatted("%.1f dB", *l.output_db) : "exact";
    if (l.drop) text += formatted(", drop %.2f", *l.drop);
    if (l.keep) text += ", kept float";
    lines.push_back(row(l.name, text, bar_picture(noise(l) / most, l.keep)));
  }
  return section("sensitivity", "Sensitivity", "Noise at the outputs with that layer alone in INT8", rows(lines));
}

std::string calibration(const Report& r) {
  std::map<std::string, size_t> observers;
  std::vector<std::string> lines;
  for (const ObservedValue& v : r.calibration) {
    ++observers[v.observer];
    const auto used = static_cast<size_t>(std::count_if(v.bins.begin(), v.bins.end(), [](uint16_t n) { return n > 0; }));
    lines.push_back(row(v.name, formatted("%.4g to %.4g, %s", v.lo, v.hi, v.observer.c_str()) +
                                    (v.bins.empty() ? "" : formatted(", %zu of %zu bins used", used, v.bins.size())),
                        histogram_picture(v)));
  }
  std::string note;
  for (const auto& [name, count] : observers)
    note += (note.empty() ? "Ranges of " : ", ") + formatted("%zu tensors by %s", count, name.c_str());
  return section("calibration", "Calibration", note + "; counts as square roots, zero marked", rows(lines));
}

std::string lineage(const Report& r) {
  std::string body = "<dl>";
  for (const auto& [key, value] : r.metadata)
    if (value.size() <= 200) body += "<dt>" + escaped(key) + "</dt><dd>" + escaped(value) + "</dd>";
  return section("lineage", "Lineage", "What the file says of itself", body + "</dl>");
}

}  // namespace

std::string report_page(const Report& r) {
  const std::string title = escaped(file_name(r.model.path));
  std::string page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Lathe report: " +
                     title + "</title><style>" + kReportStyle + "</style></head>\n<body><h1>" + title + "</h1>\n";
  page += size_and_speed(r);
  if (r.accuracy) page += accuracy(r);
  if (!r.layers.empty()) page += precision_map(r) + layers(r);
  if (!r.sensitivity.empty()) page += sensitivity(r);
  if (!r.calibration.empty()) page += calibration(r);
  if (!r.metadata.empty()) page += lineage(r);
  return page + "</body></html>\n";
}

}  // namespace lathe::tools
