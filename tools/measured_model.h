// A model ready for measuring: loaded, bound for a batch, its inputs filled with reproducible values.
#pragma once
#include <cstdint>
#include <string>

#include "tools/arguments.h"
#include "tools/model.h"
#include "tools/runner.h"

namespace lathe::tools {

struct MeasuredModel {
  HostModel model;
  SessionOptions session;
  Runner runner;
};

// Seconds of warm-up before `seconds` of measuring: a quarter of them, at most one.
constexpr double warmup_seconds(double seconds) { return seconds < 4 ? seconds / 4 : 1; }

// What to measure; shared by the flags of `bench` and `profile`.
struct MeasureFlags {
  std::string model;
  uint32_t batch = 1;
  double seconds = 1.0;
  bool json = false;
  SessionFlags session;
  ImportFlags import;
  void add_to(Arguments& args);
};

// A session of the model's program, bound for the batch. Every input gets values from SplitMix64: floats in [-1, 1), 8-bit quantized values over the whole grid, other integers 0.
// Errors: those of loading; a batch of 0, or one that the model does not take.
Result<Runner> make_runner(const MeasureFlags& flags, const HostModel& model, const SessionOptions& session);
Result<MeasuredModel> open_measured(const MeasureFlags& flags);

}  // namespace lathe::tools
