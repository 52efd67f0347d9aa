// Inputs for measurements that need no data: reproducible pseudo-random values.
#pragma once
#include <cstdint>

#include "tools/runner.h"

namespace lathe::tools {

// Every bound input gets values from SplitMix64(seed, input, element): floats in [-1, 1), 8-bit quantized values over the whole grid, other integers 0.
void fill_random_inputs(Runner& runner, uint64_t seed);

}  // namespace lathe::tools
