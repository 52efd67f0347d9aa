// Building a calibration set: of a pool of samples, those that calibration should see.
//
// Every stratum is given as many samples as any other, or all it has. Within one, the samples turn by turn are one that holds an
// extreme of some activation, and one from the spread of all: in the order of how wide their activations are, evenly. So rare
// groups and rare magnitudes are in, and what is common keeps its share of each stratum. The result depends on the samples'
// contents, not on their order, and not on threads. Memory: some numbers per sample, and for each stratum and activation two
// extremes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "quant/sample_runner.h"

namespace lathe {

struct SamplePool {
  SampleSource source;            // on_progress counts the samples that were run, of samples_to_run()
  std::vector<Hash128> contents;  // by sample, all different
  std::vector<uint32_t> strata;   // by sample, below the number of names
  std::vector<std::string> names;
};

struct BuildOptions {
  uint64_t size = 1200;
  uint64_t seed = 0;  // of what is left to chance: which of the common samples, which held-out ones
  SessionOptions session{};
};

// How much of the range that the pool gives an activation its first samples give, from 0 to 1, on average over activations.
struct CurvePoint {
  uint64_t samples = 0;
  double built = 0;          // of this set
  double random = 0;         // of a random set
  double least = 0;          // of this set for the activation that it covers least,
  std::string least_tensor;  // which is this one
};

// A sample that had no part in choosing the set, against the ranges that the set gives.
struct HeldOutSample {
  uint32_t sample = 0;
  uint64_t values = 0, beyond = 0;  // of its activations; beyond: outside the ranges
};

struct RefusedActivation {
  uint32_t sample = 0;
  std::string tensor;  // that became NaN or infinite
};

struct BuiltSet {
  std::vector<uint32_t> picked;  // the first n are the set of n samples
  std::vector<RefusedActivation> refused;
  std::vector<CurvePoint> curve;
  std::vector<HeldOutSample> held_out;  // a tenth of every stratum, set aside first, if the pool is larger than the set
};

// Runs `graph`, which went through lowering_passes(), on the whole pool and twice on as many samples as are picked. Errors: a
// pool without usable samples, more strata than samples wanted, the source's and the session's.
Result<BuiltSet> build_calibration_set(const Graph& graph, const SamplePool& pool, const BuildOptions& options);
uint64_t samples_to_run(uint64_t pool, uint64_t size);

}  // namespace lathe
