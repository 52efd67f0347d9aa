// Why quantizing costs accuracy, what brings it back, and whether training with quantization is worth it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/evaluation.h"
#include "tools/remedies.h"

namespace lathe::tools {

struct AdviceFlags {
  bool advise = false;
  uint64_t releases = 1;
  double train_budget_hours = 8;
  uint64_t epochs = 10;  // of training with quantization
  void add_to(Arguments& args);
};

struct AdviceRequest {
  std::string model;
  Metric metric;
  uint64_t limit = 2000;
  CalibrationFlags calibration;
  QuantizeOptions quantize;
  SessionOptions session;
  AdviceFlags flags;
};

// One network that was tried.
struct AdviceRow {
  std::string what;
  double value = 0, drop = 0;
  std::string worst_group;  // empty without groups of enough samples
  double worst_drop = 0;
};

struct Advice {
  double value = 0;  // of the float network
  bool float_is_kept = false;  // with every operator left float, the converted network gives the same bits
  std::vector<AdviceRow> causes, remedies;
  size_t best = 0;                    // of remedies
  std::vector<std::string> replace;   // operators to look at instead, with the reason
  double epoch_seconds = 0;           // three times the float network's forward runs over split train; 0: there is none
  uint64_t train_samples = 0, samples = 0;
  std::string split;
  RemedyResult network;               // the best
};

// Walks from the float network to the best remedy, on the split for choices: the network with quantizers that do nothing, weights alone in
// INT8, activations alone in INT8, then what each remedy recovers, alone and together. Errors: those of calibrating, quantizing and
// evaluating.
Result<Advice> advise(const ModelFile& model, const AdviceRequest& request);

// Whether training with quantization is worth it, as sentences.
std::vector<std::string> verdict(const Advice& advice, const AdviceRequest& request);
void print_advice(const Advice& advice, const AdviceRequest& request);
Tree advice_json(const Advice& advice, const AdviceRequest& request);

}  // namespace lathe::tools
