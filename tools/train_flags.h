// Options of training, and the request they make.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/arguments.h"
#include "tools/flags.h"
#include "tools/training.h"

namespace lathe::tools {

struct TrainFlags {
  std::string optimizer = "sgd", schedule = "cosine", loss, metric, milestones, augment, checkpoint;
  std::vector<std::string> fixed;
  uint32_t epochs = 10, batch = 128, patience = 0;
  uint64_t seed = 1;
  std::optional<double> rate, base_rate, weight_decay;
  double momentum = 0.9, warmup = 0, step_decay = 0.1, last_factor = 0, clip = 0, smoothing = 0, average = 0, sparsity = 0;
  bool nesterov = false, from_scratch = false, keep_rate = false;
  std::string teacher, teacher_cache;
  double alpha = 0.5, temperature = 4;

  void add_to(Arguments& args);
  // Also loads the teacher; `output` says where its cache is kept unless the flags do. Errors: names that are none.
  Result<TrainRequest> request(const Dataset& data, const std::string& output, const SessionOptions& session,
                               const ImportFlags& import) const;

 private:
  Result<train::TrainerOptions> trainer(const Dataset& data) const;
  Result<Metric> judged_by(train::Loss loss) const;
  Result<std::vector<double>> milestone_epochs() const;
};

}  // namespace lathe::tools
