#include "graph/import/onnx/window.h"

#include <algorithm>

#include "graph/import/onnx/reshape.h"

namespace lathe::onnx {
namespace {

PermAttrs perm_attrs(std::initializer_list<int32_t> axes) {
  PermAttrs a;
  for (int32_t axis : axes) a.perm.values[a.perm.count++] = axis;
  return a;
}

}  // namespace

PermAttrs nchw_to_nhwc() { return perm_attrs({0, 2, 3, 1}); }
PermAttrs nhwc_to_nchw() { return perm_attrs({0, 3, 1, 2}); }

Result<void> widen(std::optional<std::vector<int64_t>>& list, const char* what, const Images& images, int64_t filler) {
  if (!list || !images.one_axis) return {};
  if (list->size() != 1)
    return fail(Code::kInvalidArgument, std::string(what) + " has " + std::to_string(list->size()) + " entries, not 1");
  list->insert(list->begin(), filler);
  return {};
}

Result<Window> fitted(Window w, const Images& images) {
  LATHE_CHECK_OK(widen(w.kernel, "kernel_shape", images, 1));
  LATHE_CHECK_OK(widen(w.stride, "strides", images, 1));
  LATHE_CHECK_OK(widen(w.dilation, "dilations", images, 1));
  if (!images.one_axis || !w.pads) return w;
  if (w.pads->size() != 2)
    return fail(Code::kInvalidArgument, "pads has " + std::to_string(w.pads->size()) + " entries, not 2");
  w.pads = std::vector<int64_t>{0, (*w.pads)[0], 0, (*w.pads)[1]};
  return w;
}

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
    if (*list && (*list)->size() > 2)
      return fail(Code::kUnsupported,
                  std::to_string((*list)->size()) + "-d windows are not supported, only 1-d and 2-d");
  return w;
}

// The result has ceil(in / stride) elements. With stride 1 that does not depend on the size.
Result<SamePads> same_pads(NodeImport& n, const Window& w, ValueId images, size_t axis, int64_t stride, int64_t extent) {
  int64_t total = extent - 1;
  if (stride != 1) {
    const auto in = n.dim(images, 2 + axis);
    if (!in)
      return fail(Code::kUnsupported, "auto_pad SAME with stride " + std::to_string(stride) +
                                          " needs the input's height and width; --shape can fix them");
    total = std::max<int64_t>(((*in + stride - 1) / stride - 1) * stride + extent - *in, 0);
  }
  if (total > INT32_MAX) return fail(Code::kInvalidArgument, "the window is " + std::to_string(extent) + " elements wide");
  const auto small = static_cast<int32_t>(total / 2), large = static_cast<int32_t>(total - total / 2);
  return w.auto_pad == "SAME_UPPER" ? SamePads{small, large} : SamePads{large, small};
}

Result<Images> read_images(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  if (n.rank(x) == 4) return Images{x, false};
  if (n.rank(x) != 3)
    return fail(Code::kUnsupported, "an input of rank " + std::to_string(n.rank(x)) +
                                        " is not supported, only 1-d and 2-d images (rank 3 and 4)");
  std::vector<Dim> dims = n.type(x).dims;
  dims.insert(dims.begin() + 2, n.dims().constant(1));
  LATHE_TRY(const ValueId wide, reshaped(n, "image", x, dims));
  return Images{wide, true};
}

Result<void> finish_nchw(NodeImport& n, const Images& images, ValueId nchw, size_t output) {
  if (!images.one_axis) {
    n.bind({nchw, nullptr}, output);
    return {};
  }
  std::vector<Dim> dims = n.type(nchw).dims;
  dims.erase(dims.begin() + 2);
  return finish_reshaped(n, nchw, dims, output == 0 ? "line" : "line" + std::to_string(output), output);
}

Result<void> finish_images(NodeImport& n, const Images& images, Op op, Attrs attrs, std::vector<ValueId> more) {
  LATHE_TRY(const ValueId nhwc, n.emit("nhwc", Op::kTranspose, nchw_to_nhwc(), {images.value}));
  more.insert(more.begin(), nhwc);
  LATHE_TRY(const ValueId y, n.emit("", op, std::move(attrs), std::move(more)));
  if (!images.one_axis) return n.finish(Op::kTranspose, nhwc_to_nchw(), {y}, 0, "nchw");
  LATHE_TRY(const ValueId nchw, n.emit("nchw", Op::kTranspose, nhwc_to_nchw(), {y}));
  return finish_nchw(n, images, nchw);
}

}  // namespace lathe::onnx
