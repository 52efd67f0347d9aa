// Convolution, transposed or not.
#include <algorithm>
#include <string>

#include "graph/import/onnx/window.h"

namespace lathe::onnx {
namespace {

// A convolution's weight as a constant.
Result<ConstTensor> read_weight(NodeImport& n) {
  LATHE_TRY(const auto weight, n.weight(1));
  if (!weight)
    return fail(Code::kUnsupported, "weight '" + std::string(n.proto().inputs[1]) + "' is not constant; --const can fix it");
  if (weight->dims.size() != 3 && weight->dims.size() != 4)
    return fail(Code::kUnsupported, "a weight of rank " + std::to_string(weight->dims.size()) +
                                        " is not supported, only 1-d and 2-d convolution (rank 3 and 4)");
  return *weight;
}

// The weight with as many spatial axes as the images.
Result<void> fit_weight(ConstTensor& w, const Images& images) {
  const size_t wanted = images.one_axis ? 3 : 4;
  if (w.dims.size() != wanted)
    return fail(Code::kInvalidArgument,
                "the weight has rank " + std::to_string(w.dims.size()) + ", the input has " + std::to_string(wanted));
  if (images.one_axis) w.dims.insert(w.dims.begin() + 2, 1);
  return {};
}

// A convolution with packed weights and the bias that the node may have.
Result<void> finish_convolution(NodeImport& n, Op op, Attrs attrs, const Images& images, ValueId ohwi) {
  std::vector<ValueId> operands = {ohwi};
  if (n.has_input(2)) {
    LATHE_TRY(const auto bias, n.constant(2));
    if (!bias)
      return fail(Code::kUnsupported, "bias '" + std::string(n.proto().inputs[2]) + "' is not constant; --const can fix it");
    LATHE_TRY(operands.emplace_back(), n.value(2));
  }
  return finish_images(n, images, op, std::move(attrs), std::move(operands));
}

// Attribute 'kernel_shape', if it is there, repeats the weight's last dims.
Result<void> check_kernel(const Window& w, const ConstTensor& weight) {
  if (!w.kernel || *w.kernel == std::vector<int64_t>{weight.dims[2], weight.dims[3]}) return {};
  return fail(Code::kInvalidArgument,
              "kernel_shape is " + dims_text(*w.kernel) + ", the weight's dims are " + dims_text(weight.dims));
}

struct Convolution {
  Conv2dAttrs attrs;
  Images images;
  ValueId ohwi;
};

// Attributes, images and weight of a node that convolves, whatever its element types.
Result<Convolution> read_convolution(NodeImport& n) {
  LATHE_TRY(Window w, read_window(n));
  LATHE_TRY(const int64_t groups, n.integer("group", 1));
  LATHE_TRY(ConstTensor weight, read_weight(n));
  LATHE_TRY(const Images images, read_images(n));
  LATHE_CHECK_OK(fit_weight(weight, images));
  LATHE_TRY(w, fitted(w, images));
  if (groups < 1 || groups > INT32_MAX) return fail(Code::kInvalidArgument, "group is " + std::to_string(groups));

  Conv2dAttrs attrs;
  attrs.groups = static_cast<int32_t>(groups);
  int32_t kernel[2] = {static_cast<int32_t>(weight.dims[2]), static_cast<int32_t>(weight.dims[3])};
  LATHE_CHECK_OK(check_kernel(w, weight));
  LATHE_CHECK_OK(apply_window(n, w, images.value, kernel, attrs));

  // OIHW to OHWI. The bytes are shared where only axes of size 1 move: 1x1 kernels and depthwise weights.
  LATHE_TRY(const ValueId ohwi, n.builder().constant(permuted(weight, {0, 2, 3, 1})));
  return Convolution{attrs, images, ohwi};
}

}  // namespace

Result<void> import_conv(NodeImport& n) {
  LATHE_TRY(const Convolution c, read_convolution(n));
  return finish_convolution(n, Op::kConv2d, c.attrs, c.images, c.ohwi);
}

// Exact sums of plain integers. Operands 2 and 3 are zero points.
Result<void> import_conv_integer(NodeImport& n) {
  LATHE_TRY(const Convolution c, read_convolution(n));
  std::vector<ValueId> operands = {c.ohwi};
  for (size_t i = 2; i < n.input_count(); ++i) {
    LATHE_TRY(operands.emplace_back(), n.has_input(i) ? n.value(i) : Result<ValueId>(kNoId));
  }
  return finish_images(n, c.images, Op::kConvInteger, c.attrs, std::move(operands));
}

namespace {

// Pads of one axis so that a transposed convolution's result has `out` elements, for `natural` of them without pads. Missing ones
// are appended at its end.
Result<void> distribute_pads(int64_t natural, int64_t out, bool upper, int axis, ConvTranspose2dAttrs& attrs) {
  const int64_t total = natural - out, most = std::max(attrs.stride[axis], attrs.dilation[axis]) - 1 - attrs.output_pad[axis];
  if (out < 1 || total < -most || total > INT32_MAX)
    return fail(Code::kUnsupported, "an output of " + std::to_string(out) + " elements along a spatial axis is not supported, " +
                                        "without pads it has " + std::to_string(natural));
  if (total < 0) {
    attrs.output_pad[axis] += static_cast<int32_t>(-total);
    return {};
  }
  const auto small = static_cast<int32_t>(total / 2), large = static_cast<int32_t>(total - total / 2);
  attrs.pad[axis] = upper ? small : large;
  attrs.pad[axis + 2] = upper ? large : small;
  return {};
}

// Fills stride, dilation, output_pad and pad. Given sizes of the result (output_shape) or SAME rule pads out.
Result<void> apply_transposed_window(NodeImport& n, const Window& w, ValueId x, const int32_t (&kernel)[2],
                                     const std::optional<std::vector<int64_t>>& output_pad,
                                     const std::optional<std::vector<int64_t>>& output_shape, ConvTranspose2dAttrs& attrs) {
  LATHE_CHECK_OK(copy_list(w.stride, "strides", 1, attrs.stride));
  LATHE_CHECK_OK(copy_list(w.dilation, "dilations", 1, attrs.dilation));
  LATHE_CHECK_OK(copy_list(output_pad, "output_padding", 0, attrs.output_pad));
  if (output_shape && output_shape->size() != 2 && output_shape->size() != 4)
    return fail(Code::kInvalidArgument, "output_shape has " + std::to_string(output_shape->size()) + " entries, not 2");
  const bool same = w.auto_pad == "SAME_UPPER" || w.auto_pad == "SAME_LOWER";
  if (!output_shape && !same) return w.auto_pad == "VALID" ? Result<void>{} : copy_list(w.pads, "pads", 0, attrs.pad);
  for (int i = 0; i < 2; ++i) {
    const int64_t extent = (int64_t{kernel[i]} - 1) * attrs.dilation[i] + 1 + attrs.output_pad[i];
    // (in - 1) * stride + extent elements without pads; SAME wants in * stride of them whatever the size is.
    int64_t in = 1, out = attrs.stride[i];
    if (output_shape) {
      const auto known = n.dim(x, static_cast<size_t>(2 + i));
      if (!known) return fail(Code::kUnsupported, "output_shape needs the input's height and width; --shape can fix them");
      in = *known;
      out = (*output_shape)[output_shape->size() - 2 + static_cast<size_t>(i)];
    }
    LATHE_CHECK_OK(distribute_pads((in - 1) * attrs.stride[i] + extent, out, w.auto_pad == "SAME_UPPER", i, attrs));
  }
  return {};
}

// IOHW of every group to OHWI of all.
ConstTensor transposed_weight(const ConstTensor& w, int64_t groups) {
  ConstTensor split = w;
  split.dims = {groups, w.dims[0] / groups, w.dims[1], w.dims[2], w.dims[3]};
  ConstTensor out = permuted(split, {0, 2, 3, 4, 1});
  out.dims = {groups * w.dims[1], w.dims[2], w.dims[3], w.dims[0] / groups};
  return out;
}

}  // namespace

Result<void> import_conv_transpose(NodeImport& n) {
  LATHE_TRY(Window w, read_window(n));
  LATHE_TRY(const int64_t groups, n.integer("group", 1));
  LATHE_TRY(auto output_pad, n.integers("output_padding"));
  LATHE_TRY(auto output_shape, n.integers("output_shape"));
  LATHE_TRY(ConstTensor weight, read_weight(n));
  LATHE_TRY(const Images images, read_images(n));
  LATHE_CHECK_OK(fit_weight(weight, images));
  LATHE_TRY(w, fitted(w, images));
  LATHE_CHECK_OK(widen(output_pad, "output_padding", images, 0));
  LATHE_CHECK_OK(widen(output_shape, "output_shape", images, 1));
  if (groups < 1 || groups > INT32_MAX || weight.dims[0] % groups != 0)
    return fail(Code::kInvalidArgument,
                "group is " + std::to_string(groups) + " for " + std::to_string(weight.dims[0]) + " input channels");

  ConvTranspose2dAttrs attrs;
  attrs.groups = static_cast<int32_t>(groups);
  const int32_t kernel[2] = {static_cast<int32_t>(weight.dims[2]), static_cast<int32_t>(weight.dims[3])};
  LATHE_CHECK_OK(check_kernel(w, weight));
  LATHE_CHECK_OK(apply_transposed_window(n, w, images.value, kernel, output_pad, output_shape, attrs));

  LATHE_TRY(const ValueId ohwi, n.builder().constant(transposed_weight(weight, groups)));
  return finish_convolution(n, Op::kConvTranspose2d, attrs, images, ohwi);
}

}  // namespace lathe::onnx
