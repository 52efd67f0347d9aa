#include "base/random.h"

#include <cmath>
#include <utility>

namespace lathe {

double Random::normal() {
  for (;;) {
    const double u = 2 * uniform() - 1, v = 2 * uniform() - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

double Random::gamma(double shape) {
  if (shape < 1) {
    // gamma(shape) = gamma(shape + 1) u^(1 / shape)
    const double u = 1 - uniform();
    return gamma(shape + 1) * std::pow(u, 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = 1 - uniform();
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double Random::beta(double a, double b) {
  // Of tiny shapes both gammas may round to 0.
  for (;;) {
    const double x = gamma(a), y = gamma(b);
    if (x + y > 0) return x / (x + y);
  }
}

std::vector<uint32_t> permutation(uint64_t n, Random random) {
  std::vector<uint32_t> out(n);
  for (uint64_t i = 0; i < n; ++i) out[i] = static_cast<uint32_t>(i);
  for (uint64_t i = n; i > 1; --i) std::swap(out[i - 1], out[random.below(i)]);
  return out;
}

}  // namespace lathe
