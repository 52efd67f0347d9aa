// Quantization-aware training: calibrate, train on the grids, convert. Shared by `lathe train --qat` and by what compresses.
#pragma once
#include <string>

#include "quant/qat.h"
#include "tools/keep_list.h"
#include "tools/remedies.h"
#include "tools/training.h"

namespace lathe::tools {

struct QatFlags {
  bool qat = false, per_tensor = false, equalize = false, weight_mse = false, fixed_steps = false;
  uint32_t weight_bits = 8;
  KeepFlags keep;
  CalibrationFlags calibration;  // its data is the training's
  // Declared behind `--data` of the verb.
  void add_to(Arguments& args);
};

struct QatResult {
  TrainResult training;  // its graph is the float one, on grids
  RemedyResult start;    // post-training quantization of the same network, from where training began
  Graph graph;           // integer
  KeepList keep;         // what stayed float on request
};

// Trains `model`, a float network as it was read, on split train; every judgement is of the converted integer network, the first of
// them of post-training quantization, so that the result is never worse on split val. Errors: of calibrating, quantizing (already
// quantized) and training.
Result<QatResult> train_quantized(const std::string& path, ModelFile model, const Dataset& data, const QatFlags& flags,
                                  TrainRequest request);

}  // namespace lathe::tools
