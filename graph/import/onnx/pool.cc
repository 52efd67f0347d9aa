// Pooling: maxima, averages and norms over windows, and maxima put back.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "graph/import/onnx/reshape.h"
#include "graph/import/onnx/window.h"

namespace lathe::onnx {
namespace {

// Fills a pool's window over `images`.
template <class A> Result<void> fill_pool(NodeImport& n, const Window& as_given, const Images& images, A& attrs) {
  LATHE_TRY(const Window w, fitted(as_given, images));
  if (!w.kernel) return fail(Code::kInvalidArgument, "attribute 'kernel_shape' is missing");
  LATHE_CHECK_OK(copy_list(w.kernel, "kernel_shape", 1, attrs.kernel));
  return apply_window(n, w, images.value, attrs.kernel, attrs);
}

Result<void> import_pool(NodeImport& n, Op op, Pool2dAttrs attrs) {
  LATHE_TRY(const Window w, read_window(n));
  LATHE_TRY(const bool ceil_mode, n.flag("ceil_mode", false));
  attrs.ceil_mode = ceil_mode ? 1 : 0;
  LATHE_TRY(const Images images, read_images(n));
  LATHE_CHECK_OK(fill_pool(n, w, images, attrs));
  const DType dtype = n.type(images.value).dtype;
  if (op != Op::kMaxPool2d || (dtype != DType::kU8 && dtype != DType::kS8)) return finish_images(n, images, op, attrs);
  // A maximum of small integers: they are float32 in between, which holds all of them.
  LATHE_TRY(ValueId x, n.emit("real", Op::kCast, CastAttrs{static_cast<int32_t>(DType::kF32)}, {images.value}));
  LATHE_TRY(x, n.emit("nhwc", Op::kTranspose, nchw_to_nhwc(), {x}));
  LATHE_TRY(x, n.emit("", Op::kMaxPool2d, attrs, {x}));
  LATHE_TRY(x, n.emit("nchw", Op::kTranspose, nhwc_to_nchw(), {x}));
  LATHE_TRY(x, n.emit("integers", Op::kCast, CastAttrs{static_cast<int32_t>(dtype)}, {x}));
  return finish_nchw(n, images, x);
}

// Maxima and their places.
Result<void> import_arg_max_pool(NodeImport& n, bool column_major) {
  LATHE_TRY(const Window w, read_window(n));
  LATHE_TRY(const bool ceil_mode, n.flag("ceil_mode", false));
  LATHE_TRY(const Images images, read_images(n));
  ArgMaxPoolAttrs attrs;
  LATHE_CHECK_OK(fill_pool(n, w, images, attrs));
  attrs.ceil_mode = ceil_mode ? 1 : 0;
  attrs.column_major = column_major ? 1 : 0;
  LATHE_TRY(const auto all, n.emit_all("", Op::kArgMaxPool2d, attrs, {images.value}));
  LATHE_CHECK_OK(finish_nchw(n, images, all[0], 0));
  return finish_nchw(n, images, all[1], 1);
}

// |x|^p for a whole p >= 1; a negative slope of -1 makes |x|.
Result<ValueId> absolute_power(NodeImport& n, ValueId x, int64_t p) {
  ValueId base = x;
  if (p % 2 != 0) {
    LATHE_TRY(base, n.emit("absolute", Op::kLeakyRelu, LeakyReluAttrs{-1.0f}, {x}));
  }
  ValueId power = base;
  for (int64_t i = 1; i < p; ++i) {
    LATHE_TRY(power, n.emit("power" + std::to_string(i + 1), Op::kMul, BinaryAttrs{}, {power, base}));
  }
  return power;
}

// x^(1/p) for x >= 0.
Result<ValueId> root(NodeImport& n, ValueId x, int64_t p) {
  if (p == 1) return x;
  if (p == 2) return n.emit("root", Op::kSqrt, NoAttrs{}, {x});
  LATHE_TRY(const ValueId exponent, n.scalar_constant("exponent", 1.0f / static_cast<float>(p)));
  return n.emit("root", Op::kPow, NoAttrs{}, {x, exponent});
}

}  // namespace

Result<void> import_max_pool(NodeImport& n) {
  LATHE_TRY(const bool column_major, n.flag("storage_order", false));  // orders the indices only
  return n.has_output(1) ? import_arg_max_pool(n, column_major) : import_pool(n, Op::kMaxPool2d, {});
}

Result<void> import_average_pool(NodeImport& n) {
  LATHE_TRY(const bool count_pad, n.flag("count_include_pad", false));
  Pool2dAttrs attrs;
  attrs.count_pad = count_pad ? 1 : 0;
  return import_pool(n, Op::kAvgPool2d, attrs);
}

// (sum |x|^p)^(1/p): the sum is an average that counts padding, times the number of taps.
Result<void> import_lp_pool(NodeImport& n) {
  LATHE_TRY(const Window w, read_window(n));
  LATHE_TRY(const int64_t p, n.integer("p", 2));
  LATHE_TRY(const bool ceil_mode, n.flag("ceil_mode", false));
  if (p < 1 || p > 16) return fail(Code::kUnsupported, "attribute 'p' " + std::to_string(p) + " is not supported, only 1 to 16");
  if (ceil_mode) return fail(Code::kUnsupported, "attribute 'ceil_mode' 1 is not supported");
  LATHE_TRY(const Images images, read_images(n));
  Pool2dAttrs attrs;
  attrs.count_pad = 1;
  LATHE_CHECK_OK(fill_pool(n, w, images, attrs));
  LATHE_TRY(ValueId x, absolute_power(n, images.value, p));
  LATHE_TRY(x, n.emit("nhwc", Op::kTranspose, nchw_to_nhwc(), {x}));
  LATHE_TRY(x, n.emit("mean", Op::kAvgPool2d, attrs, {x}));
  LATHE_TRY(const ValueId taps, n.scalar_constant("taps", static_cast<float>(int64_t{attrs.kernel[0]} * attrs.kernel[1])));
  LATHE_TRY(x, n.emit("sum", Op::kMul, BinaryAttrs{}, {x, taps}));
  LATHE_TRY(x, root(n, x, p));
  LATHE_TRY(x, n.emit("nchw", Op::kTranspose, nhwc_to_nchw(), {x}));
  return finish_nchw(n, images, x);
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
  LATHE_TRY(const Images images, read_images(n));
  Pool2dAttrs attrs;
  for (int i = 0; i < 2; ++i) {
    const auto size = n.dim(images.value, static_cast<size_t>(2 + i));
    if (!size) return fail(Code::kUnsupported, "the input's height and width must be known; --shape can fix them");
    attrs.kernel[i] = static_cast<int32_t>(*size);
  }
  return finish_images(n, images, Op::kMaxPool2d, attrs);
}

// Maxima back in their places, which are indices into the whole result; zeros elsewhere.
Result<void> import_max_unpool(NodeImport& n) {
  LATHE_TRY(const Window w, read_window(n));
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const ValueId places, n.value(1));
  std::vector<int64_t> dims;
  int64_t count = 1;
  for (size_t i = 0; i < n.rank(x); ++i) {
    const auto d = n.dim(x, i);
    if (!d) return fail(Code::kUnsupported, "all dims of the input must be known; --shape can fix them");
    dims.push_back(*d);
  }
  const size_t spatial = dims.size() < 3 ? 0 : dims.size() - 2;
  for (const auto* list : {&w.kernel, &w.stride})
    if (spatial == 0 || (*list && (*list)->size() != spatial) || (w.pads && w.pads->size() != 2 * spatial) || !w.kernel)
      return fail(Code::kInvalidArgument, "the window does not fit an input of rank " + std::to_string(dims.size()));
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t stride = w.stride ? (*w.stride)[i] : 1, pads = w.pads ? (*w.pads)[i] + (*w.pads)[i + spatial] : 0;
    if (stride < 1 || stride > INT32_MAX || std::abs(pads) > INT32_MAX || (*w.kernel)[i] > INT32_MAX)
      return fail(Code::kInvalidArgument, "a stride, pad or kernel is out of range");
    dims[2 + i] = (dims[2 + i] - 1) * stride - pads + (*w.kernel)[i];
  }
  const std::vector<int64_t> natural = dims;
  if (n.has_input(2)) {
    LATHE_TRY(dims, n.known_integers(2, "the output dims"));
  }
  for (int64_t d : natural)
    if (d < 1 || __builtin_mul_overflow(count, d, &count) || count > INT32_MAX)
      return fail(Code::kInvalidArgument, "the result has dims " + dims_text(natural));
  LATHE_TRY(const ValueId zero, n.scalar_constant("zero", 0.0f));
  LATHE_TRY(const ValueId size, n.integers_constant("size", {count}));
  LATHE_TRY(const ValueId zeros, n.emit("zeros", Op::kExpand, NoAttrs{}, {zero, size}));
  LATHE_TRY(const ValueId flat_x, reshaped(n, "x", x, std::vector<int64_t>{-1}));
  LATHE_TRY(const ValueId flat_places, reshaped(n, "places", places, std::vector<int64_t>{-1}));
  LATHE_TRY(const ValueId flat, n.emit("", Op::kScatterElements, ScatterAttrs{}, {zeros, flat_places, flat_x}));
  if (dims == natural) {
    std::vector<Dim> known;
    for (int64_t d : dims) known.push_back(n.dims().constant(d));
    return finish_reshaped(n, flat, known, "image");
  }
  // A larger result has the images in its upper left corner.
  PadAttrs pad;
  if (dims.size() != natural.size()) return fail(Code::kInvalidArgument, "the output dims are " + dims_text(dims));
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] > INT32_MAX) return fail(Code::kInvalidArgument, "the output dims are " + dims_text(dims));
    pad.before.values[pad.before.count++] = 0;
    pad.after.values[pad.after.count++] = static_cast<int32_t>(dims[i] - natural[i]);
  }
  LATHE_TRY(const ValueId image, reshaped(n, "image", flat, natural));
  return n.finish(Op::kPad, pad, {image}, 0, "pad");
}

}  // namespace lathe::onnx
