// What `quantize` can do beyond plain post-training quantization, each step alone or with others, and what it gained.
#pragma once
#include <string>
#include <vector>

#include "base/tree.h"
#include "quant/ptq.h"
#include "tools/arguments.h"
#include "tools/calibration.h"

namespace lathe::tools {

struct RemedyFlags {
  bool equalize = false, smooth = false, weight_mse = false, adaround = false;
  std::string bias_correction;  // "", "empirical" or "analytic"
  void add_to(Arguments& args);
  bool given() const { return equalize || smooth || weight_mse || adaround || !bias_correction.empty(); }
};

// One step that was taken.
struct Remedy {
  std::string name;
  size_t layers = 0;                 // that it changed
  std::vector<std::string> skipped;  // "node: why"
  double before_db = 0, after_db = 0;  // SQNR of the outputs against the float network's, over samples of the calibration set
};

struct RemedyResult {
  QuantizeResult quantized;
  Ranges ranges;  // of the network that was quantized
  std::vector<Remedy> remedies;
  uint64_t samples = 0;  // that the SQNR is of
};

// Quantizes model.graph, which went through lowering_passes() and is changed by steps that change weights before calibration, and takes the
// steps in this order: equalize, smooth, weight MSE, AdaRound, bias correction. Errors: a step that needs data without --data, an unknown
// kind of bias correction; those of calibrating and quantizing.
Result<RemedyResult> quantize_with_remedies(const std::string& path, ModelFile* model, const RemedyFlags& flags,
                                            const CalibrationFlags& calibration, const QuantizeOptions& options,
                                            const SessionOptions& session);

Tree remedies_json(const std::vector<Remedy>& remedies);
void print_remedies(const RemedyResult& result);

}  // namespace lathe::tools
