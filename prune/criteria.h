// How much each channel of a group matters, by a criterion.
//
// A channel's importance is the mean over the group's members that the criterion looks at, each divided by its mean over the
// channels first, so that 1 is an average channel whatever the members' units. Results depend on the graph, the seed and what the
// callbacks give. Who calls it: tools/pruning.cc, tests. Thread-safe: no state.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/ir.h"
#include "prune/groups.h"

namespace lathe::prune {

enum class Criterion : uint8_t {
  kGamma,       // |scale| of the batch normalizations (Liu et al., "Learning Efficient Convolutional Networks through Network
                // Slimming", 2017)
  kL1,          // mean |w| of the weights that make or read the channel
  kL2,          // root of the mean of w^2
  kTaylor,      // mean over batches of (sum g w)^2 (Molchanov et al., "Importance Estimation for Neural Network Pruning", 2019)
  kActivation,  // mean |a|
  kRandom,      // the baseline
};
// gamma, l1, l2, taylor, activation, random. Error: anything else; it lists these.
Result<Criterion> parse_criterion(std::string_view name);
const char* criterion_name(Criterion criterion);
bool needs_data(Criterion criterion);  // taylor, activation

// Gradients of the loss of one batch, by position of the constants that were asked for; each as long as its constant.
using GradientSink = std::function<void(const std::vector<std::span<const float>>& gradients)>;
// Runs the batches and calls the sink once for each.
using GradientSource =
    std::function<Result<void>(const Graph& graph, std::span<const ValueId> constants, const GradientSink& sink)>;
// Mean |a| over samples and places, by index along `axis` of each activation.
using ActivationSource =
    std::function<Result<std::vector<std::vector<double>>>(const Graph& graph, std::span<const Member> activations)>;

struct ImportanceOptions {
  Criterion criterion = Criterion::kL1;
  uint64_t seed = 1;             // kRandom
  GradientSource gradients;      // kTaylor
  ActivationSource activations;  // kActivation
};

struct Importance {
  std::vector<double> values;  // by channel, relative to the group's mean; empty if there are none
  std::vector<double> shown;   // what histograms and thresholds are of: the mean |gamma| of the members for gamma, else `values`
  std::string missing;         // why there are none
};

// One entry per group; frozen groups have none. Errors: the callbacks'; kInvalidArgument if gamma is asked for and no group has
// any, which names L1 and Taylor.
Result<std::vector<Importance>> importance(const Graph& graph, const std::vector<Group>& groups,
                                           const ImportanceOptions& options);

}  // namespace lathe::prune
