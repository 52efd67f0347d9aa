// Shapes that kernels are measured on: the list of shapes.inc, and shapes that a user names.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace lathe::bench {

enum class ShapeKind { kGemm, kConv, kDepthwise, kWindow, kRows };

// kGemm: m x n x k. kRows: m rows of n. The others: one NHWC image h x w x c, square kernel, `pad` pixels on all sides; oc is c
// but for kConv.
struct BenchShape {
  ShapeKind kind;
  uint32_t m = 1, n = 1, k = 1;
  uint32_t h = 1, w = 1, c = 1, oc = 1, kernel = 1, stride = 1, pad = 0;
  uint32_t zeros = 0;  // kGemm and kConv: percent of weight blocks (4 k x 16 channels) that are zero
  uint32_t oh() const { return (h + 2 * pad - kernel) / stride + 1; }
  uint32_t ow() const { return (w + 2 * pad - kernel) / stride + 1; }
  // "128x384x384", "56x56x64:64:3:1" (image, output channels, kernel, stride), "56x56x144:3:2" (depthwise, pooling), "128x384";
  // "128x384x384@50" where half of the weight blocks are zero.
  std::string text() const;
};

// All shapes of a kind in shapes.inc.
std::vector<BenchShape> listed_shapes(ShapeKind kind);

// The form that text() writes, for kGemm, kConv and kDepthwise; the padding keeps the image's size (kernel / 2). Errors: another
// form, a number of 0, a kernel over 31, more than 99 % of zeros, a layer of more than 2^31 multiply-adds.
Result<BenchShape> parse_shape(ShapeKind kind, const std::string& text);

}  // namespace lathe::bench
