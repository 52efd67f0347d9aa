// Weights to begin with, where a network is trained from scratch.
#pragma once
#include <cstdint>

#include "graph/ir.h"

namespace lathe::train {

// Forgets what the network has learned: weights become normal with variance 2 / fan-in (He, Zhang, Ren, Sun, "Delving Deep into
// Rectifiers", 2015), tables normal with variance 1 / width, scales and variances 1, biases and means 0. Constants that are no
// parameters stay. The same seed gives the same bits on every machine. Error: the network has no parameters.
Result<void> initialize(Graph& model, uint64_t seed);

}  // namespace lathe::train
