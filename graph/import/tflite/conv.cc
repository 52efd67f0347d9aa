// Convolutions, pools, fully connected layers and batched products. TFLite's tensors are NHWC and its weights OHWI, as ours
// are; a depthwise weight is [1, kh, kw, oc].
#include <algorithm>
#include <cstring>

#include "graph/import/tflite/importer.h"
#include "graph/import/tflite/layers.h"

namespace lathe::tflite {
namespace {

struct Window {
  fbs::Padding padding;
  int32_t stride[2];
  int32_t dilation[2] = {1, 1};
};

// Total padding of one axis for SAME: the result has ceil(in / stride) elements. With stride 1 it does not depend on the size.
Result<int64_t> same_padding(std::optional<int64_t> in, int64_t stride, int64_t extent) {
  if (stride == 1) return extent - 1;
  if (!in)
    return fail(Code::kUnsupported, "padding SAME with stride " + std::to_string(stride) +
                                        " needs the input's height and width; --shape can fix them");
  const int64_t out = (*in + stride - 1) / stride;
  return std::max<int64_t>((out - 1) * stride + extent - *in, 0);
}

// Fills stride, dilation and pad of `attrs` for a window of kernel[0] x kernel[1] over x. An odd pad is larger behind.
template <class A> Result<void> apply_window(NodeImport& n, const Window& w, ValueId x, const int64_t (&kernel)[2], A& attrs) {
  for (int i = 0; i < 2; ++i) {
    if (w.stride[i] < 1 || w.dilation[i] < 1)
      return fail(Code::kInvalidArgument, "stride " + std::to_string(w.stride[i]) + ", dilation " +
                                              std::to_string(w.dilation[i]) + ", must be at least 1");
    attrs.stride[i] = w.stride[i];
    attrs.dilation[i] = w.dilation[i];
    if (w.padding != fbs::Padding_SAME) continue;
    const int64_t extent = (kernel[i] - 1) * w.dilation[i] + 1;
    LATHE_TRY(const int64_t total, same_padding(n.dim(x, static_cast<size_t>(1 + i)), w.stride[i], extent));
    if (total > INT32_MAX) return fail(Code::kInvalidArgument, "the window is " + std::to_string(extent) + " elements wide");
    attrs.pad[i] = static_cast<int32_t>(total / 2);
    attrs.pad[i + 2] = static_cast<int32_t>(total - total / 2);
  }
  return {};
}

Result<void> expect_rank(NodeImport& n, ValueId v, size_t rank, const char* what) {
  if (n.rank(v) == rank) return {};
  return fail(Code::kUnsupported, std::string(what) + " has rank " + std::to_string(n.rank(v)) + ", only " +
                                      std::to_string(rank) + " is supported");
}

// A weight, constant, of known dims.
Result<ValueId> constant_weight(NodeImport& n, size_t i, size_t rank) {
  LATHE_TRY(const ValueId w, n.value(i));
  if (n.builder().graph.value(w).kind != ValueKind::kConstant) return fail(Code::kUnsupported, "the weight is not constant");
  LATHE_CHECK_OK(expect_rank(n, w, rank, "the weight"));
  return w;
}

int64_t weight_dim(NodeImport& n, ValueId w, size_t axis) { return n.dim(w, axis).value_or(0); }

// An INT8 weight of a float layer as float.
Result<ValueId> real_weight(NodeImport& n, ValueId w) {
  Builder& b = n.builder();
  LATHE_TRY(const std::vector<float> elements, b.real_elements(w));
  const Value& value = b.graph.value(w);
  return b.graph.add_constant(b.value_name(value.name + ":real"), {DType::kF32, value.type.dims}, Constant::of(elements));
}

// [1, kh, kw, oc] as [oc, kh, kw, 1].
Result<ValueId> channels_first(NodeImport& n, ValueId w) {
  Builder& b = n.builder();
  const Value& value = b.graph.value(w);
  if (weight_dim(n, w, 0) != 1)
    return fail(Code::kInvalidArgument,
                "a depthwise weight has " + std::to_string(weight_dim(n, w, 0)) + " as first dim, not 1");
  const auto channels = static_cast<size_t>(weight_dim(n, w, 3));
  const size_t elem = dtype_bytes(value.type.dtype), taps = value.constant.bytes.size() / elem / channels;
  std::vector<std::byte> out(value.constant.bytes.size());
  LATHE_CHECK_OK(b.charge(out.size()));
  for (size_t t = 0; t < taps; ++t)
    for (size_t c = 0; c < channels; ++c)
      std::memcpy(&out[(c * taps + t) * elem], &value.constant.bytes[(t * channels + c) * elem], elem);
  std::vector<Dim> dims = value.type.dims;
  std::swap(dims[0], dims[3]);
  std::optional<Quant> quant = value.quant;
  if (quant && quant->axis != -1) quant->axis = quant->axis == 3 ? 0 : quant->axis == 0 ? 3 : quant->axis;
  return b.graph.add_constant(b.value_name(value.name + ":ohwi"), {value.type.dtype, std::move(dims)}, Constant::copy(out),
                              std::move(quant));
}

// x, weight and bias, where there is one, on one footing: an INT8 weight of a float layer becomes float.
Result<std::vector<ValueId>> layer_operands(NodeImport& n, ValueId x, ValueId w, size_t bias) {
  if (!n.quant(x) && n.quant(w)) {
    LATHE_TRY(w, real_weight(n, w));
  }
  std::vector<ValueId> operands = {x, w};
  if (!n.has_input(bias)) return operands;
  LATHE_TRY(operands.emplace_back(), n.value(bias));
  // Beside 16-bit activations a bias has 64 bits, or is widened to that.
  if (n.type(x).dtype == DType::kS16 && n.type(operands[2]).dtype == DType::kS32) {
    LATHE_TRY(operands[2], n.emit("bias", Op::kCast, CastAttrs{static_cast<int32_t>(DType::kS64)}, {operands[2]}));
  }
  return operands;
}

template <class O> Result<Conv2dAttrs> conv_attrs(NodeImport& n, const O& o, ValueId x, ValueId w) {
  Conv2dAttrs a;
  const Window window{o.padding(), {o.stride_h(), o.stride_w()}, {o.dilation_h(), o.dilation_w()}};
  LATHE_CHECK_OK(apply_window(n, window, x, {weight_dim(n, w, 1), weight_dim(n, w, 2)}, a));
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o.activation()));
  a.lo = bounds.lo;
  a.hi = bounds.hi;
  return a;
}

tl::unexpected<Error> no_options() { return fail(Code::kCorrupt, "its options are missing"); }

// Channels of x, which groups follow from.
Result<int32_t> channels_of(NodeImport& n, ValueId x) {
  const auto c = n.dim(x, 3);
  if (!c || *c < 1 || *c > INT32_MAX) return fail(Code::kUnsupported, "the number of input channels is not known");
  return static_cast<int32_t>(*c);
}

}  // namespace

Result<void> import_conv(NodeImport& n) {
  const auto* o = n.options().options_as_Conv();
  if (o == nullptr) return no_options();
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_CHECK_OK(expect_rank(n, x, 4, "the input"));
  LATHE_TRY(const ValueId w, constant_weight(n, 1, 4));
  LATHE_TRY(Conv2dAttrs attrs, conv_attrs(n, *o, x, w));
  LATHE_TRY(const int32_t channels, channels_of(n, x));
  const int64_t per_group = weight_dim(n, w, 3);
  if (per_group < 1 || channels % per_group != 0)
    return fail(Code::kInvalidArgument,
                "the weight has " + std::to_string(per_group) + " input channels, the input " + std::to_string(channels));
  attrs.groups = static_cast<int32_t>(channels / per_group);
  if (is_dynamic_conv(n, x, w, attrs)) return finish_dynamic_conv(n, x, w, attrs);
  LATHE_TRY(auto operands, layer_operands(n, x, w, 2));
  return n.finish(Op::kConv2d, attrs, std::move(operands));
}

Result<void> import_depthwise_conv(NodeImport& n) {
  const auto* o = n.options().options_as_DepthwiseConv();
  if (o == nullptr) return no_options();
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_CHECK_OK(expect_rank(n, x, 4, "the input"));
  LATHE_TRY(ValueId w, constant_weight(n, 1, 4));
  LATHE_TRY(w, channels_first(n, w));
  LATHE_TRY(Conv2dAttrs attrs, conv_attrs(n, *o, x, w));
  LATHE_TRY(attrs.groups, channels_of(n, x));
  LATHE_TRY(auto operands, layer_operands(n, x, w, 2));
  return n.finish(Op::kConv2d, attrs, std::move(operands));
}

// The file says the result's shape; the padding follows from it. It is cut off, more of it behind.
Result<void> import_transpose_conv(NodeImport& n) {
  const auto* o = n.options().options_as_TransposeConv();
  if (o == nullptr) return no_options();
  LATHE_TRY(const auto shape, n.known_integers(0, "the output shape"));
  if (shape.size() != 4) return fail(Code::kInvalidArgument, "the output shape has " + std::to_string(shape.size()) + " dims");
  LATHE_TRY(const ValueId x, n.value(2));
  LATHE_CHECK_OK(expect_rank(n, x, 4, "the input"));
  LATHE_TRY(const ValueId w, constant_weight(n, 1, 4));
  ConvTranspose2dAttrs a;
  const int32_t strides[2] = {o->stride_h(), o->stride_w()};
  for (size_t i = 0; i < 2; ++i) {
    const auto in = n.dim(x, 1 + i);
    if (!in) return fail(Code::kUnsupported, "height and width are not known; --shape can fix them");
    if (strides[i] < 1) return fail(Code::kInvalidArgument, "stride is " + std::to_string(strides[i]));
    a.stride[i] = strides[i];
    // Rows before anything is cut off; what the file's shape leaves over is padding behind, or pixels that nothing reaches.
    const int64_t full = (*in - 1) * strides[i] + weight_dim(n, w, 1 + i), out = shape[1 + i];
    const int64_t cut = std::max<int64_t>(full - out, 0), extra = std::max<int64_t>(out - full, 0);
    if (out < 1 || extra >= strides[i] || full > INT32_MAX)
      return fail(Code::kInvalidArgument,
                  "the output shape has " + std::to_string(out) + " where the input makes " + std::to_string(full));
    const int64_t before = o->padding() == fbs::Padding_SAME ? cut / 2 : 0;
    a.pad[i] = static_cast<int32_t>(before);
    a.pad[2 + i] = static_cast<int32_t>(cut - before);
    a.output_pad[i] = static_cast<int32_t>(extra);
  }
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o->activation()));
  a.lo = bounds.lo;
  a.hi = bounds.hi;
  LATHE_TRY(auto operands, layer_operands(n, x, w, 3));
  return n.finish(Op::kConvTranspose2d, a, std::move(operands));
}

namespace {

Result<Pool2dAttrs> pool_attrs(NodeImport& n, const fbs::PoolOptions& o, ValueId x) {
  LATHE_CHECK_OK(expect_rank(n, x, 4, "the input"));
  Pool2dAttrs a;
  a.kernel[0] = o.filter_h();
  a.kernel[1] = o.filter_w();
  const Window window{o.padding(), {o.stride_h(), o.stride_w()}};
  LATHE_CHECK_OK(apply_window(n, window, x, {a.kernel[0], a.kernel[1]}, a));
  return a;
}

}  // namespace

Result<void> import_pool(NodeImport& n) {
  const auto* o = n.options().options_as_Pool();
  if (o == nullptr) return no_options();
  constexpr int32_t kMaxPool = 17;
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const Pool2dAttrs a, pool_attrs(n, *o, x));
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o->activation()));
  const Op op = n.op().code == kMaxPool ? Op::kMaxPool2d : Op::kAvgPool2d;
  if (bounds.lo == -kInfinity && bounds.hi == kInfinity) return n.finish(op, a, {x});
  LATHE_TRY(const ValueId y, n.emit("pool", op, a, {x}, n.quant(x)));
  return n.finish(Op::kClamp, ClampAttrs{bounds.lo, bounds.hi}, {y});
}

// The root of the mean of squares.
Result<void> import_l2_pool(NodeImport& n) {
  const auto* o = n.options().options_as_Pool();
  if (o == nullptr) return no_options();
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(x, n.real(x));
  LATHE_TRY(const Pool2dAttrs a, pool_attrs(n, *o, x));
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o->activation()));
  LATHE_TRY(const ValueId squares, n.emit("squares", Op::kMul, BinaryAttrs{}, {x, x}));
  LATHE_TRY(const ValueId means, n.emit("means", Op::kAvgPool2d, a, {squares}));
  LATHE_TRY(const ValueId roots, n.emit("roots", Op::kSqrt, NoAttrs{}, {means}));
  if (bounds.lo == -kInfinity && bounds.hi == kInfinity) return n.finish_value(roots);
  return n.finish(Op::kClamp, ClampAttrs{bounds.lo, bounds.hi}, {roots});
}

namespace {

// x as rows of k: what a layer without keep_num_dims reads, whatever x's shape.
Result<ValueId> as_rows(NodeImport& n, ValueId x, ValueId w, bool keep_num_dims) {
  const Dim k = n.type(w).dims[1];
  if (n.rank(x) > 0 && n.type(x).dims.back() == k && (keep_num_dims || n.rank(x) == 2)) return x;
  if (keep_num_dims) return fail(Code::kInvalidArgument, "the last dim of its input does not fit the weight");
  Dim elems = n.dims().constant(1);
  for (const Dim d : n.type(x).dims) elems = n.dims().mul(elems, d);
  return n.reshaped("rows", x, {n.dims().floordiv(elems, k), k});
}

// A weight that is computed: x w^T, then the bias.
Result<void> finish_product(NodeImport& n, ValueId x, ValueId w, const ActivationBounds& bounds) {
  MatMulAttrs a;
  a.b_perm.count = 2;
  a.b_perm.values[0] = 1;
  if (!n.has_input(2)) {
    a.lo = bounds.lo;
    a.hi = bounds.hi;
    return n.finish(Op::kMatMul, a, {x, w});
  }
  if (n.quant(x)) return fail(Code::kUnsupported, "a bias after a quantized weight that is computed");
  LATHE_TRY(const ValueId bias, n.value(2));
  LATHE_TRY(const ValueId y, n.emit("product", Op::kMatMul, a, {x, w}));
  return n.finish(Op::kAdd, BinaryAttrs{bounds.lo, bounds.hi}, {y, bias});
}

}  // namespace

Result<void> import_fully_connected(NodeImport& n) {
  const auto* o = n.options().options_as_FullyConnected();
  if (o == nullptr) return no_options();
  if (o->weights_format() != 0)
    return fail(Code::kUnsupported, "weights format " + std::to_string(o->weights_format()) + " is not supported");
  LATHE_TRY(const ActivationBounds bounds, activation_bounds(o->activation()));
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(const ValueId w, n.value(1));
  LATHE_CHECK_OK(expect_rank(n, w, 2, "the weight"));
  if (n.dims().is(n.type(w).dims[1], 0)) return fail(Code::kUnsupported, "the weight is empty");
  LATHE_TRY(x, as_rows(n, x, w, o->keep_num_dims()));
  if (n.builder().graph.value(w).kind != ValueKind::kConstant) return finish_product(n, x, w, bounds);
  if (is_dynamic(n, x, w, o->asymmetric_inputs())) return finish_dynamic(n, x, w, bounds, true);
  LATHE_TRY(auto operands, layer_operands(n, x, w, 2));
  return n.finish(Op::kFullyConnected, FullyConnectedAttrs{bounds.lo, bounds.hi}, std::move(operands));
}

namespace {

Ints last_axes_swapped(size_t rank) {
  Ints perm;
  for (size_t i = 0; i < rank; ++i) perm.values[perm.count++] = static_cast<int32_t>(i);
  std::swap(perm.values[rank - 1], perm.values[rank - 2]);
  return perm;
}

}  // namespace

Result<void> import_batch_matmul(NodeImport& n) {
  const auto* o = n.options().options_as_BatchMatMul();
  LATHE_TRY(ValueId x, n.value(0));
  LATHE_TRY(ValueId y, n.value(1));
  for (const ValueId v : {x, y})
    if (n.rank(v) < 2) return fail(Code::kInvalidArgument, "an input has rank " + std::to_string(n.rank(v)));
  if (!n.quant(x) && n.quant(y)) {
    if (n.builder().graph.value(y).kind != ValueKind::kConstant)
      return fail(Code::kUnsupported, "only its second input is quantized");
    LATHE_TRY(y, real_weight(n, y));
  }
  MatMulAttrs a;
  if (o != nullptr && o->adjoint_y()) a.b_perm = last_axes_swapped(n.rank(y));
  if (o != nullptr && o->adjoint_x()) {
    LATHE_TRY(x, n.emit("transposed", Op::kTranspose, PermAttrs{last_axes_swapped(n.rank(x))}, {x}));
  }
  return n.finish(Op::kMatMul, a, {x, y});
}

}  // namespace lathe::tflite
