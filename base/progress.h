// One line of progress on stderr, with the time left: only on a terminal, only for work of over two seconds, at most five times a
// second.
//
// The line is rewritten in place and erased at the end, so that it never mixes with output. Tools make one and hand it to long
// loops, which call update(). Not thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lathe {

// Where the line goes and what time it is; tests give their own.
struct ProgressSink {
  bool enabled = false;
  std::function<double()> seconds;  // monotonic
  std::function<void(std::string_view)> print;
};
// stderr and the steady clock; not enabled when stderr is no terminal.
ProgressSink stderr_sink();

class Progress {
 public:
  // `what`: "calibrating". `total` in units of update(); 0 if it is not known.
  Progress(std::string what, uint64_t total, ProgressSink sink = stderr_sink());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Cheap enough for every sample. `done` counts from the start, at most total.
  void update(uint64_t done);

 private:
  std::string what_;
  uint64_t total_;
  ProgressSink sink_;
  double start_ = 0;
  double last_print_ = 0;
  bool shown_ = false;
};

// "6 s", "3 min 20 s", "2 h 5 min"; begun seconds count.
std::string duration_text(double seconds);
// "calibrating: 300 of 1200 (25 %), 6 s left".
std::string progress_line(std::string_view what, uint64_t done, uint64_t total, double elapsed_seconds);

}  // namespace lathe
