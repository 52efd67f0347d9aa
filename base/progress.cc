#include "base/progress.h"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>

namespace lathe {
namespace {

constexpr double kQuietSeconds = 2.0;
constexpr double kIntervalSeconds = 0.2;
constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

std::string duration_text(double seconds) {
  const auto s = static_cast<uint64_t>(std::ceil(seconds));
  if (s < 60) return std::to_string(s) + " s";
  if (s < 3600) return std::to_string(s / 60) + " min " + std::to_string(s % 60) + " s";
  return std::to_string(s / 3600) + " h " + std::to_string(s % 3600 / 60) + " min";
}

ProgressSink stderr_sink() {
  ProgressSink sink;
  sink.enabled = ::isatty(STDERR_FILENO) == 1;
  sink.seconds = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  sink.print = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
  };
  return sink;
}

Progress::Progress(std::string what, uint64_t total, ProgressSink sink)
    : what_(std::move(what)), total_(total), sink_(std::move(sink)) {
  if (sink_.enabled) start_ = last_print_ = sink_.seconds();
}

Progress::~Progress() {
  if (shown_) sink_.print(kEraseLine);
}

void Progress::update(uint64_t done) {
  if (!sink_.enabled) return;
  const double now = sink_.seconds();
  if (now - start_ < kQuietSeconds || (shown_ && now - last_print_ < kIntervalSeconds)) return;
  sink_.print(std::string(kEraseLine) + progress_line(what_, done, total_, now - start_));
  last_print_ = now;
  shown_ = true;
}

std::string progress_line(std::string_view what, uint64_t done, uint64_t total, double elapsed_seconds) {
  std::string line = std::string(what) + ": " + std::to_string(done);
  if (total == 0) return line;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  line += " of " + std::to_string(total) + " (" + std::to_string(static_cast<int>(100 * share)) + " %)";
  if (done > 0 && done < total) line += ", " + duration_text(elapsed_seconds / share - elapsed_seconds) + " left";
  return line;
}

}  // namespace lathe
