// CausalConvWithState: a depthwise convolution over what came before and the input, and the end of both for the next call.
#include <string>

#include "graph/import/onnx/reshape.h"
#include "graph/import/onnx/window.h"

namespace lathe::onnx {
namespace {

SliceAttrs slice_of(int32_t axis, int32_t begin, int32_t end) {
  return {.axes = {1, {axis}}, .begins = {1, {begin}}, .ends = {1, {end}}, .steps = {1, {1}}};
}

// [n, c, l] with `past` elements before it: the state, or zeros.
Result<ValueId> with_past(NodeImport& n, ValueId x, int32_t past) {
  if (past == 0) return x;
  if (n.has_input(3)) {
    LATHE_TRY(const ValueId state, n.value(3));
    return n.emit("joined", Op::kConcat, AxisAttrs{2}, {state, x});
  }
  PadAttrs pad;
  pad.before = {3, {0, 0, past}};
  pad.after = {3, {0, 0, 0}};
  return n.emit("joined", Op::kPad, pad, {x});
}

Result<ValueId> convolved(NodeImport& n, ValueId joined, const ConstTensor& weight) {
  std::vector<Dim> dims = n.type(joined).dims;
  dims.insert(dims.begin() + 2, n.dims().constant(1));
  LATHE_TRY(const ValueId image, reshaped(n, "image", joined, dims));
  LATHE_TRY(const ValueId nhwc, n.emit("nhwc", Op::kTranspose, nchw_to_nhwc(), {image}));
  ConstTensor w = weight;
  w.dims.insert(w.dims.begin() + 2, 1);
  LATHE_TRY(const ValueId ohwi, n.builder().constant(permuted(w, {0, 2, 3, 1})));
  std::vector<ValueId> operands = {nhwc, ohwi};
  if (n.has_input(2)) {
    LATHE_TRY(const auto bias, n.constant(2));
    if (!bias) return fail(Code::kUnsupported, "bias '" + std::string(n.proto().inputs[2]) + "' is not constant; --const can fix it");
    LATHE_TRY(operands.emplace_back(), n.value(2));
  }
  Conv2dAttrs attrs;
  attrs.groups = static_cast<int32_t>(weight.dims[0]);
  LATHE_TRY(const ValueId y, n.emit("conv", Op::kConv2d, attrs, operands));
  LATHE_TRY(const ValueId nchw, n.emit("nchw", Op::kTranspose, nhwc_to_nchw(), {y}));
  std::vector<Dim> line = n.type(nchw).dims;
  line.erase(line.begin() + 2);
  return reshaped(n, "line", nchw, line);
}

}  // namespace

Result<void> import_causal_conv_with_state(NodeImport& n) {
  LATHE_TRY(const std::string_view activation, n.text("activation", "none"));
  LATHE_TRY(const auto weight, n.constant(1));
  if (!weight)
    return fail(Code::kUnsupported, "weight '" + std::string(n.proto().inputs[1]) + "' is not constant; --const can fix it");
  LATHE_TRY(const ValueId x, n.value(0));
  if (activation != "none" && activation != "silu" && activation != "swish")
    return fail(Code::kUnsupported, "attribute 'activation' '" + std::string(activation) + "' is not supported");
  if (n.rank(x) != 3 || weight->dims.size() != 3 || weight->dims[1] != 1)
    return fail(Code::kUnsupported, "an input of rank " + std::to_string(n.rank(x)) + " with a weight of dims " +
                                        dims_text(weight->dims) + " is not supported, only depthwise over one axis");
  const auto past = static_cast<int32_t>(weight->dims[2] - 1);
  LATHE_TRY(const ValueId joined, with_past(n, x, past));
  LATHE_TRY(ValueId y, convolved(n, joined, *weight));
  if (activation != "none") {
    LATHE_TRY(y, n.emit("silu", Op::kSilu, NoAttrs{}, {y}));
  }
  n.bind({y, nullptr});
  if (!n.has_output(1)) return {};
  return n.finish(Op::kSlice, past == 0 ? slice_of(2, 0, 0) : slice_of(2, -past, INT32_MAX), {joined}, 1, "state");
}

}  // namespace lathe::onnx
