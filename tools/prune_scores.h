// Importance that only data can tell: gradients and activations of a network on samples of a data set, as prune/criteria.h asks
// for them.
//
// Batch normalization uses its stored statistics, as in inference: with those of the batch, scaling a channel's weights would
// change nothing and their Taylor term would be zero whatever the channel does. Sums run over samples in order, so that a result
// depends on neither threads nor machine load.
#pragma once
#include "data/dataset.h"
#include "prune/criteria.h"
#include "prune/head_moments.h"
#include "runtime/host/session.h"

namespace lathe::tools {

struct ScoreData {
  Dataset data;
  std::string split;     // that is read: `train`, else what for_choices() gives
  uint64_t samples = 0;  // spread evenly over the split
  uint32_t batch = 32;   // where the network leaves it open, else its own
  SessionOptions session = {};
};

// Errors: those of loading.
Result<ScoreData> load_score_data(const std::string& toml, uint64_t samples, const SessionOptions& session);

// The loss is cross-entropy of the first output, or the squared error where the set has targets. `data` must outlive the source.
// Errors of the source: data that does not fit, neither labels nor targets, an operator without a gradient.
prune::GradientSource gradient_source(const ScoreData& data);
prune::ActivationSource activation_source(const ScoreData& data);
// One sample per run. User groups of fewer than kFewInGroup samples are left out. Errors of the source: a network with a fixed
// batch, values that are no float32.
prune::HeadSource head_source(const ScoreData& data);

}  // namespace lathe::tools
