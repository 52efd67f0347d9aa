#include "graph/passes/affine.h"

#include <cmath>

#include "graph/passes/match.h"

namespace lathe::passes {

std::optional<Affine> batchnorm_affine(const Graph& graph, const Node& batchnorm) {
  std::vector<float> parameters[4];  // gamma, beta, mean, variance
  for (size_t i = 0; i < 4; ++i) {
    std::optional<std::vector<float>> values = f32_constant(graph, batchnorm.inputs[i + 1]);
    if (!values || (i > 0 && values->size() != parameters[0].size())) return std::nullopt;
    parameters[i] = std::move(*values);
  }
  const double epsilon = std::get<BatchNormAttrs>(batchnorm.attrs).epsilon;
  Affine out;
  for (size_t c = 0; c < parameters[0].size(); ++c) {
    const double scale = parameters[0][c] / std::sqrt(parameters[3][c] + epsilon);
    const double shift = parameters[1][c] - parameters[2][c] * scale;
    if (!std::isfinite(scale) || !std::isfinite(shift)) return std::nullopt;
    out.scale.push_back(scale);
    out.shift.push_back(shift);
  }
  return out;
}

}  // namespace lathe::passes
