// Float layers with INT8 weights ("dynamic range"). TFLite quantizes their inputs on the way, symmetrically: a fully connected
// layer row by row, a convolution image by image. DynamicFullyConnected computes just that. A convolution with one image is the
// same on the pixels that each result sees, side by side.
//
// Weights with several scales for a convolution, or layers that ask for asymmetric inputs, are quantized in another way there;
// here such weights become float, which is nearer to the model before it was quantized.
#include <algorithm>

#include "graph/import/tflite/importer.h"
#include "graph/import/tflite/layers.h"

namespace lathe::tflite {
namespace {

constexpr int64_t kMaxTaps = 64;  // each is a Slice

// Where tap `tap` of the kernel finds its pixels along axis 1 + i of a padded image.
void add_axis(const Conv2dAttrs& a, size_t i, int64_t tap, int64_t results, SliceAttrs& s) {
  const auto begin = static_cast<int32_t>(tap * a.dilation[i]);
  s.axes.values[s.axes.count++] = static_cast<int32_t>(1 + i);
  s.begins.values[s.begins.count++] = begin;
  s.ends.values[s.ends.count++] = begin + static_cast<int32_t>((results - 1) * a.stride[i]) + 1;
  s.steps.values[s.steps.count++] = a.stride[i];
}

// [1, h, w, ic] as [1, oh, ow, taps * ic].
Result<ValueId> patches(NodeImport& n, ValueId x, const Conv2dAttrs& a, int64_t kh, int64_t kw) {
  PadAttrs pad;
  pad.before.count = pad.after.count = 4;
  for (int i = 0; i < 2; ++i) pad.before.values[1 + i] = a.pad[i], pad.after.values[1 + i] = a.pad[2 + i];
  LATHE_TRY(const ValueId padded, n.emit("padded", Op::kPad, pad, {x}));
  const int64_t kernel[2] = {kh, kw};
  int64_t results[2];
  for (size_t i = 0; i < 2; ++i) {
    const auto in = n.dim(padded, 1 + i);
    results[i] = in ? (*in - ((kernel[i] - 1) * a.dilation[i] + 1)) / a.stride[i] + 1 : 0;
    if (results[i] < 1) return fail(Code::kInvalidArgument, "the window is larger than the padded input");
  }
  std::vector<ValueId> taps;
  for (int64_t r = 0; r < kh; ++r) {
    for (int64_t c = 0; c < kw; ++c) {
      SliceAttrs s;
      add_axis(a, 0, r, results[0], s);
      add_axis(a, 1, c, results[1], s);
      LATHE_TRY(taps.emplace_back(), n.emit("tap" + std::to_string(r * kw + c), Op::kSlice, s, {padded}));
    }
  }
  LATHE_TRY(taps, n.few_parts(3, std::move(taps), {}));
  return n.emit("patches", Op::kConcat, AxisAttrs{3}, std::move(taps));
}

// Whether every pixel of x is in some window, so that the largest of the windows is the largest of x.
bool covers(NodeImport& n, ValueId x, const Conv2dAttrs& a, const int64_t (&kernel)[2]) {
  for (size_t i = 0; i < 2; ++i) {
    const auto in = n.dim(x, 1 + i);
    if (!in || a.dilation[i] != 1 || kernel[i] < a.stride[i]) return false;
    const int64_t padded = *in + a.pad[i] + a.pad[2 + i];
    if ((padded - kernel[i]) / a.stride[i] * a.stride[i] + kernel[i] < a.pad[i] + *in) return false;
  }
  return true;
}

// The weight as rows: [oc, taps * ic], the same bytes.
ValueId weight_rows(NodeImport& n, ValueId w, int64_t columns) {
  Builder& b = n.builder();
  const Value value = b.graph.value(w);
  return b.graph.add_constant(b.value_name(value.name + ":rows"),
                              {value.type.dtype, {value.type.dims[0], n.dims().constant(columns)}}, value.constant,
                              value.quant);
}

}  // namespace

bool is_dynamic(NodeImport& n, ValueId x, ValueId w, bool asymmetric_inputs) {
  const auto& q = n.quant(w);
  return !n.quant(x) && q && !asymmetric_inputs && n.type(w).dtype == DType::kS8 && (q->axis == -1 || q->axis == 0) &&
         std::all_of(q->zero_points.begin(), q->zero_points.end(), [](int32_t z) { return z == 0; });
}

Result<void> finish_dynamic(NodeImport& n, ValueId x, ValueId w, const ActivationBounds& bounds, bool per_row) {
  std::vector<ValueId> operands = {x, w};
  if (n.has_input(2)) {
    LATHE_TRY(operands.emplace_back(), n.value(2));
  }
  return n.finish(Op::kDynamicFullyConnected, DynamicFullyConnectedAttrs{per_row ? 1 : 0, bounds.lo, bounds.hi},
                  std::move(operands));
}

bool is_dynamic_conv(NodeImport& n, ValueId x, ValueId w, const Conv2dAttrs& a) {
  const auto kh = n.dim(w, 1), kw = n.dim(w, 2);
  return is_dynamic(n, x, w, false) && n.quant(w)->axis == -1 && n.dim(x, 0) == 1 && a.groups == 1 && *kh * *kw <= kMaxTaps &&
         covers(n, x, a, {*kh, *kw});
}

Result<void> finish_dynamic_conv(NodeImport& n, ValueId x, ValueId w, const Conv2dAttrs& a) {
  const int64_t kh = *n.dim(w, 1), kw = *n.dim(w, 2);
  const bool pointwise = kh * kw == 1 && a.stride[0] == 1 && a.stride[1] == 1;
  if (!pointwise) {
    LATHE_TRY(x, patches(n, x, a, kh, kw));
  }
  return finish_dynamic(n, x, weight_rows(n, w, kh * kw * *n.dim(w, 3)), {a.lo, a.hi}, false);
}

}  // namespace lathe::tflite
