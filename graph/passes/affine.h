// BatchNorm with constant parameters as y = x * scale[c] + shift[c].
#pragma once
#include <optional>
#include <vector>

#include "graph/ir.h"

namespace lathe::passes {

// scale = gamma / sqrt(variance + epsilon), shift = beta - mean * scale, in double.
struct Affine {
  std::vector<double> scale;
  std::vector<double> shift;
};
// Nothing if a parameter is not constant or a result is not finite.
std::optional<Affine> batchnorm_affine(const Graph& graph, const Node& batchnorm);

}  // namespace lathe::passes
