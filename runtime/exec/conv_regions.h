// The rectangles that a convolution's output is computed in: within one, every pixel sees the same taps of the kernel.
//
// Along an axis, output o sees tap t at input o * stride - pad + t * dilation, which is padding outside [0, in). Outputs in
// [inside, inside_end) see no padding. Before and after them the valid taps are a range, which changes from output to output.
// Pure functions, freestanding, 32-bit fields: a ConvAxis lives in ConvParams.
#pragma once
#include <stdint.h>

namespace lathe {

struct ConvAxis {
  uint32_t in, out, kernel, stride, dilation, pad;
  uint32_t inside, inside_end;  // inside <= inside_end <= out

  // Input index of tap 0 of output o; negative in the padding.
  constexpr int32_t start(uint32_t o) const { return static_cast<int32_t>(o * stride) - static_cast<int32_t>(pad); }
  // Input elements that `count` outputs span, padding included.
  constexpr uint32_t window(uint32_t count) const { return (count - 1) * stride + (kernel - 1) * dilation + 1; }
};

// The axis with its inside. Requires: steps and kernel > 0, all products below 2^31.
constexpr ConvAxis conv_axis(uint32_t in, uint32_t out, uint32_t kernel, uint32_t stride, uint32_t dilation, uint32_t pad) {
  ConvAxis a{in, out, kernel, stride, dilation, pad, 0, 0};
  const uint32_t reach = (kernel - 1) * dilation + 1;
  const uint32_t first = (pad + stride - 1) / stride;
  const uint32_t end = in + pad < reach ? 0 : (in + pad - reach) / stride + 1;
  a.inside = first < out ? first : out;
  a.inside_end = end < a.inside ? a.inside : end < out ? end : out;
  return a;
}

// Outputs [first, end) that see taps [tap, tap_end), and those alone.
struct ConvSpan {
  uint32_t first, end, tap, tap_end;
};

constexpr ConvSpan taps_of(const ConvAxis& a, uint32_t o) {
  const int32_t start = a.start(o), in = static_cast<int32_t>(a.in), dilation = static_cast<int32_t>(a.dilation);
  ConvSpan s{o, o + 1, 0, a.kernel};
  if (start < 0) s.tap = static_cast<uint32_t>((dilation - 1 - start) / dilation);
  if (start >= in) {
    s.tap_end = 0;
  } else if (const uint32_t valid = static_cast<uint32_t>((in - 1 - start) / dilation) + 1; valid < a.kernel) {
    s.tap_end = valid;
  }
  if (s.tap > s.tap_end) s.tap = s.tap_end;
  return s;
}

// The span that starts at `o` and ends at `end` at the latest.
constexpr ConvSpan span_from(const ConvAxis& a, uint32_t o, uint32_t end) {
  if (o >= a.inside && o < a.inside_end) return {o, a.inside_end < end ? a.inside_end : end, 0, a.kernel};
  ConvSpan s = taps_of(a, o);
  for (; s.end < end && s.end != a.inside; ++s.end) {
    const ConvSpan next = taps_of(a, s.end);
    if (next.tap != s.tap || next.tap_end != s.tap_end) break;
  }
  return s;
}

}  // namespace lathe
