// Affine quantization parameters of a tensor: real = (q - zero_point) * scale.
#pragma once
#include <stdint.h>

namespace lathe {

// Per-tensor parameters. Requires: scale finite and > 0, qmin <= zero_point <= qmax, all within the dtype.
struct QuantParams {
  float scale = 1.0f;
  int32_t zero_point = 0;
  int32_t qmin = -128;
  int32_t qmax = 127;
  constexpr bool operator==(const QuantParams&) const = default;
};

}  // namespace lathe
