// Feeding samples of a data set to a model: which input gets which, and whether they fit.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "tools/runner.h"

namespace lathe::tools {

// What a model says of an input.
struct ModelInput {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims;  // with batch; -1 where open
  bool quantized = false;     // s8 with parameters: real values will do too
};

// For every model input the index of the data set's input: by name, or one for one. A quantized input
// takes f32 data, too. Errors: names that do not match, another dtype, dims that differ
// ("input 'image': the model takes 1x28x28, the data set gives 3x32x32"), preprocessing that differs from what the model stores.
Result<std::vector<size_t>> match_inputs(const std::vector<ModelInput>& model, const std::map<std::string, std::string>& metadata,
                                         const Dataset& data);
std::vector<ModelInput> model_inputs(const LoadedProgram& program);

// One sample's outputs as float32, by output; valid during the call.
using OutputSink = std::function<Result<void>(uint64_t index, const std::vector<std::span<const float>>& outputs)>;

struct PredictOptions {
  uint64_t limit = 0;    // samples at most; 0: all
  uint32_t batch = 0;    // 0: 16 where the model leaves it open, else 1
  std::string progress;  // what to say; empty: nothing
};

// Runs the samples of `split` in order. Stops on Ctrl-C. `matching` is match_inputs()'s.
Result<uint64_t> predict(Runner& runner, const Dataset& data, const DataSplit& split, const std::vector<size_t>& matching,
                         const PredictOptions& options, const OutputSink& sink);

}  // namespace lathe::tools
