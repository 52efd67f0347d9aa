// What convolutions and pools share: windows as the file has them, and images between ONNX's axis order and ours.
//
// ONNX has channels second; our windowed operators are NHWC, so each is wrapped in two transposes, which the import passes cancel
// between neighbours. One spatial axis is an image of height 1.
#pragma once
#include <string>
#include <vector>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {

// Operand 0 as NCHW images: [n, c, l] becomes [n, c, 1, l].
struct Images {
  ValueId value = kNoId;
  bool one_axis = false;
};
Result<Images> read_images(NodeImport& n);

// Attributes that convolutions and pools share, as the file has them.
struct Window {
  std::optional<std::vector<int64_t>> kernel, stride, dilation, pads;
  std::string_view auto_pad;
};
Result<Window> read_window(NodeImport& n);

// The window for `images`: with one spatial axis it becomes 1 high.
Result<Window> fitted(Window w, const Images& images);
// The same for one list of the file, with `filler` for the height.
Result<void> widen(std::optional<std::vector<int64_t>>& list, const char* what, const Images& images, int64_t filler);

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

// Pads of a SAME window of `extent` elements over axis `axis` (0: height) of NCHW images.
struct SamePads {
  int32_t before, after;
};
Result<SamePads> same_pads(NodeImport& n, const Window& w, ValueId images, size_t axis, int64_t stride, int64_t extent);

// Fills stride, dilation and pad of `attrs` (those of a convolution or pool) for a window of kernel[0] x kernel[1] over NCHW.
template <class A> Result<void> apply_window(NodeImport& n, const Window& w, ValueId images, const int32_t (&kernel)[2], A& attrs) {
  LATHE_CHECK_OK(copy_list(w.stride, "strides", 1, attrs.stride));
  LATHE_CHECK_OK(copy_list(w.dilation, "dilations", 1, attrs.dilation));
  if (w.auto_pad == "NOTSET") return copy_list(w.pads, "pads", 0, attrs.pad);
  if (w.auto_pad == "VALID") return {};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t extent = (int64_t{kernel[i]} - 1) * attrs.dilation[i] + 1;
    LATHE_TRY(const SamePads pads, same_pads(n, w, images, i, attrs.stride[i], extent));
    attrs.pad[i] = pads.before;
    attrs.pad[i + 2] = pads.after;
  }
  return {};
}

// Axes 0, 2, 3, 1 and back.
PermAttrs nchw_to_nhwc();
PermAttrs nhwc_to_nchw();

// Output `output` is `nchw`, without the height that read_images() put in.
Result<void> finish_nchw(NodeImport& n, const Images& images, ValueId nchw, size_t output = 0);

// An op on NHWC images, wrapped in transposes; other operands are as it wants them.
Result<void> finish_images(NodeImport& n, const Images& images, Op op, Attrs attrs, std::vector<ValueId> more = {});

}  // namespace lathe::onnx
