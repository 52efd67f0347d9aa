// What a report on a model says, measured and read.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/evaluation.h"
#include "tools/flags.h"

namespace lathe::tools {

struct ReportRequest {
  std::string model, baseline, data, metric = "accuracy", sensitivity;
  uint64_t limit = 0;       // samples of the accuracy; 0: all
  uint64_t noise_samples = 64;  // of the noise by layer
  double seconds = 1;       // of measuring each model, and of the profile
  SessionFlags session;
  ImportFlags import;
};

// One of the two models.
struct ReportSide {
  std::string path;
  uint64_t file_bytes = 0, parameter_bytes = 0, arena_bytes = 0, macs = 0;
  double p50_us = 0, p99_us = 0;  // of whole runs at batch 1
};

enum class LayerPrecision : uint8_t { kInt8, kHalf, kFloat, kOther };
const char* precision_name(LayerPrecision precision);  // "INT8", "FP16", "FP32", "other"

// One step of a run.
struct ReportLayer {
  std::string name, op;
  LayerPrecision precision = LayerPrecision::kOther;  // of what it reads: a dequantize step is INT8, a quantize step is not
  double us = 0, share = 0;                           // median, and of the sum of medians
  uint64_t macs = 0;
  std::optional<double> sqnr_db;  // of its result against the baseline's; infinite: equal
};

// A line of what `lathe sensitivity --json` printed.
struct SensitiveLayer {
  std::string name;
  std::optional<double> output_db, drop;
  bool keep = false;
};

struct Report {
  ReportSide model;
  std::optional<ReportSide> baseline;
  std::string isa;
  uint32_t threads = 1;
  std::map<std::string, std::string> metadata;
  std::vector<ReportLayer> layers;  // in the order of the run
  std::optional<EvalReport> accuracy;
  std::string split;  // that the accuracy is of
  uint64_t noise_samples = 0;  // 0: noise was not measured
  std::vector<SensitiveLayer> sensitivity;
  std::vector<ObservedValue> calibration;  // of the model's file
};

// Errors: those of loading, binding and evaluating; a sensitivity file that is none.
Result<Report> gather_report(const ReportRequest& request);

}  // namespace lathe::tools
