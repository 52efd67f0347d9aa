#include "quant/grid.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <string>

#include "lathe/arith.h"

namespace lathe {
namespace {

constexpr double kBiasLimit = 1073741824.0;      // 2^30 steps
constexpr double kZeroRowBiasSteps = 1048576.0;  // 2^20: exact in float32 and far from the accumulator's bound

bool usable_scale(double s) { return std::isfinite(s) && s >= FLT_MIN && s <= FLT_MAX; }

double max_abs(std::span<const float> row) {
  double m = 0;
  for (const float v : row) m = std::max(m, std::fabs(static_cast<double>(v)));
  return m;
}

// `s`, or more: the scale for weights with a bias of up to bias_abs.
double weight_scale(double s, double bias_abs, double input_scale, bool* widened) {
  if (!usable_scale(s)) s = bias_abs > 0 ? bias_abs / (input_scale * kZeroRowBiasSteps) : 1.0;
  if (!usable_scale(s)) s = 1.0;
  if (bias_abs / (input_scale * s) > kBiasLimit) {
    s = bias_abs / (input_scale * kBiasLimit);
    *widened = true;
  }
  return s;
}

double squared_error(std::span<const float> row, double s, double largest) {
  double sum = 0;
  for (const float v : row) {
    const double d = static_cast<double>(v) - s * std::clamp(std::nearbyint(static_cast<double>(v) / s), -largest, largest);
    sum += d * d;
  }
  return sum;
}

// The part of max|row| that the grid should reach.
double best_reach(std::span<const float> row, double largest) {
  constexpr int kSteps = 50;
  const double most = max_abs(row);
  if (!usable_scale(0.5 * most / largest)) return most;
  double best = most, least = squared_error(row, most / largest, largest);
  for (int i = 1; i <= kSteps; ++i) {
    const double reach = most * (1 - 0.01 * i), error = squared_error(row, reach / largest, largest);
    if (error < least) best = reach, least = error;
  }
  return best;
}

// Whether the factor between sums and results is the same float32 however it is computed: in double and rounded once, as here,
// or multiplied and divided in float32.
bool same_multiplier(float s, const WeightOptions& options) {
  const double s_x = options.input_scale, s_y = options.output_scale;
  return static_cast<float>(s_x * static_cast<double>(s) / s_y) == options.input_scale * s / options.output_scale;
}

// The nearest scale with that property; about a third of them lack it.
float settled_scale(float scale, const WeightOptions& options) {
  constexpr int kMostUlps = 64;
  float up = scale, down = scale;
  for (int i = 0; i <= kMostUlps; ++i) {
    if (same_multiplier(up, options)) return up;
    if (same_multiplier(down, options)) return down;
    up = std::nextafter(up, FLT_MAX);
    down = std::nextafter(down, FLT_MIN);
  }
  return scale;
}

Result<void> check_finite(std::span<const float> values, const char* what) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return fail(Code::kInvalidArgument, std::string(what) + " element " + std::to_string(i) + " is not finite");
  return {};
}

}  // namespace

QuantParams activation_params(const Range& range) {
  const double lo = std::min(range.min, 0.0), hi = std::max(range.max, 0.0);
  const double scale = (hi - lo) / 255.0;
  if (!usable_scale(scale)) return {1.0f, 0, -128, 127};
  const auto s = static_cast<float>(scale);
  const double z = std::nearbyint(-128.0 - lo / scale);
  return {s, static_cast<int32_t>(std::clamp(z, -128.0, 127.0)), -128, 127};
}

QuantParams symmetric_params(const Range& range) {
  const double scale = std::max(std::fabs(range.min), std::fabs(range.max)) / 127.0;
  return {usable_scale(scale) ? static_cast<float>(scale) : 1.0f, 0, -128, 127};
}

Result<QuantizedWeights> quantize_weights(std::span<const float> weights, std::span<const float> bias, uint32_t channels,
                                          const WeightOptions& options) {
  LATHE_CHECK_OK(check_finite(weights, "weight"));
  LATHE_CHECK_OK(check_finite(bias, "bias"));
  QuantizedWeights out;
  if (channels == 0) return out;
  const size_t row = weights.size() / channels;
  const double largest = options.largest;
  const uint32_t scale_count = options.per_channel ? channels : 1;
  for (uint32_t c = 0; c < scale_count; ++c) {
    bool widened = false;
    const auto w = options.per_channel ? weights.subspan(c * row, row) : weights;
    const auto b = bias.empty() || !options.per_channel ? bias : bias.subspan(c, 1);
    const double s = options.scales.empty() ? (options.least_error ? best_reach(w, largest) : max_abs(w)) / largest
                                            : static_cast<double>(options.scales[c]);
    const auto scale = static_cast<float>(weight_scale(s, max_abs(b), options.input_scale, &widened));
    out.scales.push_back(settled_scale(scale, options));
    out.widened_channels += widened;
  }
  out.values.resize(weights.size());
  for (uint32_t c = 0; c < channels; ++c) {
    const float s = out.scales[options.per_channel ? c : 0];
    for (size_t i = c * row; i < (c + 1) * row; ++i) out.values[i] = static_cast<int8_t>(quantize(weights[i], s, 0, -options.largest, options.largest));
    if (bias.empty()) continue;
    const double steps = static_cast<double>(bias[c]) / (static_cast<double>(options.input_scale) * static_cast<double>(s));
    out.bias.push_back(static_cast<int32_t>(std::clamp(std::nearbyint(steps), -kBiasLimit, kBiasLimit)));
  }
  return out;
}

}  // namespace lathe
