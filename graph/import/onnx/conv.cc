// Convolution, pooling and batch normalization. ONNX has channels second; our windowed operators are NHWC, so each is wrapped in
// two transposes, which the import passes cancel between neighbours.
#include <string>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {
namespace {

PermAttrs perm_attrs(std::initializer_list<int32_t> axes) {
  PermAttrs a;
  for (int32_t axis : axes) a.perm.values[a.perm.count++] = axis;
  return a;
}
PermAttrs nchw_to_nhwc() { return perm_attrs({0, 2, 3, 1}); }
PermAttrs nhwc_to_nchw() { return perm_attrs({0, 3, 1, 2}); }

// Attributes that Conv and the pools share, as the file has them.
struct Window {
  std::optional<std::vector<int64_t>> kernel, stride, dilation, pads;
  std::string_view auto_pad;
};

Result<Window> read_window(NodeImport& n) {
  Window w;
  LATHE_TRY(w.kernel, n.integers("kernel_shape"));
  LATHE_TRY(w.stride, n.integers("strides"));
  LATHE_TRY(w.dilation, n.integers("dilations"));
  LATHE_TRY(w.pads, n.integers("pads"));
  LATHE_TRY(w.auto_pad, n.text("auto_pad", "NOTSET"));
  if (w.auto_pad != "NOTSET" && w.auto_pad != "VALID" && w.auto_pad != "SAME_UPPER" && w.auto_pad != "SAME_LOWER")
    return fail(Code::kUnsupported, "auto_pad '" + std::string(w.auto_pad) + "' is not supported");
  for (const auto* list : {&w.kernel, &w.stride, &w.dilation})
    if (*list && (*list)->size() != 2)
      return fail(Code::kUnsupported, std::to_string((*list)->size()) + "-d windows are not supported, only 2-d");
  return w;
}

// Copies a list of the file into attributes. Absent: they keep their defaults.
template <size_t N>
Result<void> copy_list(const std::optional<std::vector<int64_t>>& from, const char* what, int64_t least, int32_t (&to)[N]) {
  if (!from) return {};
  if (from->size() != N)
    return fail(Code::kInvalidArgument,
                std::string(what) + " has " + std::to_string(from->size()) + " entries, not " + std::to_string(N));
  for (size_t i = 0; i < N; ++i) {
    if ((*from)[i] < least || (*from)[i] > INT32_MAX)
      return fail(Code::kInvalidArgument, std::string(what) + " has the entry " + std::to_string((*from)[i]));
    to[i] = static_cast<int32_t>((*from)[i]);
  }
  return {};
}

// Total padding of one axis for SAME: the result has ceil(in / stride) elements. With stride 1 it does not depend on the size.
Result<int64_t> same_padding(std::optional<int64_t> in, int64_t stride, int64_t extent) {
  if (stride == 1) return extent - 1;
  if (!in)
    return fail(Code::kUnsupported, "auto_pad SAME with stride " + std::to_string(stride) +
                                        " needs the input's height and width; --shape can fix them");
  const int64_t out = (*in + stride - 1) / stride;
  return std::max<int64_t>((out - 1) * stride + extent - *in, 0);
}

// Fills stride, dilation and pad of `attrs` (Conv2dAttrs or Pool2dAttrs) for a window of kernel[0] x kernel[1] over x (NCHW).
template <class A> Result<void> apply_window(NodeImport& n, const Window& w, ValueId x, const int32_t (&kernel)[2], A& attrs) {
  LATHE_CHECK_OK(copy_list(w.stride, "strides", 1, attrs.stride));
  LATHE_CHECK_OK(copy_list(w.dilation, "dilations", 1, attrs.dilation));
  if (w.auto_pad == "NOTSET") return copy_list(w.pads, "pads", 0, attrs.pad);
  if (w.auto_pad == "VALID") return {};
  for (int i = 0; i < 2; ++i) {
    const int64_t extent = (int64_t{kernel[i]} - 1) * attrs.dilation[i] + 1;
    LATHE_TRY(const int64_t total, same_padding(n.dim(x, static_cast<size_t>(2 + i)), attrs.stride[i], extent));
    if (total > INT32_MAX) return fail(Code::kInvalidArgument, "the window is " + std::to_string(extent) + " elements wide");
    const auto small = static_cast<int32_t>(total / 2), large = static_cast<int32_t>(total - total / 2);
    const bool upper = w.auto_pad == "SAME_UPPER";
    attrs.pad[i] = upper ? small : large;
    attrs.pad[i + 2] = upper ? large : small;
  }
  return {};
}

Result<void> expect_images(NodeImport& n, ValueId x) {
  if (n.rank(x) == 4) return {};
  return fail(Code::kUnsupported,
              "an input of rank " + std::to_string(n.rank(x)) + " is not supported, only 2-d images (rank 4)");
}

// An op on NHWC images, wrapped in transposes. Its operands are images as they come, then others as it wants them.
Result<void> finish_images(NodeImport& n, Op op, Attrs attrs, std::vector<ValueId> operands) {
  LATHE_TRY(operands[0], n.emit("nhwc", Op::kTranspose, nchw_to_nhwc(), {operands[0]}));
  LATHE_TRY(const ValueId y, n.emit("", op, std::move(attrs), std::move(operands)));
  return n.finish(Op::kTranspose, nhwc_to_nchw(), {y}, 0, "nchw");
}

// The same with packed weights and the bias that the node may have.
Result<void> finish_convolution(NodeImport& n, Op op, Attrs attrs, ValueId x, ValueId ohwi) {
  std::vector<ValueId> operands = {x, ohwi};
  if (n.has_input(2)) {
    LATHE_TRY(const auto bias, n.constant(2));
    if (!bias) return fail(Code::kUnsupported, "bias '" + std::string(n.proto().inputs[2]) + "' is not constant");
    LATHE_TRY(operands.emplace_back(), n.value(2));
  }
  return finish_images(n, op, std::move(attrs), std::move(operands));
}

// Attribute 'kernel_shape', if it is there, repeats the weight's last dims.
Result<void> check_kernel(const Window& w, const ConstTensor& weight) {
  if (!w.kernel || *w.kernel == std::vector<int64_t>{weight.dims[2], weight.dims[3]}) return {};
  return fail(Code::kInvalidArgument,
              "kernel_shape is " + dims_text(*w.kernel) + ", the weight's dims are " + dims_text(weight.dims));
}

Result<void> import_pool(NodeImport& n, Op op, Pool2dAttrs attrs) {
  LATHE_TRY(const Window w, read_window(n));
  LATHE_TRY(const bool ceil_mode, n.flag("ceil_mode", false));
  if (!w.kernel) return fail(Code::kInvalidArgument, "attribute 'kernel_shape' is missing");
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_CHECK_OK(expect_images(n, x));
  LATHE_CHECK_OK(copy_list(w.kernel, "kernel_shape", 1, attrs.kernel));
  LATHE_CHECK_OK(apply_window(n, w, x, attrs.kernel, attrs));
  attrs.ceil_mode = ceil_mode ? 1 : 0;
  return finish_images(n, op, attrs, {x});
}

}  // namespace

Result<void> import_conv(NodeImport& n) {
  LATHE_TRY(const Window w, read_window(n));
  LATHE_TRY(const int64_t groups, n.integer("group", 1));
  LATHE_TRY(const auto weight, n.constant(1));
  if (!weight) return fail(Code::kUnsupported, "weight '" + std::string(n.proto().inputs[1]) + "' is not constant");
  LATHE_TRY(const ValueId x, n.value(0));
  if (weight->dims.size() != 4)
    return fail(Code::kUnsupported,
                "a weight of rank " + std::to_string(weight->dims.size()) + " is not supported, only 2-d convolution (rank 4)");
  LATHE_CHECK_OK(expect_images(n, x));
  if (groups < 1 || groups > INT32_MAX) return fail(Code::kInvalidArgument, "group is " + std::to_string(groups));

  Conv2dAttrs attrs;
  attrs.groups = static_cast<int32_t>(groups);
  int32_t kernel[2] = {static_cast<int32_t>(weight->dims[2]), static_cast<int32_t>(weight->dims[3])};
  LATHE_CHECK_OK(check_kernel(w, *weight));
  LATHE_CHECK_OK(apply_window(n, w, x, kernel, attrs));

  // OIHW to OHWI. The bytes are shared where only axes of size 1 move: 1x1 kernels and depthwise weights.
  LATHE_TRY(const ValueId ohwi, n.builder().constant(permuted(*weight, {0, 2, 3, 1})));
  return finish_convolution(n, Op::kConv2d, attrs, x, ohwi);
}

namespace {

// Pads of one axis so that a transposed convolution's result has `out` elements, for `natural` of them without pads.
Result<void> distribute_pads(int64_t natural, int64_t out, bool upper, int axis, ConvTranspose2dAttrs& attrs) {
  const int64_t total = natural - out;
  if (out < 1 || total < 0 || total > INT32_MAX)
    return fail(Code::kUnsupported, "an output of " + std::to_string(out) + " elements along a spatial axis is not supported, " +
                                        "without pads it has " + std::to_string(natural));
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
  LATHE_TRY(const Window w, read_window(n));
  LATHE_TRY(const int64_t groups, n.integer("group", 1));
  LATHE_TRY(const auto output_pad, n.integers("output_padding"));
  LATHE_TRY(const auto output_shape, n.integers("output_shape"));
  LATHE_TRY(const auto weight, n.constant(1));
  if (!weight) return fail(Code::kUnsupported, "weight '" + std::string(n.proto().inputs[1]) + "' is not constant");
  LATHE_TRY(const ValueId x, n.value(0));
  if (weight->dims.size() != 4)
    return fail(Code::kUnsupported, "a weight of rank " + std::to_string(weight->dims.size()) +
                                        " is not supported, only 2-d transposed convolution (rank 4)");
  LATHE_CHECK_OK(expect_images(n, x));
  if (groups < 1 || groups > INT32_MAX || weight->dims[0] % groups != 0)
    return fail(Code::kInvalidArgument, "group is " + std::to_string(groups) + " for " + std::to_string(weight->dims[0]) +
                                            " input channels");

  ConvTranspose2dAttrs attrs;
  attrs.groups = static_cast<int32_t>(groups);
  const int32_t kernel[2] = {static_cast<int32_t>(weight->dims[2]), static_cast<int32_t>(weight->dims[3])};
  LATHE_CHECK_OK(check_kernel(w, *weight));
  LATHE_CHECK_OK(apply_transposed_window(n, w, x, kernel, output_pad, output_shape, attrs));

  LATHE_TRY(const ValueId ohwi, n.builder().constant(transposed_weight(*weight, groups)));
  return finish_convolution(n, Op::kConvTranspose2d, attrs, x, ohwi);
}

Result<void> import_max_pool(NodeImport& n) {
  n.ignore("storage_order");  // orders the indices only, which are refused
  return import_pool(n, Op::kMaxPool2d, {});
}

Result<void> import_average_pool(NodeImport& n) {
  LATHE_TRY(const bool count_pad, n.flag("count_include_pad", false));
  Pool2dAttrs attrs;
  attrs.count_pad = count_pad ? 1 : 0;
  return import_pool(n, Op::kAvgPool2d, attrs);
}

Result<void> import_global_average_pool(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  if (n.rank(x) < 3)
    return fail(Code::kInvalidArgument, "the input has rank " + std::to_string(n.rank(x)) + ", at least 3 is needed");
  ReduceAttrs attrs;
  for (size_t i = 2; i < n.rank(x); ++i) attrs.axes.values[attrs.axes.count++] = static_cast<int32_t>(i);
  return n.finish(Op::kMean, attrs, {x});
}

Result<void> import_global_max_pool(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_CHECK_OK(expect_images(n, x));
  Pool2dAttrs attrs;
  for (int i = 0; i < 2; ++i) {
    const auto size = n.dim(x, static_cast<size_t>(2 + i));
    if (!size) return fail(Code::kUnsupported, "the input's height and width must be known; --shape can fix them");
    attrs.kernel[i] = static_cast<int32_t>(*size);
  }
  return finish_images(n, Op::kMaxPool2d, attrs, {x});
}

Result<void> import_batch_norm(NodeImport& n) {
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  n.ignore("momentum");
  if (n.opset() < 9) {
    LATHE_TRY(const bool spatial, n.flag("spatial", true));
    if (!spatial) return fail(Code::kUnsupported, "attribute 'spatial' 0 is not supported");
  }
  if (n.opset() >= 14) {
    LATHE_TRY(const bool training, n.flag("training_mode", false));
    if (training) return fail(Code::kUnsupported, "attribute 'training_mode' 1 is not supported");
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 5; ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  if (n.rank(operands[0]) < 2)
    return fail(Code::kInvalidArgument, "the input has rank " + std::to_string(n.rank(operands[0])) + ", at least 2 is needed");
  return n.finish(Op::kBatchNorm, BatchNormAttrs{epsilon, 1}, operands);
}

Result<void> import_layer_norm(NodeImport& n) {
  LATHE_TRY(const int64_t given, n.integer("axis", -1));
  LATHE_TRY(const float epsilon, n.real("epsilon", 1e-5f));
  LATHE_TRY(const int64_t stash_type, n.integer("stash_type", 1));
  if (stash_type != 1)
    return fail(Code::kUnsupported, "attribute 'stash_type' " + std::to_string(stash_type) + " is not supported");
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const int32_t axis, n.normalized_axis(given, n.rank(x)));
  std::vector<ValueId> operands = {x};
  for (size_t i = 1; i < n.input_count(); ++i) {
    if (!n.has_input(i)) continue;
    LATHE_TRY(operands.emplace_back(), n.value(i));
  }
  return n.finish(Op::kLayerNorm, LayerNormAttrs{axis, epsilon}, operands);
}

}  // namespace lathe::onnx
